"""A report on a model that people can look at: one HTML file."""
