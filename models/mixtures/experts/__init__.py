"""Gate and experts of a mixture, with their M steps."""
