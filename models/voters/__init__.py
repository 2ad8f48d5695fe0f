"""Neighbours and regressions that vote for label sets."""
