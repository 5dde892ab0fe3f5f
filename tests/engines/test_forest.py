"""Forest: how many rows its trees are grown on."""

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestRegressor

from engines_for_tests import at_once
from helpers import raises
from locuscore import KNNGamma, Locus
from locuscore._archive.values import Reader, Writer, library_versions
from locuscore._laws.calibration import coverage_law
from locuscore.engines import Forest, _forest
from locuscore.engines._forest import _out_of_bag_error

N = 600


def noisy(rng):
    """A loss whose scale rises slowly: averaging many rows is best."""
    S = rng.uniform(size=(N, 4))
    return S, (0.5 + S[:, 0]) * np.abs(rng.normal(size=N))


def intricate(rng):
    """A loss that is known but changes at every step of a fine grid: small leaves are best."""
    S = np.column_stack([rng.integers(0, 80, N), rng.uniform(size=N)])
    return S, rng.uniform(size=80)[S[:, 0].astype(int)] + 0.01 * S[:, 1]


def grown(S, z, n_trees, max_samples=N):
    ranks = rankdata(z) / len(z)
    forest = RandomForestRegressor(
        n_trees, min_samples_leaf=3, max_features=0.5, max_samples=max_samples, random_state=0
    )
    return forest.fit(S, ranks), S.astype(np.float32), ranks


def transcribed(forest, rows, ranks, n_trees):
    """The error row by row, from lists."""
    leaves = forest.apply(rows)
    errors = []
    for i in range(len(ranks)):
        said = []
        for t, grown_on in enumerate(forest.estimators_samples_):
            others = [j for j in np.flatnonzero(leaves[:, t] == leaves[i, t]) if j != i]
            if i not in set(grown_on) and others:
                said.append(np.mean(ranks[others]))
        if len(said) >= 2:
            variance = np.var(said, ddof=1)
            error = (ranks[i] - np.mean(said)) ** 2
            errors.append(error - variance / len(said) + variance / n_trees)
    return np.mean(errors)


@pytest.mark.parametrize("make", [noisy, intricate])
def test_error_equals_its_transcription(make, rng):
    S, z = make(rng)
    forest = grown(S[:80], z[:80], 7, max_samples=50)
    assert _out_of_bag_error(*forest, 100) == pytest.approx(transcribed(*forest, 100), rel=1e-9)


def test_few_trees_foretell_the_error_of_many():
    ratios = []
    for seed in range(8):
        S, z = noisy(np.random.default_rng(seed))
        few, many = grown(S, z, 25), grown(S, z, 200)
        truth = _out_of_bag_error(*many, 200)
        ratios.append([_out_of_bag_error(*few, k) / truth for k in (200, 9)])
    foretold, of_nine = np.mean(ratios, axis=0)
    assert foretold == pytest.approx(1, abs=0.01)
    assert of_nine > 1.02  # nine trees speak of each row; their own error is larger


@pytest.mark.parametrize(("make", "wants_all"), [(noisy, False), (intricate, True)])
def test_the_losses_decide_the_rows_per_tree(make, wants_all, rng):
    data = [make(rng) for _ in range(5)]
    rows = [Forest(random_state=0).fit(S, z).forest_.max_samples for S, z in data]
    assert set(rows) <= {round(N**0.8), round(N**0.9), N}
    assert (np.median(rows) == N) == wants_all  # one sample of 600 may mislead


def test_a_chosen_forest_is_the_one_asked_for(rng):
    S, z = intricate(rng)
    chosen = Forest(40, random_state=3).fit(S, z)
    asked = Forest(40, max_samples=N, random_state=3).fit(S, z)
    assert len(chosen.forest_.estimators_) == 40
    np.testing.assert_array_equal(
        at_once(chosen.predict_draws(S)).points, at_once(asked.predict_draws(S)).points
    )


def test_one_seed_for_all_choices(rng):
    S, z = intricate(rng)
    chosen = Forest(30, random_state=np.random.default_rng(5)).fit(S, z)
    asked = Forest(30, max_samples=N, random_state=np.random.default_rng(5)).fit(S, z)
    np.testing.assert_array_equal(
        at_once(chosen.predict_draws(S)).points, at_once(asked.predict_draws(S)).points
    )


def test_missing_signals_and_constant_losses(rng):
    S, z = noisy(rng)
    S[::3, 0] = np.nan
    assert np.isfinite(at_once(Forest(30, random_state=0).fit(S, z).predict_draws(S)).points).all()
    constant = Forest(30, random_state=0).fit(S, np.full(N, 2.0))
    assert constant.forest_.max_samples == round(N**0.8)  # the cheapest of equals
    assert (at_once(constant.predict_draws(S)).points == 2.0).all()


def test_large_samples_are_capped_unless_asked_for(rng, monkeypatch):
    monkeypatch.setattr(_forest, "MOST_ROWS_PER_TREE", 100)
    S, z = noisy(rng)
    assert Forest(5, random_state=0).fit(S, z).forest_.max_samples == 100
    assert Forest(5, max_samples=300, random_state=0).fit(S, z).forest_.max_samples == 300
    assert Forest(5, max_samples=10**9, random_state=0).fit(S, z).forest_.max_samples == N


@pytest.mark.parametrize("max_samples", [0, -3, 0.8, 1.0, True, "all"])
def test_max_samples_is_a_whole_number(max_samples, rng):
    with raises(ValueError, "max_samples", "1"):
        Forest(5, max_samples=max_samples).fit(*noisy(rng))


