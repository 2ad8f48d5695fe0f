"""Types of columns, plain and encrypted."""
