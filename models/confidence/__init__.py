"""How sure a label set is, and what may be sent."""
