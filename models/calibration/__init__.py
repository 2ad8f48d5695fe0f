"""Confidence that the whole set is right, and answers of noisy annotators."""
