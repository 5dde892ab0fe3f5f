"""Certified thresholds where rows come in clusters: whole clusters are the independent draws."""

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.betting import SHARE, TOP, Games, generator_seeded_by, p_values
from locuscore._rules.binomial_tests import first_failure
from locuscore._rules.certificate import ClusterCertificate
from locuscore._rules.certify import CHOSEN_BEFORE, ONE_CALL, check_starts
from locuscore._rules.mean_loss import (
    ENOUGH_ROWS,
    FEWEST_ROWS,
    GRID_SHARE,
    LARGEST_START,
    MOST_THRESHOLDS,
    SMALLEST_START,
    quantile_thresholds,
)
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import checked_rows, digest_of_rows
from locuscore._shared.checks import check_between, check_same_order, check_scores
from locuscore._shared.labels import label_codes
from locuscore._shared.readable import as_typed

INDEPENDENT_CLUSTERS = "independent clusters, certifying and new, all drawn alike"
FIXED = "thresholds and starts fixed without the certifying clusters"


def certify_clusters(
    score: ArrayLike,
    losses: ArrayLike,
    clusters: ArrayLike | Collection[Hashable],
    tau: float,
    eta: float,
    delta: float,
    *,
    of: Score = UNNAMED,
    reference: ArrayLike | None = None,
    starts: Sequence[float] | None = None,
) -> FlagRule:
    """Largest threshold certified for a random row of a random cluster, each counting once.

    ``P(Z > tau | score <= threshold) <= eta`` for that row is the same as ``E[X] <= 0`` for the
    mean X over a cluster's rows of ``1{accepted} (1{Z > tau} - eta)``. Clusters are independent and
    X lies between -eta and ``1 - eta``, so the exact test of a bounded mean applies (see
    `mean_loss_p_value`), whatever the rows of one cluster have in common. Thresholds are tested in
    ascending order from a start to the first failure, so the probability of certifying any
    threshold that breaks eta is at most delta. The risk need not rise with the score.

    Parameters
    ----------
    score, losses, clusters
        One entry per certifying row; labels of clusters may be of any hashable type. Rows with an
        infinite score are never accepted.
    tau, eta, delta
        A loss above tau is bad; eta is the share of bad rows allowed among the accepted; delta is
        the probability, over the certifying clusters, that the certificate is wrong.
    of
        Which score this is.
    reference
        Scores of other rows, whose quantiles are the thresholds. Without it a random fifth of the
        clusters, seeded by a digest of them all, is set aside for that and not tested on.
    starts
        Shares of the reference rows at which sequences begin, with equal parts of delta; None for
        one start where the clusters suffice.

    Returns
    -------
    FlagRule
        With threshold -inf if nothing can be certified; its guarantee then says how many clusters
        would be needed at least.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_clusters
    >>> rng = np.random.default_rng(0)
    >>> day = np.repeat(np.arange(200), 10)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> rule = certify_clusters(score, losses, day, tau=0.5, eta=0.1, delta=0.1)
    >>> bool(0.4 < rule.threshold < 0.64)
    True
    """
    check_same_order(score=score, clusters=clusters)
    s, bad = checked_rows(score, losses, tau)
    share, error = check_between(eta, "eta"), check_between(delta, "delta")
    shares = None if starts is None else check_starts(starts)
    rows = LabelledClusters(s, bad, label_codes(clusters, len(s), "clusters")[1])
    if reference is None:
        rows, known = rows.set_aside()
        source = f"the scores of {len(known)} rows of clusters set aside and not tested on"
    else:
        (known,) = check_scores(reference=reference)
        source = f"the scores of {len(known)} reference rows"
    claim = ClusterCertificate(
        n_clusters=rows.n_clusters,
        n_rows=len(rows.score),
        tau=float(tau),
        eta=share,
        delta=error,
        thresholds=source,
        rows_digest=digest_of_rows(losses),
    )
    if shares is None:
        shares = np.array([_start(rows.n_clusters, claim)])
    grid, positions = _thresholds(known, shares)
    table = rows.tests(grid, share)
    certified = _largest_certified(table["p_value"], positions, error)
    claim, guarantee = _outcome(claim, table, certified, positions)
    return FlagRule(
        of,
        -np.inf if certified is None else float(grid[certified]),
        "certificate",
        guarantee,
        (INDEPENDENT_CLUSTERS, CHOSEN_BEFORE, FIXED, ONE_CALL),
        table={name: tuple(column.tolist()) for name, column in table.items()},
        certificate=claim,
    )


