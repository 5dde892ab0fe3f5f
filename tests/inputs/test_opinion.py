"""A second opinion on g: who is shown what, and what it is good for."""

import pickle
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from helpers import assert_close
from locuscore import Locus, prediction_column
from locuscore._inputs import opinion_models
from locuscore._inputs.losses import resolve_loss
from locuscore._inputs.opinion import Labelled
from locuscore._inputs.opinion_kinds import ErrorOpinion, _helps, unit_of
from locuscore._inputs.opinion_models import (
    boosted_classes,
    boosted_numbers,
    folds_of,
    linear_classes,
)
from locuscore._inputs.outputs import Outputs
from locuscore._shared.seeds import spawn_seeds
from locuscore.engines import Forest, Gaussian
from locuscore.metrics import pinball_loss
from opinions_for_tests import (
    FEW,
    KINDS,
    first,
    kind_of,
    of_errors,
    of_sizes,
    opinion_of,
    split_columns,
    waves,
)

X, Y = waves()
N = len(X)
NEW, Y_NEW = waves(40, seed=1)


@pytest.fixture(scope="module")
def fitted():
    """One fit of each kind."""
    found = {}

    def fit(kind):
        if kind not in found:
            found[kind] = KINDS[kind](X, Y)
        return found[kind]

    return fit


# Rows of D1 are shown what a model says that has not seen them.


def slow_opinion(S, target, folds, seed):
    """Out-of-fold values of fresh models of scikit-learn, for each number of rounds by itself."""

    def values(n_rounds):
        found = np.empty(len(S))
        for kept, out in folds:
            model = HistGradientBoostingRegressor(
                learning_rate=0.15,
                max_iter=n_rounds,
                max_leaf_nodes=15,
                early_stopping=False,
                random_state=seed,
            )
            found[out] = model.fit(S[kept], target[kept]).predict(S[out])
        return found

    tried = {}
    for longest in (60, 240):
        for n_rounds in range(5, longest + 1, 5):
            if n_rounds not in tried:
                tried[n_rounds] = values(n_rounds)
        best = min(tried, key=lambda n: np.sum((target - tried[n]) ** 2))
        if best < 0.75 * longest:
            break
    return tried[best], best


def test_the_opinion_on_rows_of_d1_equals_its_transcription():
    few, y = X[:120], Y[:120]
    locus = of_errors(few, y)
    at = locus.fit_rows_
    fold_seed, seed = spawn_seeds(spawn_seeds(0, 4)[3], 2)
    folds = list(KFold(5, shuffle=True, random_state=fold_seed).split(at))
    S, errors = np.column_stack([few, first(few)])[at], (y - first(few))[at]
    expected, n_rounds = slow_opinion(S, errors, folds, seed)
    expected /= 2.0 ** np.floor(np.log2(np.abs(errors).max()))
    own, columns = split_columns(locus.fit_signals_, locus)
    assert_close(own, S)
    assert_close(columns, np.column_stack([expected, np.abs(expected)]), rtol=1e-12)
    assert opinion_of(locus).model.n_iter_ == n_rounds


@pytest.mark.parametrize("learn", [boosted_numbers, boosted_classes, linear_classes])
def test_no_row_is_told_by_a_model_that_saw_it(learn, monkeypatch):
    """Its own label may change as it likes: what others say of it stays; the others' changes."""
    monkeypatch.setattr(opinion_models, "MORE_ROUNDS", (5,))  # else the label has a say in these
    n, folds = 60, folds_of(60, seed=3)
    target = (Y[:n] > 1).astype(np.int64)
    more = {boosted_numbers: (7,), boosted_classes: (7, 2), linear_classes: (2,)}[learn]

    def values(labels):
        given = labels if learn is not boosted_numbers else labels.astype(np.float64)
        return learn(X[:n], given, folds, *more).out_of_fold

    before, n_moved = values(target), 0
    for row in (0, 17, 59):
        changed = target.copy()
        changed[row] = 1 - changed[row]
        after = values(changed)
        (fold,) = [out for _, out in folds if row in out]
        assert np.array_equal(after[fold], before[fold])
        n_moved += np.sum(np.any(after != before, axis=1))
    assert n_moved > n  # of 3 * 48


