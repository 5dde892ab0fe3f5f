"""Exit codes of all commands; docs/production.md has the same table."""

OK = 0
FAILED = 1
WRONG_USAGE = 2
NOTHING_ACCEPTED = 3  # a certificate that accepts nothing, without --allow-empty
BROKEN = 4  # a report that finds a claim broken, or can test none, with --fail-if-broken
INTERRUPTED = 130
