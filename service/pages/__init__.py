"""HTML over the services."""
