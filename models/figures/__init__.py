"""Charts as SVG from plain numbers, and how numbers are written beside them."""
