"""Acceptance and bad among the accepted at every threshold, with bands that hold at once."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from locuscore._protocols import FloatArray, IntArray
from locuscore._rules.threshold_counts import checked_rows
from locuscore._shared.accepted import count_up_to, distinct_counts, sorted_finite
from locuscore._shared.cards import Card, Table
from locuscore._shared.checks import check_between
from locuscore._shared.curve_picture import curve_picture
from locuscore._shared.optional import require
from locuscore._shared.readable import as_typed
from locuscore._shared.seeds import spawn_seeds

FIRST_NODE = 8  # fewer rows give no useful bound
SPACING = 0.7  # distance of neighbouring nodes, in units of the square root of the rank
MOST_NODES = 600
ACCEPTANCE_SHARE = 0.2  # of delta: spent on the band of the acceptance
MOST_DRAWN = 200  # points of the picture
SHARES_SHOWN = (0.25, 0.5, 0.75, 0.9, 1.0)  # acceptances in the table
RATIO_SHARE = 0.1  # of the rest: spent on what lies between two nodes


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
    """The band is constant between neighbouring nodes: its values, and thresholds in each cell."""

    low: FloatArray
    high: FloatArray
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
        return np.maximum(self.acceptance - self._slack, 0.0)

    @property
    def acceptance_high(self) -> FloatArray:
        """Upper band of the acceptance."""
        return np.minimum(self.acceptance + self._slack, 1.0)

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

    @property
    def _slack(self) -> float:
        return float(np.sqrt(np.log(2 / (ACCEPTANCE_SHARE * self.delta)) / (2 * self.n_rows)))

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
) -> OperatingCurve:
    """Acceptance, and bad among the accepted, at all thresholds, with simultaneous bands.

    Exact in finite samples for independent rows, any law and any ties. Order the n rows by score,
    equal scores at random (`random_state`, used for nothing else), and let ``T_k`` be the k-th
    place. Given ``T_k``, the k - 1 rows before it are independent draws of the law below ``T_k``,
    so the number of bad ones is binomial(k - 1, R_k) with ``R_k = P(bad | below T_k)``, and
    Clopper and Pearson bound ``R_k``. This is done at up to 600 ranks that depend on n
    alone. Between two of them, a < b, let ``q = P(below T_a) / P(below T_b)``, which has law
    Beta(a, b - a). Bad and good mass both grow with the threshold, so there ::

        max(R_a q, 1 - (1 - R_b) / q) <= P(bad | accepted) <= min(R_b / q, 1 - (1 - R_a) q)

    The error probabilities of all bounds, and of the acceptance band (Dvoretzky, Kiefer, Wolfowitz,
    Massart), add up to delta. Below the eighth row nothing is known. Infinite scores, of either
    sign, are never accepted; they count as rows for the acceptance.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import operating_curve
    >>> score = np.arange(1000) / 1000
    >>> curve = operating_curve(score, score, tau=0.8)
    >>> float(curve.threshold[curve.high <= 0.05].max()) > 0.7
    True
    """
    s, is_bad = checked_rows(score, losses, tau)
    delta = check_between(delta, "delta")
    bad = np.sort(np.compress(is_bad, s))  # ten times as fast as indexing
    threshold, accepted = distinct_counts(sorted_finite(s))
    rng = np.random.default_rng(spawn_seeds(random_state, 1)[0])
    cells = _band(threshold, accepted, bad, (1 - ACCEPTANCE_SHARE) * delta, rng)
    return OperatingCurve(threshold, accepted, len(s), float(tau), delta, bad, cells)


def _nodes(n: int) -> IntArray:
    """Ranks at which the exceedance is bounded; the last, n + 1, stands for all rows."""
    # Steps of c * sqrt(k) in the rank k are even steps of c / 2 in its root.
    step = max(SPACING / 2, np.sqrt(n) / MOST_NODES)
    roots = np.arange(np.sqrt(FIRST_NODE), np.sqrt(n + 1), step)
    inner = np.unique(np.round(roots**2).astype(np.int64))
    return np.append(inner[inner <= n], n + 1)


def _band(
    threshold: FloatArray,
    accepted: IntArray,
    bad: FloatArray,
    delta: float,
    rng: np.random.Generator,
) -> _Cells:
    """Lower and upper band in each cell; cell 0 lies before the first node."""
    nodes = _nodes(int(accepted[-1]) if len(accepted) else 0)
    # Given the node's score, the rows before it are independent draws from below it: k is binomial.
    n, k = nodes - 1, _bad_before(nodes, threshold, accepted, bad, rng)
    # Two sides at each node; by the union bound all hold together.
    level = (1 - RATIO_SHARE) * delta / (2 * len(nodes))
    r_low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, level), 0.0)
    r_high = np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 1), level), 1.0)
    a, b = nodes[:-1], nodes[1:]
    # A lower bound on the ratio of the masses below two neighbouring nodes, a Beta(a, b - a) draw.
    q = betaincinv(a, b - a, RATIO_SHARE * delta / max(len(a), 1))
    low = np.maximum(r_low[:-1] * q, 1 - (1 - r_low[1:]) / q)
    high = np.minimum(r_high[1:] / q, 1 - (1 - r_high[:-1]) * q)
    # A threshold with c rows lies in the cell where a <= c < b.
    size = np.diff(np.searchsorted(accepted, nodes, side="left"), prepend=0)
    return _Cells(
        np.append(0.0, np.clip(low, 0.0, 1.0)), np.append(1.0, np.clip(high, 0.0, 1.0)), size
    )


def _bad_before(
    nodes: IntArray,
    threshold: FloatArray,
    accepted: IntArray,
    bad: FloatArray,
    rng: np.random.Generator,
) -> IntArray:
    """Number of bad rows among the first ``node - 1``, ties in random order.

    Where a node cuts a group of ties, the bad ones among those before it are a hypergeometric draw.
    """
    # Groups of ties that lie wholly before the node. A node at the start of a group, or beyond the
    # last, cuts none.
    group = np.searchsorted(accepted, nodes - 1, side="right")
    value = np.append(threshold, np.inf)[group]
    bad_below = np.searchsorted(bad, value, side="left")
    bad_here = np.searchsorted(bad, value, side="right") - bad_below
    rows = np.append(0, accepted)
    good_here = rows[np.minimum(group + 1, len(accepted))] - rows[group] - bad_here
    inside = nodes - 1 - rows[group]
    draw = rng.hypergeometric(bad_here, np.maximum(good_here, 0), inside)
    return np.asarray(bad_below + draw, dtype=np.int64)
