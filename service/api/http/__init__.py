"""Parts that all routes share: bodies, problems, limits, headers, cursors, OpenAPI."""
