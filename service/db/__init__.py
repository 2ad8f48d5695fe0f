"""Persistence with SQLAlchemy."""
