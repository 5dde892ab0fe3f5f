"""What a Locus certifies on: rows of D2, or fresh ones. Their kind decides which test is exact."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import Score
from locuscore._protocols import CertifiesBy, FloatArray, IntArray, RowWeights
from locuscore._rules.certify import certify_threshold
from locuscore._rules.certify_clusters import certify_clusters
from locuscore._rules.rule import FlagRule
from locuscore._rules.thresholds import ties_heavily
from locuscore._rules.weighted import certify_weighted

MOST_REFERENCE_ROWS = 1_000


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be certified, of which score, and where thresholds come from; see `certify`."""

    of: Score
    tau: float
    eta: float
    delta: float
    reference: FloatArray | None = None
    starts: Sequence[float] | None = None

    def on_rows(
        self, score: FloatArray, losses: FloatArray, reference: FloatArray | None
    ) -> FlagRule:
        """Certify on independent rows."""
        return certify_threshold(
            score,
            losses,
            self.tau,
            self.eta,
            self.delta,
            of=self.of,
            reference=reference,
            starts=self.starts,
        )

    def on_clusters(
        self,
        score: FloatArray,
        losses: FloatArray,
        clusters: ArrayLike,
        reference: FloatArray | None,
    ) -> FlagRule:
        """Certify on rows of independent clusters."""
        return certify_clusters(
            score,
            losses,
            clusters,
            self.tau,
            self.eta,
            self.delta,
            of=self.of,
            reference=reference,
            starts=self.starts,
        )

    def on_fresh(
        self, score: FloatArray, losses: FloatArray, clusters: ArrayLike | None
    ) -> FlagRule:
        """Certify on rows that `fit` has not seen, which have clusters or stand alone."""
        if clusters is None:
            return self.on_rows(score, losses, self.reference)
        return self.on_clusters(score, losses, clusters, self.reference)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The rows of D2: what certifies a score that is a function of D1 alone.

    `scores` turns signals into such scores. Thresholds may come from D1: from the few rows of
    `reference_signals`, or from all of `fit_signals`; both are None after a `Locus` is loaded.
    """

    scores: Callable[[FloatArray], FloatArray]
    signals: FloatArray
    losses: FloatArray
    clusters: IntArray | None
    weights: RowWeights | None
    reference_signals: FloatArray | None
    fit_signals: FloatArray | None

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

    def certify(self, asked: Asked, by: CertifiesBy) -> FlagRule:
        """Certify as the calibration says that its rows do."""
        return CERTIFIERS[by](self, asked)


def _by_rows(rows: HeldOut, asked: Asked) -> FlagRule:
    reference = rows.known_where_tied if asked.reference is None else asked.reference
    return asked.on_rows(rows.score, rows.losses, reference)


def _by_clusters(rows: HeldOut, asked: Asked) -> FlagRule:
    assert rows.clusters is not None
    reference = rows.known if asked.reference is None else asked.reference
    return asked.on_clusters(rows.score, rows.losses, rows.clusters, reference)


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
        asked.tau,
        asked.eta,
        asked.delta,
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
