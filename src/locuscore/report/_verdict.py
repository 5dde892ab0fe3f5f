"""Whether labelled rows keep what the scorer claims: all claims are judged together.

A claim is contradicted when Bonferroni-Holm rejects it among all claims of the scorer. So rows for
which every claim holds turn the verdict in at most one case in twenty, however many claims there
are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from locuscore._protocols import BoolArray
from locuscore._shared.multiple_tests import holm
from locuscore.report._claims import Claim, too_many_p_value
from locuscore.report._plain import CONTRADICTED, TOO_FEW, UNTESTED, Wording, headline

ERROR = 0.05  # probability of contradicting any claim of a scorer whose claims all hold
MOST_TOLD = 4  # claims in the line over the page
UNLIKE = {
    "theorem": "These rows are probably unlike the calibration rows.",
    "certificate": (
        "These rows are probably unlike the certifying ones, or the certificate is one of the few "
        "that fail."
    ),
    "heuristic": "The rule was tuned for this share, which was never promised.",
}


def judge(
    claims: Sequence[Claim], notes: Sequence[str] = (), wording: Wording | None = None, n: int = 0
) -> dict[str, Any]:
    """The verdict on each claim, and the line over the page; `notes` say more of a good one.

    `n` is the number of all rows, and `wording` what people call them.
    """
    wording = wording or Wording()
    tested = [i for i, claim in enumerate(claims) if claim.p_value is not None]
    p_values = np.array([claims[i].p_value for i in tested], dtype=np.float64)
    is_rejected = np.zeros(len(claims), dtype=bool)
    is_rejected[tested] = holm(p_values, ERROR) if tested else False
    level = ERROR / max(len(tested), 1)
    found = [
        (claim, claim.verdict(bool(is_out), level))
        for claim, is_out in zip(claims, is_rejected, strict=True)
    ]
    kind, sentence = _banner(found, notes)
    return {
        "kind": kind,
        "headline": headline(found, n or max(claim.n for claim in claims), wording.noun),
        "notes": list(notes),
        "sentence": sentence,
        "broken": kind == "bad",
        "error": ERROR,
        "claims": [claim.told(verdict, wording) for claim, verdict in found],
    }


def verdict_lines(verdict: Mapping[str, Any]) -> list[str]:
    """The verdict as lines of text."""
    claims = (f"{claim['verdict']}: {claim['sentence']}" for claim in verdict["claims"])
    return [verdict["sentence"], *claims]


def contradicted_thresholds(
    accepted: np.ndarray, bad: np.ndarray, passed: BoolArray, eta: float, is_broken: bool
) -> BoolArray:
    """Certified thresholds that the rows contradict, by exact tests that share the level equally.

    All of them if the certificate's own claim is contradicted: they stand or fall together.
    """
    if is_broken:
        return passed
    level = ERROR / max(int(passed.sum()), 1)
    return passed & (too_many_p_value(bad, accepted, eta) <= level)


def _banner(found: list[tuple[Claim, str]], notes: Sequence[str]) -> tuple[str, str]:
    def those(verdict: str) -> list[Claim]:
        return [claim for claim, got in found if got == verdict]

    wrong, few, untested = those(CONTRADICTED), those(TOO_FEW), those(UNTESTED)
    broken = [claim for claim in wrong if claim.standing != "heuristic"]
    if wrong:
        shown = broken or wrong
        what = f"contradict {len(broken)} of {len(found)} claims" if broken else "miss the aim"
        causes = dict.fromkeys(UNLIKE[claim.standing] for claim in shown)
        text = _told(claim.seen for claim in shown)
        return "bad" if broken else "warn", f"These rows {what}: {text}. {' '.join(causes)}"
    if few:
        names = _told(claim.about for claim in few)
        some = f"{len(few)} of {len(found)} claims"
        return "plain", f"These rows contradict no claim, but are too few to test {some}: {names}."
    if untested:
        return "plain", _without_test(untested, len(found))
    # The deployed rule, if it claims something, and the smallest alpha.
    claims = [claim for claim, _ in found]
    smallest = min((c for c in claims if c.alpha is not None), key=lambda c: c.alpha or 0.0)
    shown = [claim for claim in claims if claim.kind != "coverage"] + [smallest]
    text = _told(claim.seen for claim in shown)
    if notes:
        return "warn", f"These rows contradict no claim: {text}. {' '.join(notes)}"
    return "good", f"These rows agree with every claim: {text}."


def _without_test(untested: Sequence[Claim], n_claims: int) -> str:
    """What is said if nothing is wrong but some claims, or all of them, were not tested."""
    lack_clusters = all(claim.lacks_clusters for claim in untested)
    if len(untested) == n_claims:
        if lack_clusters:
            why = "the clusters of the rows are needed; pass clusters= or --clusters COLUMN"
        else:
            names = _told(f"the {claim.about}" for claim in untested)
            why = f"there is no exact test of {names}"
        return f"No claim could be tested: {why}."
    verb = "has" if len(untested) == 1 else "have"
    what = "cannot be tested without clusters" if lack_clusters else f"{verb} no exact test"
    names = _told(claim.about for claim in untested)
    some = f"{len(untested)} of {n_claims} claims"
    return f"These rows contradict no claim, but {some} {what}: {names}."


def _told(texts: Iterable[str]) -> str:
    """Several findings in one line; a rule by group may have many."""
    first = list(texts)
    more = len(first) - MOST_TOLD
    return "; ".join(
        [*first[:MOST_TOLD], *([f"and {more} more, listed below"] if more > 0 else [])]
    )
