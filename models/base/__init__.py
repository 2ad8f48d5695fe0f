"""Marginals and joints of labels."""
