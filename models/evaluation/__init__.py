"""Metrics, reports, published results and explanations."""