def test_noise_is_not_learned_by_heart(rng):
    """Out of fold nothing is known about pure noise; in sample, as the twin shows, it seems so."""
    S, noise = rng.uniform(size=(300, 3)), rng.normal(size=300)
    outputs = Outputs.of(None, S, for_signals=False)
    opinion, columns = ErrorOpinion.learned(S, outputs, noise, folds_of(300, 1), 2)
    assert opinion is None
    assert np.corrcoef(columns[:, 0], noise)[0, 1] < 0.1
    told = boosted_numbers(S, noise, folds_of(300, 1), 2).model.predict(S)
    assert np.corrcoef(told, noise)[0, 1] > 0.4


def test_d1_is_kept_as_the_engine_saw_it():
    seen = []

    class Noting(Forest):
        def fit(self, S, z, errors=None):
            seen.append((S, errors))
            return super().fit(S, z, errors)

    locus = of_errors(X, Y, engine=Noting(n_trees=3))
    ((S, errors),) = seen
    assert S is locus.fit_signals_
    assert S.shape == (len(locus.fit_rows_), 6)
    assert_close(errors.loss(errors.errors), np.abs(Y - first(X))[locus.fit_rows_])
    told = locus.row_signals(X[locus.fit_rows_])
    assert not np.allclose(S[:, 4], told[:, 4])  # these have been learned from


# New rows


@pytest.mark.parametrize("kind", ["error", "squared error", "pinball"])
def test_new_rows_are_told_by_a_model_of_all_of_d1(kind, fitted):
    locus = fitted(kind)
    own, columns = split_columns(locus.row_signals(NEW), locus)
    assert_close(own, np.column_stack([NEW, first(NEW)]))
    found, d1 = opinion_of(locus), locus.fit_rows_
    errors = (Y - first(X))[d1] / unit_of((Y - first(X))[d1])
    model = HistGradientBoostingRegressor(
        learning_rate=0.15,
        max_iter=found.model.n_iter_,
        max_leaf_nodes=15,
        early_stopping=False,
        random_state=spawn_seeds(spawn_seeds(0, 4)[3], 2)[1],
    ).fit(np.column_stack([X, first(X)])[d1], errors)
    expected = model.predict(own)
    assert_close(columns, np.column_stack([expected, np.abs(expected)]), rtol=1e-12)


def test_the_size_is_measured_in_mean_losses(fitted):
    locus = fitted("size")
    own, columns = split_columns(locus.row_signals(NEW), locus)
    assert_close(own, NEW)
    logs = opinion_of(locus).model.predict(own)
    assert_close(columns, np.exp(logs)[:, None] - 0.05, rtol=1e-13)
    z = np.abs(Y_NEW - first(NEW))
    assert np.corrcoef(columns[:, 0], z)[0, 1] > 0.3
    mean = locus.fit_signals_[:, -1].mean()  # the mean of a logarithm is below that of the loss
    assert 0.4 < mean < 1.1


# The contracts


@pytest.mark.parametrize("kind", ["error", "class", "size"])
def test_one_seed_gives_one_opinion(kind, fitted):
    locus, again = fitted(kind), KINDS[kind](X, Y)
    assert np.array_equal(locus.fit_signals_, again.fit_signals_)
    bounds = locus.loss_bound(NEW, [0.5, 0.1])
    assert np.array_equal(bounds, again.loss_bound(NEW, [0.5, 0.1]))
    assert np.array_equal(bounds, locus.loss_bound(NEW, [0.5, 0.1]))
    other = KINDS[kind](X, Y, random_state=1)
    assert not np.array_equal(other.row_signals(NEW), locus.row_signals(NEW))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_independent(kind, fitted):
    locus = fitted(kind)
    S, order = locus.row_signals(NEW), np.random.default_rng(0).permutation(len(NEW))
    assert_close(locus.row_signals(NEW[order]), S[order], rtol=1e-9, atol=1e-12)
    single = np.vstack([locus.row_signals(NEW[[i]]) for i in range(5)])
    assert_close(single, S[:5], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["error", "class", "size"])
