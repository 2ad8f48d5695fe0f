"""The `setwise` command."""
