"""Readers, splits and features: what comes in."""
