"""Charts and tables of the cockpit."""