def test_clones_and_pickles(kind, fitted):
    locus = fitted(kind)
    same = pickle.loads(pickle.dumps(locus))
    assert np.array_equal(same.loss_bound(NEW), locus.loss_bound(NEW))
    assert np.array_equal(same.fit_signals_, locus.fit_signals_)
    blank = clone(locus)
    assert not hasattr(blank, "fit_signals_")
    assert blank.signals == "all"
    assert clone(Locus(first, signals=["x", "opinion"])).signals == ["x", "opinion"]


@cache
def bounds_in_unit(loss, unit):
    locus = Locus(
        lambda X: unit * first(X), engine=FEW, loss=loss, signals=["x", "opinion"], random_state=0
    ).fit(X, unit * Y)
    assert kind_of(locus) == "ErrorOpinion"
    return locus.loss_bound(NEW, [0.5, 0.1])


@pytest.mark.parametrize(
    ("loss", "power", "unit"),
    [
        ("absolute", 1, 2.0**20),
        ("absolute", 1, 2.0**-20),
        ("absolute", 1, 2.0**450),
        ("absolute", 1, 2.0**-450),
        ("squared", 2, 2.0**225),
        ("squared", 2, 2.0**-225),
    ],
)
def test_bounds_scale_with_the_errors(loss, power, unit):
    """Also where no number of single precision is as large; g itself is no signal then."""
    assert np.array_equal(bounds_in_unit(loss, unit) / unit**power, bounds_in_unit(loss, 1.0))


@pytest.mark.parametrize("factor", [2.0**450, 2.0**-450])
def test_bounds_scale_with_logged_losses(factor):
    z = np.abs(Y - first(X))
    one, other = (
        Locus(engine=FEW, random_state=0).fit_losses(X, unit * z) for unit in (1.0, factor)
    )
    assert kind_of(other) == "SizeOpinion"
    assert np.array_equal(other.fit_signals_, one.fit_signals_)
    assert np.array_equal(other.loss_bound(NEW) / factor, one.loss_bound(NEW))


@pytest.mark.parametrize("size", [0.7, 5e-324, 3e-300, 1e-6, 1e15, 1e140, 1.7e308])
def test_units_are_powers_of_two_of_the_size_of_numbers(size):
    unit = unit_of(np.array([0.1 * size, -size, 0.0]))
    assert np.frexp(unit)[0] == 0.5
    assert 1 <= size / unit < 2
    assert unit_of(np.zeros(2)) > 0


# Kept where it helps, dropped where it does not


def test_noise_leaves_no_opinion(rng):
    noise = rng.normal(size=N)
    locus = of_errors(X, first(X) + noise)
    assert opinion_of(locus) is None
    assert_close(locus.fit_signals_, np.column_stack([X, first(X)])[locus.fit_rows_])
    assert locus.row_signals(NEW).shape == (40, 4)
    plain = of_errors(X, first(X) + noise, signals=["x", "predictor"])
    assert np.array_equal(locus.loss_bound(NEW), plain.loss_bound(NEW))
    assert opinion_of(Locus(engine=FEW, random_state=0).fit_losses(X, np.abs(noise))) is None


def test_a_constant_bias_is_an_opinion(rng):
    locus = of_errors(X, first(X) + 3.0 + rng.normal(size=N))
    assert kind_of(locus) == "ErrorOpinion"
    largest = np.abs(locus.engine_.error_loss_.above)
    assert_close(largest * locus.fit_signals_[:, -2].mean(), 3.0, atol=0.3)


def biased(rng, n):
    """A predictor that misses a sum, which trees learn more easily than its absolute value."""
    X = rng.uniform(-1, 1, size=(n, 6))
    return X, X[:, 0] + 2 * X[:, 1:].sum(axis=1) + 0.3 * rng.normal(size=n)


