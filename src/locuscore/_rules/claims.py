"""Several claims certified on the same rows with one delta, each with a rule of its own.

Every claim has its list of thresholds, fixed without the certifying rows, and tests them in
ascending order from a start. Claim i is held against ``delta w_i / (sum of w over the claims that
are not complete)``; it is complete when its last threshold has passed, and its part then goes to
the others. A threshold that passes for one claim passes for every claim that follows from it.
docs/rules.md has the proof.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import FloatArray
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.certificate import (
    Certificate,
    ExceedanceCertificate,
    GroupCertificate,
    MeanLossCertificate,
)
from locuscore._rules.certify import CHOSEN_BEFORE, INDEPENDENT, ONE_CALL
from locuscore._rules.mean_loss import MOST_THRESHOLDS, on_unit_scale, tested_in_order
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import digest_of_rows
from locuscore._rules.thresholds import CandidateThresholds
from locuscore._shared.accepted import sorted_finite
from locuscore._shared.checks import (
    check_between,
    check_losses,
    check_same_order,
    check_scores,
    one_tau,
)
from locuscore._shared.labels import label_codes

START = 0.4  # share of the reference at which claims begin, as certificates do
FIXED = "thresholds fixed without the certifying rows, at quantiles of the reference"
TOGETHER = "all claims of the call named without the certifying rows' losses"


@dataclass(frozen=True)
class ExceedanceClaim:
    """``P(Z > tau | accepted) <= eta``, among the rows of one group if one is named.

    `weight` is the claim's part of delta, relative to that of the others.

    Examples
    --------
    >>> from locuscore import ExceedanceClaim
    >>> ExceedanceClaim(tau=1.0, eta=0.1).implies(ExceedanceClaim(tau=2.0, eta=0.1))
    True
    """

    tau: float
    eta: float
    group: Hashable = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", one_tau(self.tau))
        check_between(self.eta, "eta")
        check_between(self.weight, "weight", 0.0, math.inf)

    def implies(self, other: "Claim") -> bool:
        """Whether rows that meet this claim meet the other one: larger tau, no smaller eta."""
        return (
            isinstance(other, ExceedanceClaim)
            and self.group == other.group
            and self.tau <= other.tau
            and self.eta <= other.eta
        )

    def __str__(self) -> str:
        among = "accepted" if self.group is None else f"accepted, group {self.group!r}"
        return f"P(loss > {self.tau:g} | {among}) <= {self.eta:g}"


@dataclass(frozen=True)
class MeanLossClaim:
    """``E[Z | accepted] <= eta`` for losses in `support`.

    `weight` is the claim's part of delta, relative to that of the others.

    Examples
    --------
    >>> from locuscore import MeanLossClaim
    >>> print(MeanLossClaim(eta=0.2, support=(0, 5)))
    E[loss | accepted] <= 0.2
    """

    eta: float
    support: tuple[float, float]
    weight: float = 1.0
    group: ClassVar[None] = None  # all rows

    def __post_init__(self) -> None:
        check_between(self.weight, "weight", 0.0, math.inf)
        check_between(self.eta, "eta", *self.support)

    def implies(self, other: "Claim") -> bool:
        """Whether rows that meet this claim meet the other one: a mean loss that is no smaller."""
        return (
            isinstance(other, MeanLossClaim)
            and self.support == other.support
            and self.eta <= other.eta
        )

    def __str__(self) -> str:
        return f"E[loss | accepted] <= {self.eta:g}"


Claim = ExceedanceClaim | MeanLossClaim


def certify_claims(
    score: ArrayLike,
    losses: ArrayLike,
    claims: Sequence[Claim],
    delta: float,
    *,
    reference: ArrayLike,
    groups: ArrayLike | None = None,
    of: Score = UNNAMED,
) -> tuple[FlagRule, ...]:
    """Certify a threshold for each claim; all of them are right together with 1 - delta.

    Each claim begins with its part of delta, by its weight. A claim that is met even where all rows
    are accepted needs its part no more, and leaves it to the others. If one claim follows from
    another, such as that for a larger tau at the same eta, it accepts at least as much.

    Parameters
    ----------
    score, losses
        Certifying rows, as in `certify_threshold`.
    claims
        `ExceedanceClaim`, for all rows or a group, and `MeanLossClaim`.
    delta
        The probability, over the certifying rows, that any of the rules breaks its claim.
    reference
        Scores of other rows, labels not needed, whose quantiles are the thresholds.
    groups
        One label per row; needed where a claim names a group.
    of
        Which score this is.

    Returns
    -------
    tuple of FlagRule
        In the order of the claims; the delta of each is that of all of them together.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import ExceedanceClaim, MeanLossClaim, certify_claims
    >>> rng = np.random.default_rng(0)
    >>> score, reference = rng.uniform(size=(2, 2000))
    >>> losses = score * rng.uniform(size=2000)
    >>> claims = [ExceedanceClaim(0.3, 0.1), ExceedanceClaim(0.5, 0.1), MeanLossClaim(0.2, (0, 1))]
    >>> rules = certify_claims(score, losses, claims, 0.1, reference=reference)
    >>> rules[0].threshold < rules[1].threshold
    True
    """
    s, z = check_scores(score=score, losses=losses)
    z, delta = check_losses(z, len(z), "losses"), check_between(delta, "delta")
    (known,) = check_scores(reference=reference)
    grid = _thresholds(known)
    asked = _check_claims(claims)
    members = _members(asked, groups, len(s), score)
    chains = [
        _Chain.of(claim, s[rows], z[rows], grid) for claim, rows in zip(asked, members, strict=True)
    ]
    reached, levels = _passed(chains, delta)
    digest = digest_of_rows(z)
    # The same call again gives the same rules. With other scores, thresholds or groups it tests
    # something else, and its delta adds up.
    parts = b"".join(part.tobytes() for part in (s, z, grid, *members))
    given = repr((asked, delta, of)).encode() + parts
    family = blake2b(given, digest_size=8).hexdigest()
    return tuple(
        _rule(chain, place, level, delta, of, family, len(asked), digest)
        for chain, place, level in zip(chains, reached, levels, strict=True)
    )


class _Chain(NamedTuple):
    """A claim with its thresholds, the rows that each accepts, their bad ones or mean, p-values."""

    claim: Claim
    grid: FloatArray
    n_rows: int
    n_accepted: FloatArray
    seen: FloatArray
    p: FloatArray

    @classmethod
    def of(cls, claim: Claim, s: FloatArray, z: FloatArray, grid: FloatArray) -> Self:
        """Test at each threshold, on the rows of the claim's group."""
        if isinstance(claim, ExceedanceClaim):
            counted = CandidateThresholds.on_grid(s, z > claim.tau, grid)
            n, bad = counted.counts(slice(None))
            p = binomial_p_value(bad, n, claim.eta)
            return cls(claim, grid, len(s), n.astype(float), bad.astype(float), p)
        x, m = on_unit_scale(z, claim.eta, claim.support)
        table, _ = tested_in_order(s, x, grid, m, 0.5)
        low, high = claim.support
        mean = low + table["mean_loss"] * (high - low)
        return cls(claim, grid, len(s), table["n_accepted"], mean, table["p_value"])


