"""Mixtures restricted to label sets seen in training."""
