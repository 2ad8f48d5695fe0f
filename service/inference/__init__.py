"""Fitted predictors inside a running process."""
