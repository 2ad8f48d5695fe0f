"""Other methods and published results, to compare with."""
