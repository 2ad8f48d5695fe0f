"""Metrics, reports and explanations."""
