"""Acceptance and exceedance at every threshold, with a band that holds for all of them at once."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from locuscore._optional import require
from locuscore._protocols import FloatArray, IntArray
from locuscore._random import spawn_seeds
from locuscore._validation import check_between, check_losses, check_same_length, check_tau

FIRST_NODE = 8  # with fewer rows no bound is of use
SPACING = 0.7  # distance of neighbouring nodes, in units of the square root of the rank
ACCEPTANCE_SHARE = 0.2  # of delta: spent on the band of the acceptance
RATIO_SHARE = 0.1  # of the rest: spent on what lies between two nodes


@dataclass(frozen=True)
class OperatingCurve:
    """One entry per threshold: what is accepted, how much of it is bad, and how sure that is.

    Thresholds are the distinct finite scores, ascending; a row is accepted when its score is at
    most the threshold. With probability at least 1 - delta over the labelled rows, *all* of

    * ``acceptance_low <= P(S <= threshold) <= acceptance_high``,
    * ``low <= P(Z > tau | S <= threshold) <= high``

    hold, at every threshold in the table and at every number between two of them (which then takes
    the entry below it). So a threshold may be chosen after looking, in any way.
    """

    threshold: FloatArray
    acceptance: FloatArray
    acceptance_low: FloatArray
    acceptance_high: FloatArray
    exceedance: FloatArray
    low: FloatArray
    high: FloatArray
    n_rows: int
    tau: float
    delta: float

    def to_frame(self) -> Any:
        """Return the table as a pandas frame, one row per threshold."""
        pandas = require("pandas", extra="demo")
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: value for name, value in columns.items() if np.ndim(value)}
        return pandas.DataFrame(arrays)

    def __str__(self) -> str:
        return (
            f"Operating curve with {len(self.threshold)} thresholds from {self.n_rows} labelled "
            f"rows. Theorem: with probability at least {1 - self.delta:g} over these rows, the "
            f"bands contain P(accepted) and P(loss > {self.tau:g} | accepted) at all thresholds "
            "at once, for new rows drawn independently from the same population."
        )


def operating_curve(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    delta: float = 0.05,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
) -> OperatingCurve:
    """Acceptance and conditional exceedance at all thresholds, with simultaneous bands.

    Exact in finite samples for independent rows, any law and any ties. Order the n rows by score,
    equal scores at random (`random_state`, used for nothing else), and let ``T_k`` be the k-th
    place. Given ``T_k``, the k - 1 rows before it are independent draws of the law below ``T_k``,
    so the number of bad ones is binomial(k - 1, R_k) with ``R_k = P(bad | below T_k)``, and
    Clopper and Pearson bound ``R_k``. This is done at about ``3 sqrt(n)`` ranks that depend on n
    alone. Between two of them, a < b, let ``q = P(below T_a) / P(below T_b)``, which has law
    Beta(a, b - a). Bad and good mass both grow with the threshold, so there ::

        max(R_a q, 1 - (1 - R_b) / q) <= P(bad | accepted) <= min(R_b / q, 1 - (1 - R_a) q)

    The error probabilities of all bounds, and of the acceptance band (Dvoretzky, Kiefer, Wolfowitz,
    Massart), add up to delta. Below the eighth row nothing is known. Scores of inf are never
    accepted; they count as rows for the acceptance.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import operating_curve
    >>> score = np.arange(1000) / 1000
    >>> curve = operating_curve(score, score, tau=0.8)
    >>> float(curve.threshold[curve.high <= 0.05].max()) > 0.7
    True
    """
    s, z = check_same_length(score=score, losses=losses)
    z = check_losses(z, len(z), "losses")
    tau = check_between(check_tau(tau), "tau", -np.inf, np.inf)
    delta = check_between(delta, "delta")
    threshold, accepted, bad = _counts(s, s[z > tau])
    acceptance = accepted / len(s)
    slack = np.sqrt(np.log(2 / (ACCEPTANCE_SHARE * delta)) / (2 * len(s)))
    rng = np.random.default_rng(spawn_seeds(random_state, 1)[0])
    low, high = _band(accepted, bad, (1 - ACCEPTANCE_SHARE) * delta, rng)
    return OperatingCurve(
        threshold,
        acceptance,
        np.maximum(acceptance - slack, 0.0),
        np.minimum(acceptance + slack, 1.0),
        bad / accepted,
        low,
        high,
        len(s),
        tau,
        delta,
    )


def _counts(score: FloatArray, bad_score: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Distinct finite scores, and the numbers of rows and of bad rows up to each."""
    s = np.sort(score)
    s = s[: np.searchsorted(s, np.inf, side="left")]
    last = np.append(s[1:] != s[:-1], np.ones(min(len(s), 1), dtype=bool))
    # Searching the bad rows among all is cheaper than sorting positions along with the scores.
    place = np.searchsorted(s, np.sort(bad_score), side="left")
    bad = np.cumsum(np.bincount(place, minlength=len(s))[: len(s)])
    if last.all():
        return s, np.arange(1, len(s) + 1), bad
    # A bad row was counted at the first row of its ties; at the last one all of them are in.
    return s[last], np.flatnonzero(last) + 1, bad[last]


def _nodes(n: int) -> IntArray:
    """Ranks at which the exceedance is bounded; the last, n + 1, stands for all rows."""
    # Steps of SPACING * sqrt(k) are even steps of SPACING / 2 in sqrt(k).
    roots = np.arange(np.sqrt(FIRST_NODE), np.sqrt(n + 1), SPACING / 2)
    inner = np.unique(np.round(roots**2).astype(np.int64))
    return np.append(inner[inner <= n], n + 1)


def _band(
    accepted: IntArray, bad: IntArray, delta: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper band at every threshold."""
    if len(accepted) == 0:
        return np.empty(0), np.empty(0)
    nodes = _nodes(int(accepted[-1]))
    n, k = nodes - 1, _bad_before(nodes, accepted, bad, rng)
    level = (1 - RATIO_SHARE) * delta / (2 * len(nodes))
    r_low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, level), 0.0)
    r_high = np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 1), level), 1.0)
    a, b = nodes[:-1], nodes[1:]
    q = betaincinv(a, b - a, RATIO_SHARE * delta / max(len(a), 1))
    cell_low = np.maximum(r_low[:-1] * q, 1 - (1 - r_low[1:]) / q)
    cell_high = np.minimum(r_high[1:] / q, 1 - (1 - r_high[:-1]) * q)
    # Cell 0 lies before the first node; a threshold with c rows lies where a <= c < b.
    edges = np.searchsorted(accepted, nodes, side="left")
    widths = np.diff(np.append(0, edges))
    low = np.append(0.0, np.clip(cell_low, 0.0, 1.0))
    high = np.append(1.0, np.clip(cell_high, 0.0, 1.0))
    return np.repeat(low, widths), np.repeat(high, widths)


def _bad_before(
    nodes: IntArray, accepted: IntArray, bad: IntArray, rng: np.random.Generator
) -> IntArray:
    """Number of bad rows among the first ``node - 1``, ties in random order.

    Where a node cuts a group of ties, the bad ones among those before it are a hypergeometric draw.
    """
    group = np.searchsorted(accepted, nodes - 1, side="right")
    rows, bads = np.append(0, accepted), np.append(0, bad)
    inside = nodes - 1 - rows[group]
    following = np.minimum(group + 1, len(accepted))
    bad_here = bads[following] - bads[group]
    good_here = rows[following] - rows[group] - bad_here
    return bads[group] + np.asarray(rng.hypergeometric(bad_here, good_here, inside))
