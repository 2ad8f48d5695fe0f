"""Measurements; run each from the root of the repository: `python -m benchmarks.NAME`."""
