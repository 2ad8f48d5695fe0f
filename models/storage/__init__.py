"""Artifacts: arrays and JSON with checksums."""
