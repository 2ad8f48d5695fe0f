"""What one document may say at most; readers of files and doors of the service share it."""

MOST_SET_LABELS = 1_000
"""Most labels of one label set, whoever gives it.

No bound follows from the model: people and outcomes may name labels that it lacks. No document of
the data sets that we measure has more than 28.
"""

MOST_SETS = 64
"""Most label sets of another model for one document."""

LARGEST_SCORE = 1e15
"""Largest size of a score of another model's label set, or of a number of its metadata."""