def test_bounds_are_much_sharper_where_g_is_biased(rng):
    fitting, fresh = biased(rng, 700), biased(rng, 1_500)
    found = []
    for signals in ("all", ["x", "predictor"]):
        locus = Locus(first, engine=Forest(15), signals=signals, random_state=0).fit(*fitting)
        z = locus.losses(*fresh)
        found.append(pinball_loss(z, locus.loss_bound(fresh[0], 0.1), 0.1))
    assert found[0] < 0.6 * found[1]


# Which kind it is


def largest(y, g):
    return np.abs(y - g).max(axis=1)


def own(y, g):
    return np.abs(y - g) ** 1.5


def twice(X):
    return np.column_stack([first(X), -first(X)])


BOTH = np.column_stack([Y, -Y])
ORDINARY = {"engine": FEW, "random_state": 0}


@pytest.mark.parametrize(
    ("fit", "kind"),
    [
        (lambda: Locus(first, **ORDINARY).fit(X, Y), "ErrorOpinion"),
        (lambda: Locus(first, **ORDINARY).fit(X, Y[:, None]), "ErrorOpinion"),
        (lambda: Locus(first, **ORDINARY).fit(X, Y.astype(object)), "ErrorOpinion"),
        (lambda: Locus(first, loss=own, **ORDINARY).fit(X, Y), "ErrorOpinion"),
        (lambda: Locus(prediction_column(0), **ORDINARY).fit(X, Y), "ErrorOpinion"),
        (
            lambda: Locus(twice, loss=largest, **ORDINARY).fit(X, BOTH),
            "SizeOpinion",
        ),
        (lambda: of_sizes(X, Y), "SizeOpinion"),
        (lambda: Locus(first, **ORDINARY).fit_losses(X, np.abs(Y - first(X))), "SizeOpinion"),
    ],
)
def test_what_is_learned(fit, kind):
    locus = fit()
    assert kind_of(locus) == kind
    width = opinion_of(locus).WIDTH
    assert locus.fit_signals_.shape[1] == locus.row_signals(NEW).shape[1]
    assert locus.signals_.error_column == (-2 if kind == "ErrorOpinion" else None)
    assert width == (2 if kind == "ErrorOpinion" else 1)


def test_errors_reach_an_engine_only_if_they_make_the_loss():
    """A loss of one's own may read anything, so the forest takes no points from errors."""
    assert of_errors(X, Y).engine_.error_table_ is not None
    assert of_errors(X, Y, loss=own).engine_.error_table_ is None
    assert of_sizes(X, Y).engine_.error_table_ is None


@pytest.mark.parametrize("n", [49, 50])
def test_few_rows_have_no_opinion(n):
    z = np.abs(Y - first(X))[: n + 30]
    locus = Locus(**ORDINARY, calibration_size=30).fit_losses(X[: n + 30], z)
    errors = Locus(first, **ORDINARY, calibration_size=30).fit(X[: n + 30], 5 + Y[: n + 30])
    assert len(errors.fit_rows_) == n
    assert (opinion_of(errors) is not None) == (n == 50)
    assert n == 50 or opinion_of(locus) is None


def test_equal_losses_have_no_opinion():
    assert opinion_of(Locus(**ORDINARY).fit_losses(X, np.full(N, 2.5))) is None
    assert opinion_of(Locus(first, **ORDINARY).fit(X, first(X))) is None


def stamped(y):
    return np.datetime64("2026-01-01", "s") + (1e4 * y).astype("timedelta64[s]")


def of_dicts(y, g):
    return np.array([abs(one["y"] - two) for one, two in zip(y, g, strict=True)])


def of_times(y, g):
    return np.abs((y - g).astype(float))


def test_targets_that_are_neither_numbers_nor_labels():
    """A loss of one's own may read them; what is learned is its size."""
    dicts = np.array([{"y": value} for value in Y], dtype=object)
    for locus in (
        Locus(first, loss=of_dicts, **ORDINARY).fit(X, dicts),
        Locus(lambda X: stamped(first(X)), loss=of_times, **ORDINARY).fit(X, stamped(Y)),
    ):
        assert kind_of(locus) == "SizeOpinion"
        assert np.isfinite(locus.loss_bound(NEW)).all()


