"""Test rows that were used to fit: they judge nothing, and the report says so first."""

from typing import Any

from locuscore import Reuse
from locuscore.report._words import smallest_p

NOT_JUDGED = "not judged"
USED = "These rows were used to fit, so they judge nothing."


def with_reuse(
    verdict: dict[str, Any], coverage: list[dict[str, Any]], reuse: Reuse | None, allowed: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the verdict and the coverage as they are to be read of rows that `fit` may know.

    Rows used to fit judge nothing, unless the caller insists; a check that waits for a good verdict
    must not pass on them, so the verdict counts as broken.
    """
    told = None if reuse is None else _told(reuse)
    verdict = {**verdict, "rows_of_fit": told}
    if told is None or told["outcome"] == "fresh":
        return verdict, coverage
    if told["outcome"] == "used" and not allowed:
        claims = [
            {**claim, "verdict": NOT_JUDGED, "plain": f"{_first(claim['plain'])} {USED}"}
            for claim in verdict["claims"]
        ]
        banner = {"kind": "bad", "broken": True, "sentence": told["sentence"], "claims": claims}
        banner |= {"headline": USED, "notes": [told["sentence"]]}
        return {**verdict, **banner}, [{**part, "sentence": _not_judged(part)} for part in coverage]
    kind = "bad" if verdict["kind"] == "bad" else "warn"
    sentence = f"{told['sentence']} {verdict['sentence']}"
    notes = [told["sentence"], *verdict["notes"]]
    return {**verdict, "kind": kind, "sentence": sentence, "notes": notes}, coverage


def with_note(verdict: dict[str, Any], note: str) -> dict[str, Any]:
    """Return the verdict with something that has to be said beside it, if there is something."""
    if not note:
        return verdict
    kind = verdict["kind"] if verdict["kind"] == "bad" else "warn"
    sentence = f"{verdict['sentence']} {note}"
    return {**verdict, "kind": kind, "sentence": sentence, "notes": [note, *verdict["notes"]]}


def _first(text: str) -> str:
    """What was seen, without what it says of the claim."""
    return text.partition(". ")[0].rstrip(".") + "."


def _told(reuse: Reuse) -> dict[str, Any]:
    found = reuse.verdict
    text = found.sentence
    return {
        "n": found.n,
        "n_found": found.n_found,
        "with_labels": found.with_labels,
        "outcome": found.outcome,
        "p_value": smallest_p(found.p_value),
        "sentence": text[0].upper() + text[1:],
    }


def _not_judged(part: dict[str, Any]) -> str:
    return (
        f"{part['covered']:,} of {part['n']:,} losses are within their bound at alpha = "
        f"{part['alpha']:g}, which says nothing: these rows were used to fit."
    )
