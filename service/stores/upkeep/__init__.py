"""Database operations for operators: migrate, back up, grant, re-encrypt, inspect."""