@dataclass(frozen=True, eq=False)
class LabelledClusters:
    """The certifying rows, with codes from 0 of their clusters."""

    score: FloatArray
    bad: BoolArray
    codes: IntArray

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.codes.max()) + 1 if len(self.codes) else 0

    def set_aside(self) -> tuple[Self, FloatArray]:
        """The rows of four fifths of the clusters, and the scores of the others."""
        size, sums = np.bincount(self.codes), np.bincount(self.codes, self.score)
        n_bad = np.bincount(self.codes, self.bad)
        # In an order of their own first, so that the choice does not depend on the order given.
        ascending = np.lexsort((sums, n_bad, size))
        columns = (part[ascending].astype(np.float64) for part in (size, n_bad, sums))
        order = ascending[generator_seeded_by(*columns).permutation(len(size))]
        # A random part: given which are set aside, the others are a sample of the same law.
        is_aside = np.isin(self.codes, order[: math.ceil(GRID_SHARE * len(size))])
        codes = np.unique(self.codes[~is_aside], return_inverse=True)[1]
        kept = type(self)(self.score[~is_aside], self.bad[~is_aside], codes)
        return kept, self.score[is_aside]

    def tests(self, grid: FloatArray, eta: float) -> dict[str, FloatArray]:
        """Accepted and bad rows, their shares with each cluster counting once, and p-values."""
        size = np.maximum(np.bincount(self.codes, minlength=self.n_clusters), 1)[:, None]
        accepted = self._up_to(grid, np.ones(len(self.score), dtype=bool))
        bad = self._up_to(grid, self.bad)
        # X + eta, from 0 to 1. Clusters without accepted rows have X = 0 and say nothing; given
        # that it has some, the mean of X has the same sign.
        x = np.clip(eta + (bad - eta * accepted) / size, 0.0, 1.0)
        parts = [x[accepted[:, j] > 0, j] for j in range(len(grid))]
        weight = (accepted / size).sum(axis=0)
        with np.errstate(invalid="ignore"):  # no share among none
            share_bad = (bad / size).sum(axis=0) / weight
        return {
            "threshold": grid,
            "n_clusters": np.array([float(len(part)) for part in parts]),
            "n_accepted": accepted.sum(axis=0).astype(np.float64),
            "n_bad": bad.sum(axis=0).astype(np.float64),
            "p_value": p_values(Games.of(parts), eta),
            "acceptance": weight / max(self.n_clusters, 1),
            "exceedance": share_bad,
        }

    def _up_to(self, grid: FloatArray, which: BoolArray) -> IntArray:
        """Rows of each cluster with a score up to each threshold, (clusters, thresholds)."""
        usable = which & (self.score < np.inf)
        width = len(grid) + 1
        place = self.codes[usable] * width + np.searchsorted(grid, self.score[usable])
        counts = np.bincount(place, minlength=self.n_clusters * width)
        return np.cumsum(counts.reshape(-1, width), axis=1)[:, :-1]


def clusters_needed(acceptance: float, eta: float, delta: float) -> float:
    """How many clusters reject where this share of each is accepted and none of it bad.

    A round multiplies capital by ``1 + eta * acceptance / (1 - eta)`` at most.
    """
    gain = math.log1p(eta * acceptance / (1 - eta))
    return math.log(TOP / (SHARE * delta)) / gain if gain else math.inf


def _start(n_clusters: int, claim: ClusterCertificate) -> float:
    """Share of the rows to start with: the lowest scores, but enough of them to prove something."""

    def enough(times: float) -> float:
        """Acceptance at which a perfect record needs so many times fewer clusters than there are.

        It is the inverse of `clusters_needed`.
        """
        gain = times * math.log(TOP / (SHARE * claim.delta)) / max(n_clusters, 1)
        return (1 - claim.eta) / claim.eta * math.expm1(min(gain, 1.0))

    wanted = min(enough(ENOUGH_ROWS), LARGEST_START)
    return min(max(enough(FEWEST_ROWS), SMALLEST_START, wanted), 1.0)


def _thresholds(known: FloatArray, shares: FloatArray) -> tuple[FloatArray, IntArray]:
    """Thresholds, ascending, and the positions of the starts among them."""
    starts = [quantile_thresholds(known, 1, float(share))[:1] for share in shares]
    rest = quantile_thresholds(known, MOST_THRESHOLDS, float(shares[0]))
    grid = np.unique(np.concatenate([*starts, rest]))
    return grid, np.searchsorted(grid, np.concatenate(starts))


def _largest_certified(p: FloatArray, positions: IntArray, delta: float) -> int | None:
    """Position of the largest threshold that a sequence gets to, each with its part of delta."""
    part = delta / max(len(positions), 1)
    ends = [first_failure(lambda at, level: p[at] <= level, len(p), i, part) for i in positions]
    passed = [end - 1 for end, i in zip(ends, positions, strict=True) if end > i]
    return max(passed, default=None)


def _outcome(
    claim: ClusterCertificate,
    table: dict[str, FloatArray],
    certified: int | None,
    positions: IntArray,
) -> tuple[ClusterCertificate, str]:
    """The claim with what was seen at the certified threshold, or what was missing; a sentence."""
    if certified is not None:
        n, n_bad = (int(table[name][certified]) for name in ("n_accepted", "n_bad"))
        p, accepted, share = (float(table[name][certified]) for name in list(table)[-3:])
        claim = replace(claim, n_accepted=n, n_bad=n_bad, p_value=p)
        return replace(claim, acceptance=accepted, exceedance=share), (
            f"P(loss > {as_typed(claim.tau)} | accepted) <= {claim.eta:g} for a random row of a "
            f"random new cluster, each cluster counting once, with confidence {1 - claim.delta:g}: "
            f"over the draw of the {claim.n_clusters} certifying clusters ({claim.n_rows} rows), "
            f"the probability that this fails is at most {claim.delta:g}."
        )
    why = "There is no finite score to place a threshold."
    if len(positions):
        first = int(positions[np.argmin(table["p_value"][positions])])
        n, m = int(table["n_accepted"][first]), int(table["n_clusters"][first])
        p, share = float(table["p_value"][first]), float(table["acceptance"][first])
        needed = clusters_needed(share, claim.eta, claim.delta / len(positions))
        claim = replace(claim, start_p_value=p)
        if math.isfinite(needed):
            claim = replace(claim, clusters_needed_without_a_bad_row=math.ceil(needed))
        why = (
            f"At the start {int(table['n_bad'][first])} of {n} accepted rows of {m} clusters are "
            f"bad, p-value {p:.3g}"
        )
        if needed > m and n:
            why += f"; without a bad row {math.ceil(needed)} such clusters are the least to pass"
        why += "."
    return claim, f"Nothing is accepted: no threshold could be certified. {why}"
