"""What a Locus certifies on: rows of D2, or fresh ones. Their kind decides which test is exact."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import Score
from locuscore._protocols import CertifiesBy, FloatArray, IntArray, RowWeights
from locuscore._rules.certify import certify_planned, certify_threshold, claim_on
from locuscore._rules.certify_clusters import certify_clusters
from locuscore._rules.planned_starts import Pilot
from locuscore._rules.rule import FlagRule
from locuscore._rules.thresholds import ties_heavily
from locuscore._rules.weighted import certify_weighted

MOST_REFERENCE_ROWS = 1_000


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be certified: of which score, and tau, eta and delta; where thresholds come from.

    `reference` and `starts` are those of `certify_threshold`.
    """

    of: Score
    claim: tuple[float, float, float]
    reference: FloatArray | None = None
    starts: Sequence[float] | None = None

    def certified(
        self, score: FloatArray, losses: FloatArray, clusters: ArrayLike | None = None
    ) -> FlagRule:
        """Certify on rows that are independent, or have independent clusters."""
        options: Any = {"of": self.of, "reference": self.reference, "starts": self.starts}
        if clusters is None:
            return certify_threshold(score, losses, *self.claim, **options)
        return certify_clusters(score, losses, clusters, *self.claim, **options)

    def or_by(self, reference: FloatArray | None) -> Self:
        """The same, with these scores as thresholds unless others are given."""
        return self if self.reference is not None else replace(self, reference=reference)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The rows of D2: what certifies a score that is a function of D1 alone.

    `scores` turns signals into such scores. Thresholds may come from D1: from the few rows of
    `reference_signals`, or from all of `fit_signals`; both are None after a `Locus` is loaded.
    `left_out` gives scores of rows of D1 by a model that has not seen their losses, and these
    losses: what the start is planned on.
    """

    scores: Callable[[FloatArray], FloatArray]
    signals: FloatArray
    losses: FloatArray
    clusters: IntArray | None
    weights: RowWeights | None
    reference_signals: FloatArray | None
    fit_signals: FloatArray | None
    left_out: Callable[[], tuple[FloatArray, FloatArray] | None] = lambda: None

    @cached_property
    def score(self) -> FloatArray:
        """Score of each row."""
        return self.scores(self.signals)

    @cached_property
    def known(self) -> FloatArray | None:
        """Scores of a few rows of D1, as if they were new."""
        return None if self.reference_signals is None else self.scores(self.reference_signals)

    @property
    def known_where_tied(self) -> FloatArray | None:
        """The same where they help: among many equal scores, a start needs other thresholds."""
        return self.known if self.known is not None and ties_heavily(self.known) else None

    def pilot(self, tau: float) -> Pilot | None:
        """Rows of D1 to plan the start on, with the ties that scores of new rows have."""
        pairs = self.left_out()
        if pairs is None or self.known is None:
            return None
        score, losses = pairs
        return Pilot.of(score, losses > tau).with_ties_of(self.known)

    def certify(self, asked: Asked, by: CertifiesBy) -> FlagRule:
        """Certify as the calibration says that its rows do."""
        return CERTIFIERS[by](self, asked)


def _by_rows(rows: HeldOut, asked: Asked) -> FlagRule:
    if asked.reference is None and asked.starts is None:
        score, bad, claim = claim_on(rows.score, rows.losses, *asked.claim)
        pilot = rows.pilot(claim.tau)
        if pilot is not None and rows.known is not None:
            return certify_planned(score, bad, claim, asked.of, rows.known, pilot)
    return asked.or_by(rows.known_where_tied).certified(rows.score, rows.losses)


def _by_clusters(rows: HeldOut, asked: Asked) -> FlagRule:
    assert rows.clusters is not None
    return asked.or_by(rows.known).certified(rows.score, rows.losses, rows.clusters)


def _by_weights(rows: HeldOut, asked: Asked) -> FlagRule:
    """Thresholds are scores of D1, whose weights are known, unless others are given."""
    assert rows.weights is not None
    if asked.starts is not None:
        raise ValueError("starts are for rows that count alike; leave them out.")
    by, reference, weights = rows.weights, asked.reference, None
    if reference is None and by.of_fit is not None and rows.fit_signals is not None:
        n = len(rows.fit_signals)
        some = np.linspace(0, n - 1, min(n, MOST_REFERENCE_ROWS)).astype(np.int64)
        reference, weights = rows.scores(rows.fit_signals[some]), by.of_fit[some]
    return certify_weighted(
        rows.score,
        rows.losses,
        by.weights,
        *asked.claim,
        of=asked.of,
        largest_weight=by.largest,
        reference=reference,
        reference_weights=weights,
    )


CERTIFIERS: dict[CertifiesBy, Callable[[HeldOut, Asked], FlagRule]] = {
    "rows": _by_rows,
    "clusters": _by_clusters,
    "weights": _by_weights,
}
