"""What every route shares: bodies, problems, limits, headers, cursors, OpenAPI."""
