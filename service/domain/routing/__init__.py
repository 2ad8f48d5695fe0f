"""Which documents go out, to review or to an audit: label rules, segments, draws."""
