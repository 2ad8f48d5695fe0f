"""The catalogue, a file for each chapter (small ones share one)."""
