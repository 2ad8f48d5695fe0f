"""Attempts to prove a threshold from audits, what they are asked, and when one may succeed.

What counts as evidence is said in `service.domain.evidence`, the tests are in `models.guarantees`.
What the policy sends by itself is decided in `service.services.policy`.
"""
