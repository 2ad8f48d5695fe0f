"""SQL stores, one per noun."""
