"""Types of columns, and the keys that encrypt them."""
