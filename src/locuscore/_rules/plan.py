"""How many labelled rows are needed, computed exactly and not by an approximation."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, betainc
from scipy.stats import binom

from locuscore._laws.calibration import conformal_rank, smallest_n
from locuscore._protocols import FloatArray, IntArray
from locuscore._rules.binomial_tests import most_bad
from locuscore._shared.bisect import first_above
from locuscore._shared.checks import check_alpha, check_between, check_share
from locuscore._shared.shown import Shown

MOST_ROWS = 10_000_000
NEGLIGIBLE = 1e-13  # probability of the accepted counts that are left out


@dataclass(frozen=True, repr=False)
class RowPlan(Shown):
    """Number of labelled rows needed, and for what.

    The goal is met with `rows` rows and with every larger number up to `checked_up_to`. A smaller
    number may meet it too: since counts are whole numbers, one more row can make it worse. So this
    is the number from which on the goal is met, not the first that meets it.

    Examples
    --------
    >>> from locuscore import rows_for_bound
    >>> plan = rows_for_bound(alpha=0.05)
    >>> plan.rows
    19
    """

    rows: int
    goal: str
    checked_up_to: float

    def __int__(self) -> int:
        return self.rows

    def __str__(self) -> str:
        upto = "" if self.checked_up_to == math.inf else f" up to {self.checked_up_to:,.0f}"
        return f"{self.rows:,} rows: {self.goal} This holds with every larger number{upto} (exact)."


def rows_for_bound(alpha: float) -> RowPlan:
    """Calibration rows (D2) needed for a finite bound at alpha: ``n >= 1 / alpha - 1``.

    Examples
    --------
    >>> from locuscore import rows_for_bound
    >>> rows_for_bound(0.1).rows
    9
    """
    level = check_between(check_alpha(alpha), "alpha")
    goal = f"calibration rows that give a finite bound at alpha = {level:g}."
    return RowPlan(smallest_n(level), goal, math.inf)


def rows_for_coverage(alpha: float, within: float, delta: float = 0.05) -> RowPlan:
    """Calibration rows needed for a coverage within ``1 - alpha +- within``.

    Given D2, the coverage of the bound has law Beta(k, n + 1 - k) with ``k = ceil((1 - alpha)(n +
    1))``, without ties; its distance from 1 - alpha is at most `within` with probability at least
    1 - delta. With ties the coverage is at least that, and may be larger.

    Examples
    --------
    >>> from locuscore import rows_for_coverage
    >>> rows_for_coverage(0.1, within=0.02).rows
    854
    """
    level = check_between(check_alpha(alpha), "alpha")
    w, d = check_between(within, "within"), check_between(delta, "delta")
    low, high = max(0.0, 1 - level - w), min(1.0, 1 - level + w)

    # Given D2, the coverage without ties is that of the k-th smallest of n uniform draws.
    def reached(n: IntArray) -> np.ndarray:
        k = np.array([conformal_rank(int(m), level) for m in n])
        inside = np.minimum(k, n)  # where the bound is infinite, the coverage is 1
        mass = betainc(inside, n + 1 - inside, high) - betainc(inside, n + 1 - inside, low)
        return np.where(k <= n, mass, 0.0) >= 1 - d

    rows, upto = _lasting_n(reached, period=1 / level)
    goal = (
        f"calibration rows with which the coverage at alpha = {level:g} is within {w:g} of "
        f"{1 - level:g} with probability at least {1 - d:g} over them."
    )
    return RowPlan(rows, goal, upto)


def rows_for_certificate(
    eta: float, delta: float, bad_rate: float, acceptance: float, power: float = 0.8
) -> RowPlan:
    """Labelled rows needed to certify ``P(Z > tau | accepted) <= eta`` with a given power.

    At a threshold chosen beforehand, of N rows ``A ~ binomial(N, acceptance)`` are accepted and
    ``K ~ binomial(A, bad_rate)`` of them are bad; the certificate is given when ``P(binomial(A,
    eta) <= K) <= delta``. Its probability is computed exactly, over both counts.

    This is about one threshold. `certify_threshold` and `Locus.certify` test many in sequence and
    need more rows to reach a given one; `plan_certificate` simulates them from a pilot.

    Parameters
    ----------
    eta, delta
        What is to be certified, with which probability of a wrong certificate.
    bad_rate
        True share of bad rows among the accepted, as you expect it; below eta.
    acceptance
        Share of rows accepted.
    power
        Wanted probability of getting the certificate.

    Examples
    --------
    >>> from locuscore import rows_for_certificate
    >>> rows_for_certificate(0.1, 0.05, bad_rate=0.05, acceptance=0.7).rows
    274
    """
    eta, delta = check_between(eta, "eta"), check_between(delta, "delta")
    power = check_between(power, "power")
    bad_rate, acceptance = check_share(bad_rate, "bad_rate"), check_share(acceptance, "acceptance")
    if not bad_rate < eta:
        raise ValueError(
            f"no number of rows certifies eta = {eta:g} where the bad rate is {bad_rate!r}; it "
            "must be at least 0 and below eta."
        )
    if not acceptance:
        raise ValueError(f"acceptance must lie above 0 and at most at 1; got {acceptance!r}.")
    rows, upto = _lasting_n(
        lambda n: _power(n, eta, delta, bad_rate, acceptance) >= power,
        period=1 / (eta * acceptance),
    )
    goal = (
        f"labelled rows with which P(loss > tau | accepted) <= {eta:g} is certified (delta = "
        f"{delta:g}) with probability at least {power:g} if {acceptance:.3g} of the rows are "
        f"accepted and {bad_rate:.3g} of those are bad."
    )
    return RowPlan(rows, goal, upto)


def _power(n: IntArray, eta: float, delta: float, bad_rate: float, acceptance: float) -> FloatArray:
    """Probability of the certificate for a range of consecutive numbers of rows."""
    first = int(binom.ppf(NEGLIGIBLE, n[0], acceptance))
    last = int(binom.isf(NEGLIGIBLE, n[-1], acceptance))
    a = np.arange(first, last + 1)  # numbers of accepted rows that matter
    most = most_bad(a, eta, delta)
    passed = np.where(most >= 0, bdtr(np.maximum(most, 0), a, bad_rate), 0.0)
    # One more row is accepted or not: the law of the accepted count moves on by one step.
    law, result = binom.pmf(a, n[0], acceptance), np.empty(len(n))
    for i in range(len(n)):
        result[i] = law @ passed
        law[1:] = (1 - acceptance) * law[1:] + acceptance * law[:-1]
        law[0] *= 1 - acceptance
    return result


def _lasting_n(reached: Callable[[IntArray], np.ndarray], period: float) -> tuple[int, int]:
    """Smallest n from which on the goal is reached, and up to where that was checked.

    Doubling and halving find a place where it begins to hold; around it every n is checked, over
    many periods of the sawtooth that whole numbers cause and at least 5 % of n.
    """

    def is_reached_at(n: int) -> bool:
        if n > MOST_ROWS:
            raise ValueError(f"more than {MOST_ROWS:,} rows would be needed.")
        return bool(reached(np.array([n]))[0])

    # The goal is not monotone in n, so this is a place to look around and not yet the answer.
    near = first_above(is_reached_at, 0, 1)
    width = math.ceil(10 * period + 0.05 * near)
    start, end = max(1, near - width), near + width
    while True:
        failed = np.flatnonzero(~reached(np.arange(start, end + 1)))
        if len(failed) == 0 and start > 1:
            start = max(1, start - width)  # the last failure lies further down
        elif len(failed) and start + failed[-1] > end - width // 2:
            end += width  # too close to the end to be sure
        else:
            return (start + int(failed[-1]) + 1 if len(failed) else start), end
