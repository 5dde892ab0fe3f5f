"""Draws by a keyed hash, thinning, and estimates that weigh by the chance of a label."""

import hashlib
import itertools

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from helpers import assert_binomial, assert_close, raises
from locuscore.watch._evidence.audit import WeightedSums, drawn, draws, thinned

pytestmark = pytest.mark.extra

KEY = b"k" * 32
IDS = [f"row {i}" for i in range(20_000)]


def test_a_draw_is_the_keyed_hash_of_the_id():
    digest = hashlib.blake2b("é 1".encode(), key=KEY, person=b"audit", digest_size=8).digest()
    expected = (int.from_bytes(digest, "little") >> 11) / 2**53
    assert draws(["é 1", "x"], KEY)[0] == expected
    assert draws([], KEY).tolist() == []
    assert draws(["\udc80"], KEY).shape == (1,)


def test_draws_are_uniform_and_independent_by_key_and_purpose():
    found = np.column_stack([draws(IDS, KEY), draws(IDS, b"l" * 32), draws(IDS, KEY, b"thin")])
    assert ((found >= 0) & (found < 1)).all()
    for column in found.T:
        assert_binomial(np.sum(column < 0.3), len(IDS), 0.3)
    for one, other in itertools.combinations(found.T, 2):
        assert_binomial(np.sum((one < 0.5) == (other < 0.5)), len(IDS), 0.5)


def test_thinned_rows_all_had_the_same_chance():
    chance = np.where(np.arange(len(IDS)) % 2 == 0, 0.2, 0.5)
    is_drawn = drawn(IDS, chance, KEY)
    kept = is_drawn & thinned(IDS, chance, 0.2, KEY)
    for parity in (0, 1):
        assert_binomial(kept[parity::2].sum(), len(IDS) // 2, 0.2)
    assert (kept[::2] == is_drawn[::2]).all()
    with pytest.raises(AssertionError):
        assert_binomial(is_drawn[1::2].sum(), len(IDS) // 2, 0.2)


def test_sums_of_parts_add_up_and_estimate_all_rows(rng):
    x = (rng.random(len(IDS)) < 0.1).astype(float)
    chance = np.where(x > 0, 0.6, 0.3)  # bad rows are labelled more often
    is_drawn = drawn(IDS, chance, KEY)
    values, q = x[is_drawn], chance[is_drawn]
    whole = WeightedSums.of(values, q)
    parts = WeightedSums.of(values[:700], q[:700]) + WeightedSums.of(values[700:], q[700:])
    assert_close(parts._values, whole._values, rtol=1e-12)
    v = 1 / q
    mean = np.sum(v * values) / np.sum(v)
    assert_close(whole.mean, mean, rtol=1e-12)
    error = np.sqrt(np.sum((v * (values - mean)) ** 2)) / np.sum(v)
    assert_close(whole.standard_error, error, rtol=1e-9)
    assert abs(mean - x.mean()) < 4 * error
    assert values.mean() - x.mean() > 10 * error  # without weights it is far off
    assert WeightedSums().mean is WeightedSums.of([1.0], 0.5).standard_error is None


def test_what_cannot_be_drawn_is_refused():
    with raises(ValueError, "16 to 64 bytes", "token_bytes"):
        draws(["x"], b"short")
    with raises(ValueError, "0.2", "0.1 to 0.1"):
        thinned(["x"], 0.1, 0.2, KEY)
