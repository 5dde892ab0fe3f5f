"""A status in a notebook."""

from collections.abc import Mapping
from typing import Any

from locuscore._shared.cards import Card, Kind, Table

KINDS: dict[str, Kind] = {"ok": "good", "alarm": "bad", "notice": "warn", "unknown": "plain"}


def status_card(level: str, sentence: str, next_step: str, data: Mapping[str, Any]) -> str:
    """How the promises stand, what next, and each claim in a row of a table."""
    counts = data["counts"]
    facts = [
        ("deployment", f"{data['deployment']} since {data['since'][:10]}"),
        ("decisions", f"{counts['decisions']:,}, of them {counts['flagged']:,} flagged"),
        ("labels", f"{counts['labelled']:,} of {counts['drawn']:,} asked for"),
        ("without labels", "" if data["drift"] is None else data["drift"]["sentence"]),
    ]
    rows = [_row(claim, data["unit"]) for claim in data["claims"]]
    table = Table(("claim", "promised", "now", "tested", "state"), rows, is_text=True)
    return Card(
        "Watch", level, KINDS[level], [sentence, next_step], facts, table=table if rows else None
    ).html()


def _row(claim: Mapping[str, Any], unit: str) -> tuple[str, ...]:
    told = f" {unit}" if unit and claim["kind"] == "mean loss" else ""
    values = (claim["promised"], claim["estimate"])
    promised, now = ("" if value is None else f"{value:.4g}{told}" for value in values)
    if not claim["tested"]:
        return claim["name"], promised, now, "no", claim["why_not"] or ""
    state = "alarm" if claim["alarmed_at"] is not None else "no alarm"
    return claim["name"], promised, now, f"{claim['n']:,} {claim['units']}", state