@pytest.mark.parametrize("n_trees", [1, 2, 25, 26])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_few_trees_and_few_rows(n, n_trees, rng):
    S, z = noisy(rng)
    engine = Forest(n_trees, random_state=0).fit(S[:n], z[:n])
    assert at_once(engine.predict_draws(S)).points.reshape(N, -1, 8).shape[1] == n_trees


def test_trees_are_shared_out_over_ten_draws(rng):
    S, z = noisy(rng)
    draws = Forest(n_trees=20, random_state=0).fit(S, z).predict_draws(S[:5])
    assert draws.shape == (5, 10)
    assert draws.points.shape[2] == 2 * 8
    for n_trees, n_draws in ((100, 10), (15, 5), (3, 3), (26, 13), (1, 1)):
        assert Forest(n_trees)._count_draws() == n_draws


def test_without_gamma_the_number_of_draws_plays_no_part(rng):
    S, z = noisy(rng)
    grown = [
        at_once(Forest(12, n_draws=n_draws, random_state=0).fit(S, z).predict_draws(S).average())
        for n_draws in (None, 2, 12)
    ]
    for law in grown[1:]:
        # The same points, draw by draw, so in another order.
        assert (np.sort(law.points, axis=2) == np.sort(grown[0].points, axis=2)).all()
        assert (law.top == grown[0].top).all()
        np.testing.assert_allclose(law.scale, grown[0].scale, rtol=1e-12)


@pytest.mark.parametrize("n_draws", [0, 7, 24, 2.0])
def test_draws_must_share_the_trees_evenly(n_draws, rng):
    with pytest.raises((ValueError, TypeError), match="n_draws"):
        Forest(n_trees=12, n_draws=n_draws).fit(*noisy(rng))


@pytest.mark.extra  # archives need skops
def test_a_forest_of_an_earlier_version_has_one_tree_per_draw(rng):
    """Its archive does not say how many draws there are; under gamma its scores stay the same."""
    S, z = noisy(rng)
    engine = Forest(n_trees=20, random_state=0).fit(S, z)
    writer = Writer()
    kept = writer.encode(engine)
    same = Reader(writer.members, library_versions()).decode(kept)
    assert same.predict_draws(S[:3]).shape == (3, 10)
    del kept["state"]["n_draws_"], kept["state"]["n_draws"]
    earlier = Reader(writer.members, library_versions()).decode(kept)
    assert earlier.predict_draws(S[:3]).shape == (3, 20)
    assert earlier.predict_draws(S[:3]).points.shape == (3, 20, 8)


def test_the_envelope_covers_as_it_should(rng):
    """One tree per draw has nine values of survival: its coverage is far above its law."""

    def rows(n):
        S = rng.uniform(size=(n, 4))
        return S, (0.5 + S[:, 0]) * np.abs(rng.normal(size=n))

    fitting, new = rows(2_000), rows(4_000)
    covered = {}
    for n_draws in (None, 100):
        locus = Locus(engine=Forest(n_draws=n_draws), gamma=KNNGamma(), random_state=0)
        locus.fit_losses(*fitting)
        covered[n_draws] = int(np.sum(new[1] <= locus.loss_bound(new[0], 0.1)))
    law = coverage_law(len(locus.tails_), 0.1, 4_000)
    assert law.p_value(covered[None]) > 0.001
    assert law.p_value(covered[100]) < 0.001
    assert covered[100] > 4_000 * 0.95


@pytest.mark.parametrize("width", [1, 3])
def test_rows_of_other_signals_are_refused(width):
    """Compiled code would read beyond them."""
    S = np.random.default_rng(0).uniform(size=(60, 2))
    engine = Forest(n_trees=2, random_state=0).fit(S, S[:, 0])
    with raises(ValueError, "2 signals", f"got {width}"):
        engine.predict_draws(np.zeros((4, width)))


def test_without_rows_per_tree_a_forest_stays_within_its_bytes(monkeypatch):
    """A smooth loss wants all rows; the more bytes there are, the more of them it gets."""
    rng = np.random.default_rng(0)
    S = rng.uniform(size=(2000, 2))
    z = 2 + np.sin(9 * S[:, 0]) + np.cos(9 * S[:, 1])

    def fitted(most):
        monkeypatch.setattr(_forest, "MOST_BYTES", most + _forest.SIGNAL_BYTES * S.size)
        monkeypatch.setattr(_forest, "LEAST_FOR_TREES", 1)
        return Forest(30, random_state=0).fit(S, z)

    free = fitted(2**40)
    size = free._bytes(free.forest_)
    assert free.forest_.max_samples == 2000
    sizes, rows = [], []
    for share in (0.9, 0.6, 0.3, 0.05):
        capped = fitted(share * size)
        sizes.append(capped._bytes(capped.forest_) / (share * size))
        rows.append(capped.forest_.max_samples)
        kept = sum(part.nbytes for part in (capped.table_, *capped.table_row_))
        kept += sum(each.tree_.__getstate__()["nodes"].nbytes for each in capped.forest_)
        kept += sum(each.tree_.value.nbytes for each in capped.forest_)
        assert kept == pytest.approx(capped._bytes(capped.forest_), rel=0.01)
    assert sorted(rows, reverse=True) == rows
    assert max(sizes) < 1.1
    # Given by the user, they are taken as they are.
    monkeypatch.setattr(_forest, "MOST_BYTES", 1)
    assert Forest(3, max_samples=1500, random_state=0).fit(S, z).forest_.max_samples == 1500
