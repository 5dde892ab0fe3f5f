"""Test rows that were used to fit: they judge nothing, and the report says so first."""

from typing import Any

from locuscore import Reuse
from locuscore.report._words import smallest_p

NOT_JUDGED = "not judged"


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
        claims = [{**claim, "verdict": NOT_JUDGED} for claim in verdict["claims"]]
        banner = {"kind": "bad", "broken": True, "sentence": told["sentence"], "claims": claims}
        return {**verdict, **banner}, [{**part, "sentence": _not_judged(part)} for part in coverage]
    kind = "bad" if verdict["kind"] == "bad" else "warn"
    sentence = f"{told['sentence']} {verdict['sentence']}"
    return {**verdict, "kind": kind, "sentence": sentence}, coverage


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
