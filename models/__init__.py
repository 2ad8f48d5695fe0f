"""Learning: label sets with a calibrated confidence. No HTTP, no SQL."""
