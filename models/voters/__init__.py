"""Neighbours, regressions and trees that vote for label sets."""
