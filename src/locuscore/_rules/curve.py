"""Acceptance and bad among the accepted at every threshold, with bands that hold at once."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray, IntArray
from locuscore._rules.curve_band import MASS_SHARE, mass_range, upper_band
from locuscore._rules.threshold_counts import checked_rows
from locuscore._shared.accepted import count_up_to, distinct_counts, sorted_finite
from locuscore._shared.cards import Card, Table
from locuscore._shared.checks import check_between
from locuscore._shared.curve_picture import curve_picture
from locuscore._shared.optional import require
from locuscore._shared.readable import as_typed

MOST_CELLS = 1_500  # thresholds are taken together where there are more
MOST_DRAWN = 200  # points of the picture
SHARES_SHOWN = (0.25, 0.5, 0.75, 0.9, 1.0)  # acceptances in the table

COLUMNS = (
    "threshold",
    "acceptance",
    "acceptance_low",
    "acceptance_high",
    "exceedance",
    "low",
    "high",
)


class _Cells(NamedTuple):
    """Bands that are constant within a cell, and how many thresholds are in each."""

    low: FloatArray
    high: FloatArray
    acceptance_low: FloatArray
    acceptance_high: FloatArray
    size: IntArray


@dataclass(frozen=True, repr=False)
class OperatingCurve:
    """One entry per threshold: what is accepted, how much of it is bad, and how sure that is.

    Thresholds are the distinct finite scores, ascending; a row is accepted when its score is at
    most the threshold. With probability at least 1 - delta over the labelled rows, *all* of

    * ``acceptance_low <= P(S <= threshold) <= acceptance_high``,
    * ``low <= P(Z > tau | S <= threshold) <= high``

    hold, at every threshold in the table and at every number between two of them (which then takes
    the entry below it). So a threshold may be chosen after looking, in any way.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import operating_curve
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> curve = operating_curve(score, losses, tau=0.5, delta=0.1)
    >>> bool((curve.low <= curve.exceedance).all() and (curve.exceedance <= curve.high).all())
    True
    """

    threshold: FloatArray
    n_accepted: IntArray
    n_rows: int
    tau: float
    delta: float
    _bad_scores: FloatArray = field(repr=False)
    _cells: "_Cells" = field(repr=False)

    @property
    def acceptance(self) -> FloatArray:
        """Share of the labelled rows accepted."""
        return self.n_accepted / self.n_rows

    @property
    def acceptance_low(self) -> FloatArray:
        """Lower band of the acceptance."""
        return np.repeat(self._cells.acceptance_low, self._cells.size)

    @property
    def acceptance_high(self) -> FloatArray:
        """Upper band of the acceptance."""
        return np.repeat(self._cells.acceptance_high, self._cells.size)

    @cached_property
    def n_bad(self) -> IntArray:
        """Number of accepted labelled rows whose loss exceeds tau."""
        return count_up_to(self._bad_scores, self.threshold)

    @property
    def exceedance(self) -> FloatArray:
        """Share of bad rows among the accepted."""
        return self.n_bad / self.n_accepted

    @cached_property
    def low(self) -> FloatArray:
        """Lower band of the share of bad rows among the accepted."""
        return np.repeat(self._cells.low, self._cells.size)

    @cached_property
    def high(self) -> FloatArray:
        """Upper band of the share of bad rows among the accepted."""
        return np.repeat(self._cells.high, self._cells.size)

    def to_frame(self) -> Any:
        """Return the table as a pandas frame, one row per threshold."""
        pandas = require("pandas", extra="demo")
        return pandas.DataFrame({name: getattr(self, name) for name in COLUMNS})

    def __repr__(self) -> str:
        return (
            f"OperatingCurve({len(self.threshold):,} thresholds, {self.n_rows:,} labelled rows, "
            f"tau={self.tau:g}, delta={self.delta:g})"
        )

    def _repr_html_(self) -> str:
        return curve_card(self)

    def __str__(self) -> str:
        return (
            f"Operating curve with {len(self.threshold)} thresholds from {self.n_rows} labelled "
            f"rows. Theorem: with probability at least {1 - self.delta:g} over these rows, the "
            f"bands contain P(accepted) and P(loss > {as_typed(self.tau)} | accepted) at all "
            "thresholds at once, for new rows drawn independently from the same population."
        )


def curve_card(curve: OperatingCurve) -> str:
    """The curve with its band as a card, and a table of a few acceptances."""
    n = len(curve.threshold)
    some = np.unique(np.linspace(0, max(n - 1, 0), min(n, MOST_DRAWN)).astype(np.int64))
    columns = (curve.acceptance, curve.exceedance, curve.low, curve.high)
    x, y, low, high = (column[some].tolist() for column in columns)
    across, up = "rows accepted", f"of them with a loss above {curve.tau:g}"
    rows = []
    for share in SHARES_SHOWN:
        i = int(np.searchsorted(curve.acceptance, share, side="right")) - 1
        if i >= 0:
            shares = (f"{100 * column[i]:.1f} %" for column in columns)
            rows.append((f"{curve.threshold[i]:.5g}", *shares))
    rows = list(dict.fromkeys(rows))
    table = Table(("threshold", "accepted", "of them bad", "at least", "at most"), rows)
    return Card(
        "Operating curve",
        f"{curve.n_rows:,} labelled rows",
        lead=f"With probability at least {100 * (1 - curve.delta):g} % over these rows, the band "
        "holds at all thresholds at once, so one may be chosen after looking.",
        picture=curve_picture(x, y, low, high, (across, up)) if n else "",
        table=table if rows else None,
    ).html()


def operating_curve(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    delta: float = 0.05,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    *,
    lower: bool = True,
) -> OperatingCurve:
    """Acceptance, and bad among the accepted, at all thresholds, with simultaneous bands.

    Exact in finite samples for independent rows, any law and any ties. Let g and h be the masses of
    bad and good rows up to a threshold, and k and j the numbers of labelled ones. For any x, ``(1 -
    x / g)^k (1 + x / h)^j`` is a martingale with mean 1 as the threshold falls; with ``r = g / (g +
    h)`` it is a likelihood ratio of a share below r against r. An average over several x reaches
    ``1 / delta`` anywhere with probability at most delta, so r is bounded wherever it would. The
    proof is in docs/batch_and_planning.md. Infinite scores, of either sign, are never accepted;
    they count as rows for the acceptance.

    Parameters
    ----------
    score, losses
        Labelled rows that had no part in the score or in tau.
    tau, delta
        A loss above tau is bad; delta is the probability that any band misses anywhere.
    random_state
        Without effect: ties need no random order. It is still accepted.
    lower
        Whether there is a lower band of the exceedance. Without it `low` is 0, and the upper band
        is narrower.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import operating_curve
    >>> score = np.arange(1000) / 1000
    >>> curve = operating_curve(score, score, tau=0.8, lower=False)
    >>> float(curve.threshold[curve.high <= 0.05].max()) > 0.75
    True
    """
    s, is_bad = checked_rows(score, losses, tau)
    delta = check_between(delta, "delta")
    bad = np.sort(np.compress(is_bad, s))  # ten times as fast as indexing
    threshold, accepted = distinct_counts(sorted_finite(s))
    cells = _cells(accepted, count_up_to(bad, threshold), len(s), delta, lower)
    return OperatingCurve(threshold, accepted, len(s), float(tau), delta, bad, cells)


def _cells(accepted: IntArray, n_bad: IntArray, n: int, delta: float, lower: bool) -> _Cells:
    """Bands in each cell: one threshold, or where there are very many, neighbouring ones.

    The upper band grows with the bad rows and falls with the good ones, so the last number of bad
    rows in a cell and its first of good ones bound it everywhere in the cell.
    """
    edges = np.arange(len(accepted) + 1)
    if len(accepted) > MOST_CELLS:
        # Even steps in the root of the rank, where the bands change evenly.
        roots = np.sqrt(accepted[-1]) * np.linspace(0.0, 1.0, MOST_CELLS + 1)
        edges = np.unique(np.append(np.searchsorted(accepted, roots**2), len(accepted)))
        edges = np.unique(np.append(0, edges))
    first, last = edges[:-1], edges[1:] - 1
    n_good = accepted - n_bad
    lowest, highest = mass_range(accepted[first], n, MASS_SHARE * delta)
    if len(accepted) > MOST_CELLS:
        highest = mass_range(accepted[last], n, MASS_SHARE * delta)[1]
    mass, each = (lowest, highest), (1 - MASS_SHARE) * delta / (2 if lower else 1)
    bad, good = n_bad.astype(np.float64), n_good.astype(np.float64)
    high = upper_band(bad[last], good[first], mass, n, each)
    low = np.zeros(len(first))
    if lower:
        low = 1 - upper_band(good[last], bad[first], mass, n, each)
    return _Cells(low, high, lowest, highest, np.diff(edges))
