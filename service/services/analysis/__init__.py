"""Computations on stored data: forecasts, noise, accuracy over time."""
