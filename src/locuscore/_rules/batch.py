"""Accept part of a batch with the false discovery rate under control: conformal selection."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.accepted import is_accepted, sorted_finite
from locuscore._shared.checks import check_between, check_losses, check_scores, one_tau
from locuscore._shared.readable import as_typed
from locuscore._shared.shown import Shown

ROUNDING = 1e-12  # relative, so that rounding does not miss a level that is met exactly


@dataclass(frozen=True, repr=False)
class BatchSelection(Shown):
    """Which rows of one batch are accepted, and a promise about the average over many batches.

    A row is accepted when its score is at most `threshold`, which belongs to this batch and to no
    other; it is -inf when nothing is accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import select_batch
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> batch = rng.uniform(size=100)
    >>> selected = select_batch(batch, score, losses, tau=0.5, fdr=0.1)
    >>> bool((selected.accepted == (batch <= selected.threshold)).all())
    True
    >>> selected.n_cal
    2000
    """

    accepted: np.ndarray
    threshold: float
    tau: float
    fdr: float
    n_cal: int
    n_bad: int
    _bad_scores: FloatArray = field(repr=False)

    @property
    def n_accepted(self) -> int:
        """Number of rows accepted."""
        return int(np.count_nonzero(self.accepted))

    def p_values(self, score: ArrayLike) -> FloatArray:
        """Conformal p-value of "the loss exceeds tau" for each score; 1 for an infinite one."""
        (s,) = check_scores(score=score)
        # The row counts itself as a bad one: by exchangeability, the probability that it is bad and
        # its p-value at most t is then at most t.
        below = np.searchsorted(np.sort(self._bad_scores), s, side="right")
        return np.where(s < np.inf, (1.0 + below) / (self.n_cal + 1.0), 1.0)

    def __str__(self) -> str:
        return (
            f"{self.n_accepted} of {len(self.accepted)} rows accepted. Theorem: the share of "
            f"losses above {as_typed(self.tau)} among the accepted rows of a batch is at most "
            f"{self.fdr:g} on average over repeated draws of the {self.n_cal} calibration rows "
            "and the batch together, if all rows are exchangeable. It is an average, not a "
            "certificate: the share in this batch may be larger, and the threshold must not be "
            "used for another batch."
        )


def select_batch(
    score_new: ArrayLike,
    score_cal: ArrayLike,
    losses_cal: ArrayLike,
    tau: float,
    fdr: float,
) -> BatchSelection:
    """Accept rows of one batch such that few of the accepted exceed tau, on average.

    With the p-values ``p_j = (1 + #{i : Z_i > tau, S_i <= S_j}) / (n + 1)`` and the procedure of
    Benjamini and Hochberg at level `fdr` (conformal selection, Jin and Candes 2023), ::

        E[ #{accepted, Z > tau} / max(1, #accepted) ] <= fdr

    for exchangeable rows, any score that does not know their losses, and any ties: equal scores
    count against a row. The expectation runs over the calibration rows and the batch.

    A certificate differs: it promises that, with probability 1 - delta over the labelled rows, one
    fixed rule has ``P(Z > tau | accepted) <= eta`` for all rows to come. Here one batch is
    accepted as a whole, nothing is promised of the batch at hand, and with few rows accepted the
    share among them may be far above `fdr`. In return fewer labelled rows are needed. Scores
    that were calibrated on the same rows (`Locus.loss_bound`, `Locus.exceedance`) rank like the
    tail probability but are not exchangeable with new ones: use fresh rows, or the tail.

    Parameters
    ----------
    score_new
        Scores of the batch, small where safe; an infinite one, of either sign, is never accepted.
    score_cal, losses_cal
        Scores and losses of labelled rows that neither chose tau nor trained the score.
    tau
        Tolerance: a loss above it is bad.
    fdr
        Largest expected share of bad rows among the accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import select_batch
    >>> score = np.arange(200) / 200
    >>> batch = select_batch([0.1, 0.2, 0.9], score, score**3, tau=0.5, fdr=0.1)
    >>> batch.accepted.tolist()
    [True, True, False]
    """
    (new,) = check_scores(score_new=score_new)
    cal, z = check_scores(score_cal=score_cal, losses_cal=losses_cal)
    z = check_losses(z, len(z), "losses_cal")
    tau, fdr = one_tau(tau), check_between(fdr, "fdr")
    bad = np.compress(z > tau, cal)
    threshold = _threshold(new, bad, len(cal), fdr)
    return BatchSelection(is_accepted(new, threshold), threshold, tau, fdr, len(cal), len(bad), bad)


def _threshold(new: FloatArray, bad: FloatArray, n: int, fdr: float) -> float:
    """Largest accepted score of Benjamini and Hochberg, or -inf.

    Between two bad calibration scores the p-value is constant, so the last row before each bad
    score decides; and no p-value above `fdr` can be accepted. So ``fdr * (n + 1)`` searches do.
    """
    ranked = sorted_finite(new)
    most = min(len(bad), int(fdr * (n + 1) * (1 + ROUNDING)))
    smallest = np.sort(np.partition(bad, most - 1)[:most]) if most else bad[:0]
    # Entry j: how many rows of the batch have at most j bad calibration rows at or below them. Ties
    # count against a row, hence "left": a row with a bad row's score is not before it.
    rank: IntArray = np.searchsorted(ranked, smallest, side="left")
    if most == len(bad):
        rank = np.append(rank, len(ranked))
    # The largest p-value among the first `rank` rows is (1 + j) / (n + 1); Benjamini and Hochberg
    # accept them all if it is at most fdr * rank / (size of the batch), infinite scores included.
    limit = fdr * rank * ((n + 1) / len(new)) * (1 + ROUNDING)
    passed = rank[(1 + np.arange(len(rank)) <= limit) & (rank > 0)]
    return float(ranked[passed.max() - 1]) if len(passed) else -np.inf
