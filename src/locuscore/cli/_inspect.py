"""``locuscore inspect``: what is in an archive, without building any of it."""

from typing import Any

from rich.console import Console

from locuscore._archive.container import checked, is_signed, read_archive
from locuscore._scorer import check_manifest
from locuscore.cli._choices import chosen_key
from locuscore.cli._options import Archive, Debug, Json, KeyFile, Quiet
from locuscore.cli._terminal import Terminal, print_card, size_text, two_columns

MOST_FEATURES = 30
AUTHENTICATED = "authenticated with the given key"
NOT_CHECKED = "there is one, which nobody can check without its key"
NO_FORGERY = "the digests guard against damage, not against forgery"


def inspect(
    archive: Archive,
    key_file: KeyFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show what an archive says that it holds and guarantees; nothing in it is built.

    Each member is compared with its digest, and with a key the signature is checked.
    """
    if not archive.is_file():
        raise FileNotFoundError(f"there is no file {archive}.")
    key = chosen_key(key_file)
    manifest, _ = read_archive(archive, key)
    size, has_signature = archive.stat().st_size, is_signed(archive)
    entries = checked(lambda: _entries(manifest), archive)
    signature = _signature(has_signature, is_checked=key is not None)

    def draw(console: Console) -> None:
        print_card(console, manifest["card"])
        console.print()
        file = {"file": f"{archive} ({size_text(size)})"}
        console.print(two_columns({**file, **entries, "signature": signature}))

    facts = {
        "archive": str(archive),
        "bytes": size,
        "is_signed": has_signature,
        "is_authenticated": key is not None,
    }
    Terminal(as_json, quiet).show({**manifest, **facts}, draw)


def _signature(is_signed: bool, *, is_checked: bool) -> str:
    if is_checked:
        return AUTHENTICATED
    return f"{NOT_CHECKED if is_signed else 'none'}; {NO_FORGERY}"


def _entries(manifest: dict[str, Any]) -> dict[str, str]:
    check_manifest(manifest)
    features = [f"{part['name']} ({part['type']})" for part in manifest["features"]]
    more = len(features) - MOST_FEATURES
    shown = ", ".join(features[:MOST_FEATURES]) + (f" and {more} more" if more > 0 else "")
    versions = ", ".join(f"{name} {number}" for name, number in manifest["written_by"].items())
    return {
        "loss": manifest["loss"],
        "engine": manifest["engine"],
        "predictor": manifest["predictor"],
        "calibration": f"{manifest['n_calibration']:,} rows",
        "gives": ", ".join(manifest["columns"]),
        "needs": shown,
        "rows as": manifest["rows"],
        **_kept_rows(manifest.get("kept_rows")),
        "written by": f"{versions} (format {manifest['format']})",
        "members": f"{len(manifest['members'])}, intact: each has its digest",
    }


def _kept_rows(kept: dict[str, Any] | None) -> dict[str, str]:
    """What is known of the rows of `fit`: numbers and reasons, never a row."""
    if kept is None:
        none = "none: the archive was written before they were kept"
        return {"digests": none, "probe rows": none}
    digests, probe, note = int(kept["digests"]), int(kept["probe_rows"]), str(kept["note"])
    why = f"none: {note or 'none kept'}"
    known = f"{probe}, to know the predictor by" + (f" ({note})" if note else "")
    return {
        "digests": f"of {digests:,} rows of fit, to know them again" if digests else why,
        "probe rows": known if probe else why,
    }
