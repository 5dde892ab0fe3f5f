"""Which signals drive the bound of a row: Shapley values of its logarithm, by sampled orders."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from locuscore import Locus
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.blocks import row_blocks

EVALUATIONS = 20_000  # laws evaluated, about; one costs as much as scoring a row
MOST_EVALUATIONS = 200_000  # of many signals; fewer rows are then explained
FEWEST_ORDERS, MOST_ORDERS = 4, 64  # each with its reverse, and a background row of its own
MOST_SIGNALS = 2_000
SMALLEST = 1e-12  # of a bound, relative to the median: a logarithm must be finite
SMALLEST_PROBABILITY = 1e-3  # relative to the largest: a loss model cannot tell smaller ones apart

ROWS_AT_ONCE = 10_000

LogValue = Callable[[FloatArray], FloatArray]  # signals (n, d) -> (n,)


def rows_explained(n_players: int) -> int:
    """How many rows can be explained at a bearable cost."""
    return max(MOST_EVALUATIONS // (2 * FEWEST_ORDERS * n_players), 2)


@dataclass(frozen=True)
class Attribution:
    """Shapley values (rows, players) of a logarithm; each row's add up to its value less `base`.

    A player is a signal, or the columns of the second opinion, which say one thing together.
    """

    values: FloatArray
    base: float
    what: str
    n_background: int
    evaluations: int
    seconds: float

    @property
    def method(self) -> str:
        """How it was done, in one sentence."""
        return (
            f"Shapley values of the logarithm of {self.what}: the signals of {self.n_background} "
            f"typical rows are replaced by those of the row one after another, in "
            f"{2 * self.n_background} random orders, and the changes averaged; "
            f"{self.evaluations:,} evaluations of the loss model in {self.seconds:.2f} s."
        )


def attribute(
    locus: Locus,
    rows: FloatArray,
    background: FloatArray,
    alpha: float,
    tau: float,
    seed: int,
    entries: np.ndarray | None = None,
) -> Attribution:
    """Attribute the logarithm of the bound at alpha, or of what stands in for it.

    An infinite bound has no logarithm, so the law's own quantile at 1 - alpha stands in for it;
    where bounds are zero, negative or of a few values only, P(loss > tau). `entries` are what
    calibration reads of the rows.
    """
    started = time.perf_counter()
    players = locus.signals_.players(rows.shape[1])
    wanted = EVALUATIONS // max(2 * len(rows) * max(int(players.max()), 1), 1)
    background = background[: min(max(wanted, FEWEST_ORDERS), MOST_ORDERS)]
    what, log_value = _log_value(locus, np.vstack([rows, background]), alpha, tau, entries)
    values, _, base, evaluations = shapley(log_value, rows, background, seed, players)
    seconds = round(time.perf_counter() - started, 3)
    return Attribution(values, base, what, len(background), evaluations, seconds)


def shapley(
    log_value: LogValue,
    rows: FloatArray,
    background: FloatArray,
    seed: int,
    players: IntArray | None = None,
) -> tuple[FloatArray, FloatArray, float, int]:
    """Shapley values of rows against background rows, the values themselves, their base, the cost.

    `players` says which player each signal belongs to, 0, 1, 2, ...; by default each is one. The
    signals of a player are switched together.

    Each background row is walked to each row in one random order of the players and in its
    reverse. A walk's changes add up to the difference of its ends, so a row's values add up to its
    own value less the mean over the background. For a sum of functions of one player each they
    are exact, whatever the orders.
    """
    rng = np.random.default_rng(seed)
    n, d = rows.shape
    players = np.arange(d) if players is None else players
    n_players = int(players.max()) + 1
    logs, ends = log_value(rows), log_value(background)
    values, evaluations = np.zeros((n, n_players)), n + len(background)
    orders = [rng.permutation(n_players) for _ in background]
    walks = np.array([walk for order in orders for walk in (order, order[::-1])])
    # Many walks at a time: a loss model asked for few rows spends its time on being asked.
    for part in row_blocks(len(walks) * n, n_players * d, max(ROWS_AT_ONCE // d, 1)):
        walk, to = np.divmod(np.arange(part.start, part.stop), n)
        start = walk // 2  # an order and its reverse have the same background row
        between = _between(rows[to], background[start], walks[walk], players)
        found = log_value(between) if len(between) else np.empty(0)
        evaluations += len(between)
        steps = found.reshape(len(to), n_players - 1)  # none where one player is all
        change = np.diff(np.column_stack([ends[start], steps, logs[to]]), axis=1)
        np.add.at(values, (to[:, None], walks[walk]), change)
    return values / len(walks), logs, float(ends.mean()), evaluations


def _between(
    ends: FloatArray, starts: FloatArray, walks: IntArray, players: IntArray
) -> FloatArray:
    """What lies between each start and its end on a walk over p players, (n * (p - 1), d)."""
    steps = np.arange(1, walks.shape[1])
    rank = np.argsort(walks, axis=1)[:, players]
    switched = rank[:, None, :] < steps[:, None]  # after k steps the first k of the walk
    return np.where(switched, ends[:, None, :], starts[:, None, :]).reshape(-1, ends.shape[1])


def _level(locus: Locus, alpha: float, entries: np.ndarray | None) -> tuple[float, str]:
    """The level at which laws are inverted, and what that gives, in words."""
    levels = locus.calibration_.level(alpha, entries)
    level = float(np.median(levels))
    if level == 0:
        return alpha, f"the loss model's own {1 - alpha:.3g} quantile (the bound is infinite)"
    # A walk mixes the signals of two rows, so levels that differ by row have one in their middle.
    where = "" if np.all(levels == level) else ", with the median level of these rows"
    return level, f"the bound at alpha = {alpha:g}{where}"


def _log_value(
    locus: Locus, signals: FloatArray, alpha: float, tau: float, entries: np.ndarray | None
) -> tuple[str, LogValue]:
    """What is attributed, in words and as a function of signals that are all like these."""
    level, what = _level(locus, alpha, entries)

    def quantile(S: FloatArray) -> FloatArray:
        return np.concatenate([dist.isf(level) for _, dist in locus.loss_model_.blocks(S)])

    def probability(S: FloatArray) -> FloatArray:
        return np.concatenate([dist.estimate().sf(tau) for _, dist in locus.loss_model_.blocks(S)])

    seen = quantile(signals)
    if locus.support_.points is None and np.all((seen > 0) & np.isfinite(seen)):
        least = SMALLEST * float(np.median(seen))
        return what, lambda S: np.log(np.maximum(quantile(S), least))
    least = SMALLEST_PROBABILITY * (float(probability(signals).max()) or 1.0)
    what = f"the loss model's P(loss > {tau:g})"
    return what, lambda S: np.log(np.maximum(probability(S), least))
