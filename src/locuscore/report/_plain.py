"""What a report says to people who decide: counts instead of formulas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from locuscore._shared.readable import amount, as_typed, large_amount, readable

BASES = (1_000, 10_000, 100_000, 1_000_000)
FEW = 1_000  # of fewer rows the counts themselves are said
KEPT, CONTRADICTED, TOO_FEW = "kept", "contradicted", "too few rows to tell"
UNTESTED = "not tested"


class Told(Protocol):
    """What a sentence needs of a claim."""

    @property
    def kind(self) -> str:
        """Conditional, joint, coverage, or mean loss."""

    @property
    def standing(self) -> str:
        """Theorem, certificate, or heuristic."""

    @property
    def promised(self) -> float:
        """The share or the mean that is not to be exceeded."""

    @property
    def observed(self) -> float | None:
        """What was seen of it."""

    @property
    def n(self) -> int:
        """Rows it was seen on."""

    @property
    def seen(self) -> str:
        """The same in the words of the technical part."""

    @property
    def tau(self) -> float | None:
        """The tolerance it is about."""

    @property
    def where(self) -> str:
        """The group it is about, if it is about one."""


@dataclass(frozen=True)
class Wording:
    """What rows are called, what losses are measured in, and what kind of loss it is."""

    noun: str = "rows"
    unit: str = ""
    loss: str = ""

    def exceeded(self, tau: float) -> str:
        """That rows had a loss above tau, after "they"."""
        if self.loss == "absolute":
            return f"were off by more than {as_typed(tau, self.unit)}"
        if self.loss == "zero_one" and 0 <= tau < 1:
            return "were wrong"
        return f"had a loss above {as_typed(tau, self.unit)}"

    @property
    def above_bound(self) -> str:
        """That rows had a loss above their bound."""
        return (
            "were off by more than their own bound"
            if self.loss == "absolute"
            else "had a loss above their own bound"
        )

    def amount_of_loss(self, total: float, worst: float) -> str:
        """Total and worst loss."""
        sums = large_amount(total, self.unit), large_amount(worst, self.unit)
        return "a loss of {} in total and {} at worst".format(*sums)


def claim_sentence(claim: Told, verdict: str, wording: Wording) -> str:
    """A claim and what was seen of it, in counts."""
    if claim.observed is None:
        return f"{claim.seen}."
    said = _mean(claim, wording) if claim.kind == "mean loss" else _share(claim, wording)
    more = claim.observed > claim.promised
    after = {
        KEPT: " The excess is within chance." if more else "",
        CONTRADICTED: " That is more than chance explains.",
        TOO_FEW: f" These {wording.noun} are too few to confirm it.",
        UNTESTED: " It has no exact test here.",
    }
    return said + after.get(verdict, "")


def _aim(claim: Told) -> str:
    return "aimed at" if claim.standing == "heuristic" else "promised"


def _mean(claim: Told, wording: Wording) -> str:
    assert claim.observed is not None
    mean = amount(claim.observed, wording.unit)
    limit = as_typed(claim.promised, wording.unit)
    had = "were off by" if wording.loss == "absolute" else "had a loss of"
    return (
        f"{claim.n:,} accepted {wording.noun} {had} {mean} on average; at most {limit} was "
        f"{_aim(claim)}."
    )


def _share(claim: Told, wording: Wording) -> str:
    assert claim.observed is not None
    rows, did = wording.noun, wording.above_bound
    if claim.tau is not None:
        did = wording.exceeded(claim.tau)
    if claim.kind == "conditional":
        rows = f"accepted {rows}" + (f" of {claim.where}" if claim.where else "")
    elif claim.kind == "joint":
        did = f"were accepted and {did.removeprefix('were ')}"
    k = round(claim.observed * claim.n)
    if claim.n < FEW and abs(k / claim.n - claim.observed) < 1e-9:
        limit = f"{readable(100 * claim.promised)} %"
        text = f"{k:,} of {claim.n:,} {rows} ({100 * claim.observed:.1f} %) {did}"
        return f"{text}; {_limit(claim, limit, 'was')}."
    base = next((b for b in BASES if claim.promised * b >= 5), BASES[-1])
    seen, limit = _apart(claim.observed * base, claim.promised * base)
    return f"Of {base:,} {rows} about {seen} {did}; {_limit(claim, limit, 'were')}."


def _limit(claim: Told, limit: str, verb: str) -> str:
    if claim.promised >= 1:
        return "no share was promised"
    average = ", on average" if claim.standing == "theorem" else ""
    return f"at most {limit} {verb} {_aim(claim)}{average}"


def _apart(seen: float, promised: float) -> tuple[str, str]:
    """Two counts, whole unless that would hide on which side of the promise the first is."""
    limit = readable(promised)
    for decimals in (0, 1, 2):
        text = f"{seen:,.{decimals}f}"
        shown = float(text.replace(",", ""))
        if (shown > promised) == (seen > promised) and (shown == promised) == (seen == promised):
            break
    return text, limit


def headline(found: Sequence[tuple[Told, str]], n_rows: int, noun: str) -> str:
    """The verdict on all claims in one sentence."""
    on = f"on these {n_rows:,} {noun}"
    is_promise = all(claim.standing != "heuristic" for claim, _ in found)
    one, many = ("promise", "promises") if is_promise else ("claim", "claims")
    total = len(found)
    of = {
        kind: [claim for claim, verdict in found if verdict == kind]
        for kind in (CONTRADICTED, TOO_FEW, UNTESTED)
    }
    broken = [claim for claim in of[CONTRADICTED] if claim.standing != "heuristic"]
    if broken:
        return f"{_not_held(len(broken), total, one, many)} {on}."
    if of[CONTRADICTED]:
        return f"The rule misses its aim {on}; that share was never promised."
    if of[TOO_FEW]:
        some = f"{len(of[TOO_FEW])} of {total} {many}" if total > 1 else f"the {one}"
        return f"No {one} is broken, but these {n_rows:,} {noun} are too few to test {some}."
    if len(of[UNTESTED]) == total:
        return f"No {one} could be tested {on}."
    if of[UNTESTED]:
        verb = "has" if len(of[UNTESTED]) == 1 else "have"
        return f"No {one} is broken {on}; {len(of[UNTESTED])} of {total} {verb} no exact test."
    all_of = {1: f"The {one} holds", 2: f"Both {many} hold"}.get(total, f"All {total} {many} hold")
    return f"{all_of} up {on}."


def _not_held(n_broken: int, total: int, one: str, many: str) -> str:
    if total == 1:
        return f"The {one} does not hold"
    if n_broken == total:
        return f"Neither {one} holds" if total == 2 else f"None of the {total} {many} holds"
    return f"{n_broken} of {total} {many} {'does' if n_broken == 1 else 'do'} not hold"


def whole_percent(share: float) -> str:
    """A share for a sentence: whole per cents, more digits only where they are needed."""
    x = 100 * share
    near = min(x, 100 - x)
    decimals = 0 if near >= 1 or near == 0 else 1 if near >= 0.1 else 2
    return f"{x:.{decimals}f} %"
