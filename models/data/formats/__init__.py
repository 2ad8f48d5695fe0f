"""Readers of files that other tools wrote."""
