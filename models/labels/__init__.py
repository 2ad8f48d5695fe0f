"""One score per label: binary relevance and its calibration."""
