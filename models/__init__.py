"""Setwise's learning code: label sets with a calibrated confidence. No HTTP, no SQL."""
