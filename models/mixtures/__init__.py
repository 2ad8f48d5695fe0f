"""Conditional Bernoulli mixtures."""
