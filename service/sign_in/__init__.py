"""Sessions, OpenID Connect and passwords."""
