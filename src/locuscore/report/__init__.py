"""A page about a scorer on labelled rows."""