# Rows of any kind


def test_columns_without_a_value_and_with_a_few():
    missing = X.copy()
    missing[:, 2] = np.nan
    missing[:4, 0] = np.nan
    g = LinearRegression().fit(X[:, [1]], Y)
    locus = Locus(lambda X: g.predict(X[:, [1]]), **ORDINARY).fit(missing, Y)
    assert kind_of(locus) == "ErrorOpinion"
    filled = NEW.copy()  # which it was not in D1
    assert np.isfinite(locus.loss_bound(filled)).all()


def test_sparse_rows():
    kept = np.where(X > 0.3, X, 0.0)
    g = LinearRegression().fit(kept, first(kept))
    dense, thin = (
        Locus(g, **ORDINARY).fit(kind(kept), Y) for kind in (np.asarray, sparse.csr_array)
    )
    assert kind_of(thin) == "ErrorOpinion"
    assert_close(thin.fit_signals_, dense.fit_signals_, rtol=1e-9, atol=1e-12)


@pytest.mark.extra
def test_frames_with_text(rng):
    import pandas as pd
    import polars as pl

    town = np.array(["north", "south", "east"])[rng.integers(0, 3, N)]
    y = first(X) + 2.0 * (town == "south") + 0.2 * rng.normal(size=N)
    frame = pd.DataFrame({"size": X[:, 0], "town": town})
    found = []
    for rows in (frame, pl.from_pandas(frame)):
        locus = Locus(prediction_column("size"), **ORDINARY).fit(rows, y)
        assert kind_of(locus) == "ErrorOpinion"
        names = locus.signals_.names(locus.predictor_, ["size", "town"], 4)
        assert names[2:] == ["second opinion"]
        correction = locus.fit_signals_[:, 2]
        south = (town == "south")[locus.fit_rows_]
        assert correction[south].mean() > 3 * np.abs(correction[~south]).mean()
        found.append(locus.loss_bound(rows[:20]))
    assert_close(np.asarray(found[0]), np.asarray(found[1]), rtol=1e-12)


@pytest.mark.parametrize("size", [1e140, 1e-140])
@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_errors_of_any_size(size, loss):
    """The predictor's numbers are ordinary; only its errors are not."""
    size = size if loss == "absolute" else np.sqrt(size)
    y = size * (2 * np.sin(6 * X[:, 1]) + 0.2 * X[:, 2])
    locus = Locus(lambda X: np.zeros(len(X)), loss=loss, **ORDINARY).fit(X, y)
    assert kind_of(locus) == "ErrorOpinion"
    bound = locus.loss_bound(NEW, [0.5, 0.1])
    assert np.isfinite(bound).all()
    assert bound.max() < 1e3 * np.max(locus.calibration_losses_)


def test_errors_whose_squares_are_no_floats():
    """Of a loss of one's own, which may be small where errors are not."""

    def logarithm(y, g):
        return np.log1p(np.abs(y - g))

    locus = Locus(lambda X: np.zeros(len(X)), loss=logarithm, **ORDINARY).fit(X, 1e300 * Y)
    assert kind_of(locus) == "ErrorOpinion"
    overflowing = np.where(Y > 1, 1.7e308, -1.7e308)
    locus = Locus(lambda X: -1.7e308 * np.sign(first(X) - 0.5), loss=lambda y, g: 1.0 * (y != g))
    locus.set_params(**ORDINARY, signals=["x", "opinion"]).fit(X, overflowing)
    assert kind_of(locus) != "ErrorOpinion"


def test_very_large_signals_are_no_trouble():
    """An engine of boosted trees takes them; so does the opinion."""
    huge = X * [1.0, 1.0, 1e300]
    locus = Locus(first, engine=Gaussian(), random_state=0).fit(huge, Y)
    assert kind_of(locus) == "ErrorOpinion"
    labels = np.where(Y > 1, "high", "low")
    g = Locus(lambda X: np.where(X[:, 0] > 0.5, "high", "low"), loss="zero_one", engine=Gaussian())
    assert kind_of(g.set_params(random_state=0).fit(huge, labels)) == "ClassOpinion"


