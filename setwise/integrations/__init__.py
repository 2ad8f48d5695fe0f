"""Setwise beside other tools; each module needs an extra of the same name."""
