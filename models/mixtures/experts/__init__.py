"""Gate and experts of a mixture, and the M steps that fit them."""
