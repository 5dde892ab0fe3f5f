"""What an anytime certificate fixes before its first label: thresholds, start and bets."""

import math

import numpy as np
from scipy.special import rel_entr

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.accepted import distinct_counts, sorted_finite
from locuscore._shared.bisect import first_above
from locuscore._shared.checks import check_numbers

# Rates that are bet on, as shares of eta. The small ones certify soon what is good, the large ones
# in the long run what is only just good enough.
RATES: FloatArray = np.array([0.02, 0.2, 0.4, 0.6, 0.75, 0.87, 0.94, 0.97])
WEIGHTS: FloatArray = np.array([2.0, 3.0, 4.0, 4.0, 3.0, 2.0, 1.0, 1.0]) / 20.0
AT_REFERENCE = 0.5  # part of the bets at the rate that a labelled reference has
MOST_THRESHOLDS = 200
FIRST_SHARE, NEXT_SHARE, LOWER_STARTS, LOWER_PART = 0.4, 0.25, 2, 0.1  # as in `thresholds`


def thresholds(reference: FloatArray) -> tuple[FloatArray, IntArray]:
    """Quantiles of the finite scores, and how many of the reference are up to each."""
    distinct, up_to = distinct_counts(sorted_finite(reference))
    if not len(distinct):
        raise ValueError("reference has no finite score, so there is no threshold to test.")
    wanted = np.ceil(np.linspace(0.0, up_to[-1], MOST_THRESHOLDS + 1)[1:])
    at = np.unique(np.searchsorted(up_to, wanted))
    return distinct[at], up_to[at]


def rates_up_to(reference: FloatArray, bad: BoolArray, edges: FloatArray) -> FloatArray:
    """Share of bad rows up to each threshold, with one bad and one good row added."""
    place = np.searchsorted(edges, reference)
    n, k = (np.cumsum(np.bincount(place, w, len(edges) + 1))[:-1] for w in (None, bad))
    return np.asarray((k + 1.0) / (n + 2.0))


def usual_starts(
    share: FloatArray, rates: FloatArray | None, eta: float
) -> tuple[FloatArray, FloatArray]:
    """Shares of the rows at which sequences begin, ascending, and their parts of delta.

    `share` is accepted at each threshold. With rates of a reference the highest start is where
    evidence grows fastest, by the relative entropy for each row below.
    """
    first = FIRST_SHARE
    if rates is not None:
        entropy = rel_entr(rates, eta) + rel_entr(1.0 - rates, 1.0 - eta)
        first = float(share[np.argmax(share * np.where(rates < eta, entropy, 0.0))])
    lower = [first * NEXT_SHARE**j for j in range(LOWER_STARTS, 0, -1)]
    parts = np.append(np.full(LOWER_STARTS, LOWER_PART / LOWER_STARTS), 1.0 - LOWER_PART)
    return np.array([*lower, first]), parts


def bet_weights(rates: FloatArray | None, m: int, eta: float) -> FloatArray:
    """Weights of the bets at each threshold, (thresholds, bets); each row adds up to 1."""
    weights = np.tile(WEIGHTS, (m, 1))
    if rates is not None:
        nearest = np.abs(rates[:, None] / eta - RATES).argmin(axis=1)
        weights *= 1.0 - AT_REFERENCE
        weights[np.arange(m), nearest] += AT_REFERENCE
    return weights


def bet_sizes(eta: float) -> FloatArray:
    """Lambda of each bet."""
    return np.asarray((1.0 - RATES) / (1.0 - eta))


def clean_rows(weights: FloatArray, eta: float, level: float) -> int:
    """How many good rows, each of the full weight, bring the evidence to one over the level."""
    steps = np.log1p(eta * bet_sizes(eta))

    def is_enough(n: int) -> bool:
        return bool(weights @ np.exp(np.minimum(n * steps + math.log(level), 700.0)) >= 1)

    return first_above(is_enough, 0, 1)


def check_least(least: float) -> float:
    """Return the least chance of a label."""
    number = float(check_numbers(least, "least"))
    if not 0 < number <= 1:
        raise ValueError(f"least is a chance above 0 and at most 1; got {least!r}.")
    return number
