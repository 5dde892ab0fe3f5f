"""New rows are refused as rows of fit with at most the probability said, however they repeat."""

import numpy as np
import pytest

from helpers import assert_binomial, repeated
from locuscore._inputs.schema import Schema
from locuscore._inputs.used_rows import Reuse, UsedRows, fisher_p_value

LEVEL = 0.05  # in place of 1e-6, at which nothing would ever be seen


def looked_up(draw, n, n_calibration, m):
    """Fit on n rows, then look up m new ones."""
    X = draw(n + m).reshape(-1, 1)
    y = np.zeros(n + m)
    split = np.arange(n - n_calibration), np.arange(n - n_calibration, n)
    used = UsedRows.of(X[:n], y[:n], "y", split, np.zeros(1))
    return Reuse(used, Schema.of(X), "y").add(X[n:], y[n:])


def repeating(rng):
    """Half the rows are among a few hundred that come again and again."""

    def draw(n):
        return np.where(rng.uniform(size=n) < 0.5, rng.geometric(0.01, size=n), rng.uniform(size=n))

    return draw


def equally(rng):
    return lambda n: rng.integers(0, 600, size=n).astype(float)


@pytest.mark.parametrize("kind", [repeating, equally])
@pytest.mark.parametrize(("n_calibration", "m"), [(75, 300), (150, 40)])
def test_new_rows_are_refused_no_more_often_than_said(rng, kind, n_calibration, m):
    draw, repeats = kind(rng), repeated(400)
    p = [looked_up(draw, 300, n_calibration, m).labelled.p_value for _ in range(repeats)]
    assert_binomial(np.sum(np.array(p) <= LEVEL), repeats, LEVEL, "greater")


def test_all_rows_of_fit_against_the_rate_in_d1_would_refuse_new_rows(rng):
    """The tempting test holds what is found among more rows against a rate among fewer."""
    repeats, refused = repeated(400), 0
    for _ in range(repeats):
        found = looked_up(equally(rng), 300, 150, 300).labelled
        part = found.parts[0]
        refused += fisher_p_value(found.n_found, found.n, part.usual, part.n_usual) <= LEVEL
    with pytest.raises(AssertionError):
        assert_binomial(refused, repeats, LEVEL, "greater")


def test_rows_of_fit_are_found_among_new_ones_that_repeat(rng):
    """A third of the batch from fit, though a sixth of new rows repeat one as well."""
    draw = repeating(rng)
    for part in (slice(0, 100), slice(200, 300)):  # rows of D1, rows of D2
        X = draw(600).reshape(-1, 1)
        y = np.zeros(600)
        split = np.arange(200), np.arange(200, 300)
        used = UsedRows.of(X[:300], y[:300], "y", split, np.zeros(1))
        batch = np.concatenate([X[part], X[400:]])
        assert Reuse(used, Schema.of(X), "y").add(batch, np.zeros(300)).verdict.p_value < LEVEL
