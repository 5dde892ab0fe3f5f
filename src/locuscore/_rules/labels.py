"""Which rows to label for a certificate: a random sample of those that it may come to accept.

**Rows above a ceiling are no use.** Fix a ceiling c without the losses to come. Of independent rows
drawn alike, those with a score of at most c are independent draws from the law of rows given ``s <=
c``, and a random sample of them, taken without regard to their losses, is so too. For a threshold
``t <= c`` that law has the same rows below t, ``P(Z > tau | s <= t, s <= c) = P(Z > tau | s <=
t)``. So a certificate from the sample, at thresholds up to c, holds for new rows of every score.
Thresholds above c cannot be certified, and their rows need no labels.

**Which ceiling.** A low one spends no label in vain and ends the sequence early; a high one does
the opposite. Labelled reference rows, such as out-of-fold pairs of D1, say what is best: resample
them, draw a sample of the budget's size below the ceiling, test in order from a start, and average
the share that is accepted. Ceiling and start with the largest mean are taken. Both are functions of
the reference, so the certificate is exact whatever they are.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score, check_score
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.certify import certify_threshold
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import checked_rows
from locuscore._shared.accepted import distinct_counts, is_accepted, sorted_finite
from locuscore._shared.checks import check_between, check_count, check_losses, check_scores, one_tau
from locuscore._shared.seeds import spawn_seeds
from locuscore._shared.shown import Shown

THRESHOLDS = 150  # of the reference, of which ceiling and start are two
CEILINGS = 15  # that are tried
SIMULATIONS = 200
LARGEST_RATE = 1.5  # of eta, among reference rows below a ceiling that is tried


@dataclass(frozen=True, eq=False, repr=False)
class LabelPlan(Shown):
    """Which rows of a pool to label, and the certificate that their losses then give.

    `rows` are positions in the pool, in random order. All have a score of at most `ceiling`, the
    largest threshold that is worth trying; `acceptance` is the share of rows that the certificate
    is expected to accept, from the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import plan_labels
    >>> known = np.linspace(0, 1, 500)
    >>> plan = plan_labels(known, 60, 0.5, 0.1, 0.1, reference=known,
    ...                    reference_losses=known > 0.6, random_state=0)
    >>> len(plan.rows), bool(0.5 < plan.ceiling < 0.75)
    (60, True)
    >>> plan.certify(np.zeros(60)).threshold == plan.ceiling  # no row is bad
    True
    """

    rows: IntArray
    ceiling: float
    acceptance: float
    pool: FloatArray
    thresholds: FloatArray
    start: int
    tau: float
    eta: float
    delta: float
    of: Score

    def __str__(self) -> str:
        below = int(np.count_nonzero(is_accepted(self.pool, self.ceiling)))
        return (
            f"Label {len(self.rows):,} of the {below:,} rows with a score of at most "
            f"{self.ceiling:.4g}, which are {below / len(self.pool):.0%} of the pool. By the "
            f"reference rows, the certificate will accept about {self.acceptance:.0%} of all rows."
        )

    def certify(self, losses: ArrayLike) -> FlagRule:
        """The certificate from the losses of `rows`, in their order; see `certify_threshold`."""
        z = check_losses(np.asarray(losses), len(self.rows), "losses")
        rule = certify_threshold(
            self.pool[self.rows],
            z,
            self.tau,
            self.eta,
            self.delta,
            of=self.of,
            reference=self.thresholds,
            starts=[(self.start + 0.5) / len(self.thresholds)],
        )
        claim: Any = rule.certificate
        if rule.threshold > -np.inf and isinstance(claim, ExceedanceCertificate):
            # Of all rows: of those that were labelled more are accepted.
            share = float(np.mean(is_accepted(self.pool, rule.threshold)))
            claim = replace(claim, acceptance=share)
        sample = (
            f"labelled rows drawn at random from those with a score of at most {self.ceiling:g}"
        )
        return replace(rule, certificate=claim, assumptions=(*rule.assumptions, sample))


def plan_labels(
    score: ArrayLike,
    budget: int,
    tau: float,
    eta: float,
    delta: float,
    *,
    reference: ArrayLike,
    reference_losses: ArrayLike,
    random_state: int | np.random.Generator | None = None,
    of: Score = UNNAMED,
) -> LabelPlan:
    """Choose which rows of a pool to label, so that their certificate accepts most.

    They are a random sample of the rows up to the largest threshold that is worth trying. The
    certificate is exact, for new rows of every score; the module has the proof.

    Parameters
    ----------
    score
        Scores of the pool: rows without labels, drawn like new ones. Infinite scores are never
        accepted, so such rows are never chosen.
    budget
        How many rows can be labelled.
    tau, eta, delta
        What is to be certified, see `certify_threshold`.
    reference, reference_losses
        Scores and losses of other rows, such as out-of-fold pairs of D1. They choose the ceiling
        and the start; the better they are, the more is accepted.
    random_state
        Draws the rows.
    of
        Which score this is.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import plan_labels
    >>> rng = np.random.default_rng(0)
    >>> known, pool = rng.uniform(size=1000), rng.uniform(size=20_000)
    >>> known_losses = rng.uniform(size=1000) < known**2
    >>> plan = plan_labels(pool, 300, 0.5, 0.1, 0.1, reference=known,
    ...                    reference_losses=known_losses, random_state=0)
    >>> losses = rng.uniform(size=300) < pool[plan.rows] ** 2  # somebody labels these
    >>> rule = plan.certify(losses)
    >>> bool(0.35 < rule.threshold <= plan.ceiling < 0.7)
    True
    """
    (pool,) = check_scores(score=score)
    n = check_count(budget, "budget")
    eta, delta = check_between(eta, "eta"), check_between(delta, "delta")
    (known,) = check_scores(reference=reference)
    _, bad = checked_rows(known, reference_losses, tau)
    simulated, drawn = map(np.random.default_rng, spawn_seeds(random_state, 2))
    bins = _Bins.of(known, bad)
    ceiling, start, acceptance = bins.best(n, eta, delta, simulated)
    below = np.flatnonzero(is_accepted(pool, float(bins.edge[ceiling])))
    if not len(below):
        raise ValueError(
            f"no row of the pool has a score of at most {bins.edge[ceiling]:g}, the largest "
            "threshold that is worth trying by the reference; is it the same score?"
        )
    return LabelPlan(
        drawn.permutation(below)[:n],
        float(bins.edge[ceiling]),
        acceptance,
        pool,
        bins.edge[: ceiling + 1],
        start,
        one_tau(tau),
        eta,
        delta,
        check_score(of),
    )


@dataclass(frozen=True, eq=False)
class _Bins:
    """Reference rows counted between thresholds; those above the last are in `n_rows` alone."""

    edge: FloatArray
    count: IntArray
    bad: IntArray
    n_rows: int

    @classmethod
    def of(cls, score: FloatArray, bad: BoolArray) -> "_Bins":
        distinct, up_to = distinct_counts(sorted_finite(score))
        if not len(distinct):
            raise ValueError("reference has no finite score, so there is no threshold to test.")
        wanted = np.ceil(np.linspace(0.0, up_to[-1], THRESHOLDS + 1)[1:])
        edge = distinct[np.unique(np.searchsorted(up_to, wanted))]
        place = np.searchsorted(edge, score)
        count, n_bad = (np.bincount(at, minlength=len(edge) + 1) for at in (place, place[bad]))
        return cls(edge, count[:-1], n_bad[:-1], len(score))

    def best(
        self,
        n: int,
        eta: float,
        delta: float,
        rng: np.random.Generator,
        simulations: int = SIMULATIONS,
    ) -> tuple[int, int, float]:
        """Positions of ceiling and start with the largest mean acceptance, and that."""
        # Resampled, so that what the reference does not know well is not taken for certain.
        others = np.array([self.n_rows - self.count.sum()])
        parts = np.concatenate([self.bad, self.count - self.bad, others]) / self.n_rows
        drawn = rng.multinomial(self.n_rows, parts, size=simulations)
        m = len(self.edge)
        bad, count = drawn[:, :m], drawn[:, :m] + drawn[:, m : 2 * m]
        accepted = np.cumsum(count, axis=1) / self.n_rows
        found = []
        for ceiling in self._ceilings(eta):
            inside = slice(0, ceiling + 1)
            passed = _passed(count[:, inside], bad[:, inside], n, eta, delta, rng)
            means = _mean_acceptance(passed, accepted[:, inside])
            start = int(np.argmax(means))
            found.append((ceiling, start, float(means[start])))
        return max(found, key=lambda one: one[2])

    def _ceilings(self, eta: float) -> list[int]:
        """Positions that are tried: as far up as the rate is not hopeless."""
        rate = np.cumsum(self.bad) / np.cumsum(self.count)
        last = int(np.flatnonzero(rate <= max(LARGEST_RATE * eta, rate.min()))[-1])
        spread = np.linspace(0, last, CEILINGS + 1)[1:].round().astype(np.int64)
        return [int(position) for position in np.unique(spread)]


def _passed(
    count: IntArray, bad: IntArray, n: int, eta: float, delta: float, rng: np.random.Generator
) -> BoolArray:
    """Whether each threshold passes on n rows from each resampled reference below a ceiling."""
    total = count.sum(axis=1, keepdims=True)
    shares = np.divide(count, total, out=np.zeros(count.shape), where=total > 0)
    shares[:, -1] += 1.0 - shares.sum(axis=1)  # rounding, or a reference without a row there
    rows = rng.multinomial(n, np.clip(shares, 0.0, 1.0))
    rate = np.divide(bad, count, out=np.ones(count.shape), where=count > 0)
    found = np.cumsum(rng.binomial(rows, rate), axis=1)
    return np.asarray(binomial_p_value(found, np.cumsum(rows, axis=1), eta) <= delta)


def _mean_acceptance(passed: BoolArray, accepted: FloatArray) -> FloatArray:
    """Mean share accepted for each start, over the simulations."""
    n_sims, m = passed.shape
    end = np.full(n_sims, m)  # of the sequence from the start that is looked at
    means = np.empty(m)
    shares = np.column_stack([np.zeros(n_sims), accepted])
    rows = np.arange(n_sims)
    for start in range(m - 1, -1, -1):
        end = np.where(passed[:, start], end, start)
        means[start] = np.where(end > start, shares[rows, end], 0.0).mean()
    return means
