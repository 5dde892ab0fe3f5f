import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binom

from helpers import assert_close
from locuscore import rows_for_bound, rows_for_certificate, rows_for_coverage
from locuscore._laws.calibration import conformal_rank
from locuscore._rules.plan import _power


def slow_power(n, eta, delta, bad_rate, acceptance):
    """Probability of a certificate, summed over both counts by their definitions."""
    total = 0.0
    for a in range(n + 1):
        k = np.arange(a + 1)
        passed = binom.cdf(k, a, eta) <= delta
        total += binom.pmf(a, n, acceptance) * np.sum(binom.pmf(k, a, bad_rate) * passed)
    return total


def slow_coverage(n, alpha, within):
    k = conformal_rank(n, alpha)
    law = beta(k, n + 1 - k)
    return law.cdf(1 - alpha + within) - law.cdf(1 - alpha - within) if k <= n else 0.0


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.1, 0.05, 0.001])
def test_rows_for_a_finite_bound(alpha):
    n = rows_for_bound(alpha).rows
    assert conformal_rank(n, alpha) <= n
    assert conformal_rank(n - 1, alpha) > n - 1 or n == 1


@pytest.mark.parametrize(
    ("eta", "delta", "bad_rate", "acceptance"),
    [(0.1, 0.05, 0.02, 0.7), (0.2, 0.1, 0.05, 1.0), (0.3, 0.2, 0.0, 0.4), (0.1, 0.1, 0.05, 0.05)],
)
def test_power_is_exact(eta, delta, bad_rate, acceptance):
    n = np.arange(40, 71)
    expected = [slow_power(m, eta, delta, bad_rate, acceptance) for m in n]
    assert_close(_power(n, eta, delta, bad_rate, acceptance), expected, atol=1e-11)


@pytest.mark.parametrize(
    ("eta", "delta", "bad_rate", "acceptance", "power"),
    [(0.2, 0.1, 0.05, 1.0, 0.8), (0.2, 0.1, 0.05, 0.7, 0.8), (0.3, 0.05, 0.0, 0.5, 0.95)],
)
def test_rows_for_a_certificate(eta, delta, bad_rate, acceptance, power):
    plan = rows_for_certificate(eta, delta, bad_rate, acceptance, power)
    reached = [
        slow_power(n, eta, delta, bad_rate, acceptance) >= power
        for n in range(1, min(int(plan.checked_up_to), 200) + 1)
    ]
    last_failure = max(n for n, ok in enumerate(reached, start=1) if not ok)
    assert plan.rows == last_failure + 1


def test_power_goes_up_and_down():
    """The first number of rows that reaches the power is not where it stays."""
    plan = rows_for_certificate(0.2, 0.1, 0.05, 1.0)
    first = np.argmax(_power(np.arange(1, 200), 0.2, 0.1, 0.05, 1.0) >= 0.8) + 1
    assert first < plan.rows


def test_a_perfect_record():
    # All rows accepted, none bad: (1 - eta)^n <= delta, with certainty from there on.
    assert rows_for_certificate(0.1, 0.05, 0.0, 1.0, 0.99).rows == 29


@pytest.mark.parametrize(("alpha", "within"), [(0.1, 0.05), (0.3, 0.1), (0.5, 0.06), (0.05, 0.2)])
def test_rows_for_a_coverage(alpha, within):
    plan = rows_for_coverage(alpha, within, delta=0.1)
    reached = [
        slow_coverage(n, alpha, within) >= 0.9 for n in range(1, int(plan.checked_up_to) + 1)
    ]
    failures = [n for n, ok in enumerate(reached, start=1) if not ok]
    assert plan.rows == max(failures) + 1


def test_larger_plans():
    assert 80_000 < rows_for_coverage(0.1, 0.002).rows < 90_000
    plan = rows_for_certificate(0.02, 0.05, 0.015, 0.6, 0.9)
    assert plan.checked_up_to > plan.rows > 5_000
    n = np.arange(plan.rows - 1, plan.rows + 1)
    assert (_power(n, 0.02, 0.05, 0.015, 0.6) >= 0.9).tolist() == [False, True]


def test_more_is_needed_for_more():
    rows = [int(rows_for_certificate(0.1, 0.05, 0.05, 0.7, p)) for p in (0.5, 0.8, 0.95)]
    assert rows == sorted(rows)
    assert int(rows_for_certificate(0.1, 0.05, 0.05, 0.35)) > rows[1]


def test_plans_are_sentences():
    assert str(rows_for_bound(0.1)).startswith("9 rows: calibration rows")
    assert "every larger number (exact)" in str(rows_for_bound(0.1))
    assert "every larger number up to" in str(rows_for_coverage(0.1, 0.05))
    assert "certified" in str(rows_for_certificate(0.2, 0.1, 0.05, 1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rows_for_bound(0.0), "alpha"),
        (lambda: rows_for_bound([0.1, 0.2]), "alpha"),
        (lambda: rows_for_coverage(0.1, 0.0), "within"),
        (lambda: rows_for_coverage(0.1, 0.1, 1.0), "delta"),
        (lambda: rows_for_coverage(0.1, 1e-5), "10,000,000"),
        (lambda: rows_for_certificate(1.0, 0.1, 0.1, 0.5), "eta"),
        (lambda: rows_for_certificate(0.1, 0.0, 0.05, 0.5), "delta"),
        (lambda: rows_for_certificate(0.1, 0.1, 0.1, 0.5), "bad rate"),
        (lambda: rows_for_certificate(0.1, 0.1, -0.1, 0.5), "bad_rate"),
        (lambda: rows_for_certificate(0.1, 0.1, 0.05, 0.0), "acceptance"),
        (lambda: rows_for_certificate(0.1, 0.1, 0.05, 1.1), "acceptance"),
        (lambda: rows_for_certificate(0.1, 0.1, 0.05, 0.5, 1.0), "power"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["eta", "delta", "bad_rate", "acceptance", "power"])
def test_text_is_no_number(name):
    given = {"eta": 0.1, "delta": 0.1, "bad_rate": 0.05, "acceptance": 0.5, "power": 0.8}
    with pytest.raises(TypeError, match=name):
        rows_for_certificate(**given | {name: "a"})


def test_the_spread_of_coverage_in_the_docs_is_that_of_its_law():
    """docs/choosing.md: how far the middle 95 % of coverage reaches from its target."""
    text = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
    said = re.search(
        r"within ([\d.]+) points of the target\s+for 100 rows, ([\d.]+) points for 1,000 and\s+"
        r"([\d.]+) points for 10,000",
        text,
    )
    for figure, n in zip(said.groups(), (100, 1_000, 10_000), strict=True):
        k = conformal_rank(n, 0.1)
        ends = beta(k, n + 1 - k).ppf([0.025, 0.975])
        assert figure == f"{100 * max(abs(ends - 0.9)):.1f}"