def _passed(chains: Sequence[_Chain], delta: float) -> tuple[list[int], list[float]]:
    """How many thresholds of each chain passed, and at which level they were tested."""
    size, complete = len(chains[0].grid), [False] * len(chains)
    reached, levels = [0] * len(chains), [0.0] * len(chains)
    while True:
        open_ = [chain for chain, done in zip(chains, complete, strict=True) if not done]
        left = math.fsum(chain.claim.weight for chain in open_)
        before = list(reached)
        for i, chain in enumerate(chains):
            if complete[i]:
                continue
            levels[i] = delta * chain.claim.weight / left
            implied = [
                reached[j] for j, other in enumerate(chains)
                if j != i and other.claim.implies(chain.claim)
            ]  # fmt: skip
            at = max([reached[i], *implied])
            while at < size and chain.p[at] <= levels[i]:
                at += 1
            reached[i] = at
        done = [place == size for place in reached]
        if done == complete and reached == before:
            return reached, levels
        complete = done


def _rule(
    chain: _Chain,
    reached: int,
    level: float,
    delta: float,
    of: Score,
    family: str,
    n_claims: int,
    digest: str,
) -> FlagRule:
    """The rule of one claim, at the last threshold that passed for it."""
    claim, at = chain.claim, max(reached - 1, 0)
    together = f"All {n_claims} claims of this call hold together with confidence {1 - delta:g}."
    n, p = int(chain.n_accepted[at]), float(chain.p[at])
    if reached:
        threshold = float(chain.grid[at])
        guarantee = f"{claim} for a new row. {together}"
    else:
        threshold = -np.inf
        guarantee = (
            f"Nothing is accepted: at the first threshold, which accepts {n} rows, the p-value of "
            f"{claim} is {p:.3g}, and {level:.3g} is allowed. {together}"
        )
    certificate = _certificate(chain, at, bool(reached), delta)
    certificate = replace(certificate, rows_digest=digest, together=family)  # type: ignore[call-arg]
    if claim.group is not None and isinstance(certificate, ExceedanceCertificate):
        certificate = GroupCertificate(f"group {claim.group!r}", certificate)
    table = {
        "threshold": tuple(chain.grid.tolist()),
        "n_accepted": tuple(chain.n_accepted.tolist()),
        "p_value": tuple(chain.p.tolist()),
    }
    assumptions = (INDEPENDENT, CHOSEN_BEFORE, FIXED, TOGETHER, ONE_CALL)
    return FlagRule(
        of, threshold, "certificate", guarantee, assumptions, table=table, certificate=certificate
    )