def test_what_g_says_is_seen_even_if_it_is_no_signal():
    """Without g among the signals, its spread over members is in the opinion all the same."""
    g = RandomForestRegressor(5, random_state=0).fit(*waves(100, seed=5))
    locus = Locus(g, signals=["x", "opinion"], **ORDINARY).fit(X, Y)
    assert locus.fit_signals_.shape[1] == 3 + 2
    assert opinion_of(locus).model.n_features_in_ == 3 + 2
    hidden = Outputs.of(g, NEW, for_signals=True)
    seen = np.column_stack([NEW, hidden.mean_of_members, hidden.spread])
    expected = opinion_of(locus).model.predict(seen)
    assert_close(locus.row_signals(NEW)[:, 3], expected, rtol=1e-12)


def test_labels_of_known_rows_keep_their_unit():
    outputs = Outputs.of(first, X, for_signals=False)
    known = Labelled.of(resolve_loss("squared"), outputs, np.arange(N), 2.0**200 * Y)
    assert known.unit == 2.0**201
    signed = known.signed(-2)
    assert_close(signed.loss(signed.errors), (2.0**200 * Y - first(X)) ** 2, rtol=1e-14)
    assert known.signed(None) is None
    assert Labelled.of(resolve_loss("absolute"), outputs, np.zeros(N), None).signed(-2) is None


def test_reference_rows_are_shown_what_new_rows_are(fitted):
    """A certificate's thresholds come from rows of D1, as if they were new."""
    locus = fitted("error")
    told = locus.row_signals(X[locus.fit_rows_])
    rows = {row.tobytes() for row in told}
    assert {row.tobytes() for row in locus.reference_signals_} == rows
    assert {row.tobytes() for row in locus.fit_signals_}.isdisjoint(rows)


@pytest.mark.parametrize(("share", "helps"), [(0.04, False), (0.07, True)])
def test_an_opinion_must_remove_a_twentieth_of_the_squared_errors(share, helps):
    """What an opinion of this quality removes is counted on the rows left out."""
    found = np.tile([1.0, -1.0], 50)
    expected = found * (1 - np.sqrt(1 - share))
    assert _helps(expected, found, 0.0) is helps


# Losses that many rows share


def rounded(n, seed):
    """Whole numbers and whole answers, half of which are right; the error has a direction."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    wrong = rng.uniform(size=n) < 0.1 + 0.5 * X[:, 2]
    y = np.round(3 * X[:, 0]) + wrong * np.where(X[:, 1] > 0.3, 1, -1)
    return X, y


def whole(X):
    return np.round(3 * X[:, 0])


def test_a_loss_that_many_rows_share_is_not_denied():
    """Expected and unexpected parts of an error do not add up to exactly none."""
    locus = Locus(whole, engine=Forest(n_trees=30), random_state=0).fit(*rounded(2000, 0))
    assert kind_of(locus) == "ErrorOpinion"
    assert locus.engine_.error_table_ is None
    new, y = rounded(4000, 1)
    bad = locus.losses(new, y) > 0
    found = locus.probability(new, 0.0)
    assert abs(found.mean() - bad.mean()) < 0.03
    risky = found > np.quantile(found, 0.9)
    assert abs(found[risky].mean() - bad[risky].mean()) < 0.08
    assert set(np.unique(locus.loss_bound(new, 0.1))) <= {0.0, 1.0, 2.0}


@pytest.mark.parametrize(("n_equal", "is_atom"), [(2, False), (4, False), (5, True)])
def test_how_many_equal_losses_are_no_chance(n_equal, is_atom):
    """Up to one in fifty may be equal, of 200 rows."""
    outputs = Outputs.of(first, X, for_signals=False)
    z = np.abs(Y - first(X))
    z[:n_equal] = z[0]
    known = Labelled.of(resolve_loss("absolute"), outputs, z, Y)
    assert (known.signed(-2) is None) is is_atom
