"""API keys, people and their sessions."""
