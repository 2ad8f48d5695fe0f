"""Thresholds that audits prove, noise rates, drift."""
