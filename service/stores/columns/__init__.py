"""Types of columns, the keys that encrypt them, and rows as values."""
