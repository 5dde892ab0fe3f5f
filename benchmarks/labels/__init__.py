"""Which rows to label, and what a rule gains while labels arrive."""
