"""Datasets, text vectors and splits."""