def _certificate(chain: _Chain, at: int, is_met: bool, delta: float) -> Certificate:
    """The numbers behind a rule: what its threshold accepts."""
    claim, n = chain.claim, int(chain.n_accepted[at])
    source = f"{len(chain.grid)} quantiles of the reference"
    share = n / chain.n_rows if is_met and chain.n_rows else None
    if isinstance(claim, ExceedanceClaim):
        found = ExceedanceCertificate(
            n_rows=chain.n_rows, tau=claim.tau, eta=claim.eta, delta=delta, thresholds=source
        )
        bad, p = int(chain.seen[at]), float(chain.p[at])
        return replace(found, n_accepted=n, n_bad=bad, acceptance=share, p_value=p)
    low, high = map(float, claim.support)
    mean = MeanLossCertificate(
        n_rows=chain.n_rows, eta=claim.eta, delta=delta, low=low, high=high, thresholds=source
    )
    if not n:
        return mean
    return replace(
        mean,
        n_accepted=n,
        acceptance=share,
        mean_loss=float(chain.seen[at]),
        p_value=float(chain.p[at]),
    )


def combined_delta(rules: Iterable[FlagRule]) -> float:
    """The probability that any of several certified rules breaks its claim, by the union bound.

    Deltas add up; those of rules that one call of `certify_claims` made together count once. At
    most 1; a rule without a delta, such as a theorem or a heuristic, counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_threshold, combined_delta
    >>> score = np.arange(200) / 200
    >>> one, two = (certify_threshold(score, score, tau, 0.1, 0.05) for tau in (0.5, 0.8))
    >>> combined_delta([one, two])
    0.1
    """
    found: dict[Hashable, float] = {}
    for i, rule in enumerate(rules):
        evidence = rule.evidence
        family = evidence.get("together")
        found[i if family is None else family] = float(evidence.get("delta", 0.0))
    return min(math.fsum(found.values()), 1.0)


def _thresholds(reference: FloatArray) -> FloatArray:
    """Distinct quantiles of the reference, from that of START up."""
    finite = sorted_finite(reference)
    if not len(finite):
        raise ValueError("reference has no finite score, so there is no threshold to test.")
    shares = np.linspace(min(START * len(reference) / len(finite), 1.0), 1.0, MOST_THRESHOLDS)
    ranks = np.maximum(np.ceil(shares * len(finite)).astype(np.int64), 1)
    return np.unique(finite[ranks - 1])


def _check_claims(claims: Sequence[Claim]) -> list[Claim]:
    asked = list(claims)
    wrong = [claim for claim in asked if not isinstance(claim, ExceedanceClaim | MeanLossClaim)]
    if not asked or wrong:
        raise TypeError(
            "claims must be a list of ExceedanceClaim and MeanLossClaim; got "
            f"{wrong[0]!r:.100}." if wrong else "claims must hold at least one claim."
        )  # fmt: skip
    return asked


def _members(
    claims: Sequence[Claim], groups: ArrayLike | None, n: int, score: ArrayLike
) -> list[np.ndarray]:
    """The rows of each claim: all, or those of its group."""
    if groups is None:
        named = [claim.group for claim in claims if claim.group is not None]
        if named:
            raise ValueError(
                f"claims name the group {named[0]!r}; pass groups=, one label per row."
            )
        return [np.ones(n, dtype=bool) for _ in claims]
    check_same_order(score=score, groups=groups)
    names, member = label_codes(groups, n)
    unknown = [c.group for c in claims if c.group is not None and c.group not in names]
    if unknown:
        raise ValueError(f"no certifying row is of the group {unknown[0]!r}.")
    return [
        np.ones(n, dtype=bool) if claim.group is None else member == names.index(claim.group)
        for claim in claims
    ]
