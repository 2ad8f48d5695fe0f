"""From marginals to label sets."""
