"""What a comparison of two reports says in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from locuscore._shared.readable import amount
from locuscore.report._plain import BASES, Wording

AMONG = {"conditional": "accepted "}


def describe(share: Mapping[str, Any], wording: Wording) -> str:
    """One share, or mean, in both reports."""
    old, new = (share[side]["value"] for side in ("before", "after"))
    if share["kind"] == "mean loss":
        text = (
            f"Accepted {wording.noun} had a mean loss of {amount(new, wording.unit)}; before it "
            f"was {amount(old, wording.unit)}."
        )
        return f"{text} A mean has no exact test here."
    smallest = min((value for value in (old, new) if value), default=1.0)
    base = next((b for b in BASES if smallest * b >= 5), BASES[-1])
    counts = [f"{base * value:,.0f}" for value in (old, new)]
    if counts[0] == counts[1] and old != new:
        counts = [f"{base * value:,.1f}" for value in (old, new)]
    return (
        f"Of {base:,} {AMONG.get(share['kind'], '')}{wording.noun}{_where(share)} about "
        f"{counts[1]} {_did(share, wording)}; before it was about {counts[0]}. "
        f"{_chance(share, old, new)}"
    )


def _where(share: Mapping[str, Any]) -> str:
    return f" of {share['where']}" if share["where"] else ""


def _did(share: Mapping[str, Any], wording: Wording) -> str:
    if share["kind"] == "acceptance":
        return "were accepted"
    did = wording.above_bound if share["tau"] is None else wording.exceeded(share["tau"])
    return f"were accepted and {did.removeprefix('were ')}" if share["kind"] == "joint" else did


def _chance(share: Mapping[str, Any], old: float, new: float) -> str:
    if share["p_value"] is None:
        return "It has no exact test here."
    if not share["differs"]:
        return "The difference is within chance."
    return f"That is {'more' if new > old else 'fewer'}, beyond chance."


def headline(
    shares: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], is_worse: bool
) -> str:
    """All differences in one sentence."""
    main = [share for share in shares if share["differs"]]
    parts = [row for row in rows if row["differs"]]
    tested = [part for part in [*shares, *rows] if part["p_value"] is not None]
    if not tested:
        return "Nothing in these two reports can be compared by an exact test."
    if not main and not parts:
        return "Nothing changed by more than chance explains."
    said = []
    if main:
        said.append(f"{len(main)} of {len(shares)} main figures")
    if parts:
        said.append(f"{len(parts)} of {len(rows)} groups")
    start = "Worse than before: " if is_worse else ""
    return f"{start}{' and '.join(said)} changed by more than chance explains."
