"""Simulated weeks: documents with known label sets pass through the whole service."""
