"""Setwise as a service: predictions, routing, review, calibration jobs."""
