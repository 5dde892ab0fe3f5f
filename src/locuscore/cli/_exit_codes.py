"""Exit codes of all commands; docs/command_line.md has the same table."""

OK = 0
FAILED = 1
WRONG_USAGE = 2
NOTHING_ACCEPTED = 3  # a certificate that accepts nothing, without --allow-empty
# A watch that has raised an alarm; a report that finds a claim broken, or can test none, with
# --fail-if-broken.
BROKEN = 4
INTERRUPTED = 130
