"""``locuscore inspect``: what is in an archive, without building any of it."""

from typing import Any

from rich.console import Console

from locuscore._archive import read_archive
from locuscore.cli._options import Archive, Debug, Json, Quiet
from locuscore.cli._terminal import Terminal, print_card, size_text, two_columns

MOST_FEATURES = 30


def inspect(
    archive: Archive, as_json: Json = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Show what an archive holds and guarantees; nothing in it is built."""
    if not archive.is_file():
        raise FileNotFoundError(f"there is no file {archive}.")
    manifest, _ = read_archive(archive)
    size = archive.stat().st_size

    def draw(console: Console) -> None:
        print_card(console, manifest["card"])
        console.print()
        console.print(two_columns({"file": f"{archive} ({size_text(size)})", **_entries(manifest)}))

    Terminal(as_json, quiet).show({"archive": str(archive), "bytes": size, **manifest}, draw)


def _entries(manifest: dict[str, Any]) -> dict[str, str]:
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
        "written by": f"{versions} (format {manifest['format']})",
        "members": f"{len(manifest['members'])}, all intact",
    }
