"""Simulated weeks: documents with known label sets go through the whole service."""
