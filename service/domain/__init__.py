"""What the service is about, in plain Python."""
