"""Several hypotheses tested together, and several intervals that hold together."""

import math

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray
from locuscore._shared.checks import check_between, check_numbers


def holm(p_values: ArrayLike, delta: float) -> BoolArray:
    """Reject by Bonferroni-Holm: the j-th smallest of m p-values is held against delta/(m-j+1).

    The probability of any false rejection is at most delta for hypotheses fixed before the
    p-values are seen, whatever their dependence.
    """
    p = check_numbers(np.atleast_1d(np.asarray(p_values)), "p_values")
    total = check_between(delta, "delta")
    order = np.argsort(p, kind="stable")
    # Of m0 true hypotheses the first to be rejected is held against delta / m0 at most, since only
    # false ones can have gone before it; by the union bound one of the m0 is that small with
    # probability delta at most.
    held = p[order] <= total / np.arange(len(p), 0, -1)
    rejected = np.zeros(len(p), dtype=bool)
    rejected[order[: len(p) if held.all() else int(np.argmin(held))]] = True
    return rejected


def shared_level(delta: float, n_independent: int, n_families: int = 1) -> float:
    """Level of each interval, so that all of them miss together with probability delta at most.

    The families share delta equally (Bonferroni), for they may depend on each other in any way.
    Within a family of m intervals that are independent of each other, each has level
    ``1 - (1 - delta')^(1/m)`` (Sidak), where delta' is its share: each holds with probability
    ``(1 - delta')^(1/m)`` at least, so all m do with probability ``1 - delta'`` at least.
    """
    return -math.expm1(math.log1p(-delta / n_families) / max(n_independent, 1))
