"""``locuscore inspect``: what is in an archive, without building any of it."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from locuscore import inspect_archive
from locuscore.cli._option_values import check_file, chosen_key
from locuscore.cli._options import Archive, KeyFile
from locuscore.cli._terminal import Terminal, print_card, size_text, two_columns

MOST_FEATURES = 30
AUTHENTICATED = "authenticated with the given key"
NOT_CHECKED = "there is one, which cannot be checked without its key"
NO_FORGERY = "the digests guard against damage, not against forgery"


def inspect(*, archive: Archive, key_file: KeyFile = None, terminal: Terminal) -> None:
    """Show what an archive says it holds and guarantees, without building any of it.

    Each member is compared with its digest, and with a key the signature is checked.
    """
    check_file(archive)
    facts = inspect_archive(archive, key=chosen_key(key_file))

    def draw(console: Console) -> None:
        print_card(console, facts["card"])
        console.print()
        console.print(two_columns(_entries(facts)))

    terminal.show(facts, draw)


def _signature(facts: Mapping[str, Any]) -> str:
    if facts["is_authenticated"]:
        return AUTHENTICATED
    return f"{NOT_CHECKED if facts['is_signed'] else 'none'}; {NO_FORGERY}"


def _entries(facts: Mapping[str, Any]) -> dict[str, str]:
    features = [f"{part['name']} ({part['type']})" for part in facts["features"]]
    more = len(features) - MOST_FEATURES
    shown = ", ".join(features[:MOST_FEATURES]) + (f" and {more} more" if more > 0 else "")
    versions = ", ".join(f"{name} {number}" for name, number in facts["written_by"].items())
    return {
        "file": f"{facts['archive']} ({size_text(facts['bytes'])})",
        "loss": facts["loss"] + (f", in {facts['unit']}" if facts.get("unit") else ""),
        "engine": facts["engine"],
        **({"signals": facts["signals"]} if "signals" in facts else {}),
        "predictor": ", ".join(filter(None, (facts["predictor"], facts.get("predictor_held")))),
        "calibration": f"{facts['n_calibration']:,} rows",
        **({"bounds": facts["promise"]} if "promise" in facts else {}),
        "gives": ", ".join(map(str, facts["columns"])),
        "needs": shown,
        "rows as": facts["rows"],
        **_kept_rows(facts.get("kept_rows")),
        "written by": f"{versions} (format {facts['format']})",
        "members": f"{len(facts['members'])}, intact: each has its digest",
        "signature": _signature(facts),
    }


def _kept_rows(kept: Mapping[str, Any] | None) -> dict[str, str]:
    """What is known of the rows of `fit`: numbers and reasons, never a row."""
    if kept is None:
        none = "none: the archive was written before they were kept"
        return {"digests": none, "probe rows": none}
    digests, probe, note = kept["digests"], kept["probe_rows"], kept["note"]
    why = f"none: {note or 'none kept'}"
    known = f"{probe}, to recognise the predictor" + (f" ({note})" if note else "")
    return {
        "digests": f"of {digests:,} rows of fit, to recognise them" if digests else why,
        "probe rows": known if probe else why,
    }
