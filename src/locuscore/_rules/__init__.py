"""Which rows to accept: rules, how they are chosen, and what they guarantee."""
