"""How certificates, the breaker and others read annotations before `checks`: two must be equal."""
