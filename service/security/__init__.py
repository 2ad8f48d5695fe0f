"""How people and programs prove who they are, and what keeps others out."""
