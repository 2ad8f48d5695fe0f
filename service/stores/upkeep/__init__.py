"""What operators do with a database: migrate, back up, grant, re-encrypt, inspect."""
