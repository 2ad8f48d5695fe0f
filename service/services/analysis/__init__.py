"""Computations over what a transaction has read: forecasts, noise, accuracy over time."""
