"""Candidate sets, their features, decision rules and the F-measure."""
