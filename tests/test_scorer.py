"""Scorer: the columns of a batch, whatever its kind, size and thread."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from archives_for_tests import rows
from helpers import assert_close, raises, warns
from locuscore import (
    Column,
    GroupRule,
    Locus,
    LocusWarning,
    Score,
    Scorer,
    match_acceptance,
    prediction_column,
    tau_rule,
)
from locuscore.calibration import ByGroup
from locuscore.engines import Forest

NAMES = ["prediction", "bound_0.1", "bound_0.25", "score", "flag"]


def fitted(X, y, predictor=None, **settings):
    predictor = LinearRegression().fit(X, y) if predictor is None else predictor
    settings = {"engine": Forest(n_trees=5), "random_state": 0} | settings
    return Locus(predictor, **settings).fit(X, y)


@pytest.fixture(scope="module")
def scorer():
    locus = fitted(*rows(400))
    return Scorer(locus, locus.tau_rule(tau=0.8, alpha=0.1), alphas=(0.1, 0.25))


def test_the_columns_are_what_locus_says(scorer):
    X, _ = rows(400, seed=1)
    out, locus = scorer(X), scorer.locus
    assert list(out) == NAMES == scorer.column_names
    roles = ["prediction", "bound", "bound", "score", "flag"]
    assert list(scorer.columns) == [Column(*pair) for pair in zip(NAMES, roles, strict=True)]
    assert_close(out["prediction"], locus.predict(X))
    bounds = np.column_stack([out["bound_0.1"], out["bound_0.25"]])
    assert_close(bounds, locus.loss_bound(X, [0.1, 0.25]))
    assert_close(out["score"], locus.scores(X, scorer.rule.score))
    assert (out["flag"] == ~locus.accepts(X, scorer.rule)).all()
    assert 0 < out["flag"].mean() < 1


class Counted(LinearRegression):
    calls = 0

    def predict(self, X):
        type(self).calls += 1
        return super().predict(X)


@pytest.mark.parametrize("signals", ["all", "x"])
def test_the_predictor_is_asked_once(signals):
    X, y = rows(400)
    scorer = Scorer(fitted(X, y, Counted().fit(X, y), signals=signals))
    Counted.calls = 0
    assert_close(scorer(X)["prediction"], LinearRegression().fit(X, y).predict(X), rtol=1e-12)
    assert Counted.calls == 1


def test_a_forest_predicts_what_it_predicts():
    X, y = rows(400)
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    assert_close(Scorer(fitted(X, y, forest))(X)["prediction"], forest.predict(X), rtol=1e-12)


@pytest.mark.parametrize("score", [Score.bound(0.2), Score.exceedance(0.5), Score.tail(0.5)])
def test_a_rule_on_any_score_of_the_estimator(scorer, score):
    X, _ = rows(400, seed=1)
    values = scorer.locus.scores(X, score)
    rule = match_acceptance(values, 0.5, of=score)
    out = Scorer(scorer.locus, rule)(X)
    assert_close(out["score"], values)
    assert (out["flag"] == ~rule.accepts(values, score)).all()


@pytest.mark.parametrize("size", [1, 7])
def test_rows_are_independent(scorer, size):
    X, _ = rows(61, seed=1)
    whole = scorer(X)
    parts = [scorer(X[start : start + size]) for start in range(0, len(X), size)]
    for name in NAMES:
        together = np.concatenate([part[name] for part in parts])
        if name == "flag":
            assert (together == whole[name]).all()
        else:
            assert_close(together, whole[name], rtol=1e-9)


def test_two_calls_agree_bit_for_bit_and_so_do_threads(scorer):
    X, _ = rows(200, seed=1)
    whole = scorer(X)
    with ThreadPoolExecutor(8) as pool:
        for out in pool.map(scorer, [X] * 24):
            assert all((out[name] == whole[name]).all() for name in NAMES)


def test_an_empty_batch_has_the_columns_and_no_rows(scorer):
    out = scorer(np.empty((0, 3)))
    whole = scorer(rows(5)[0])
    assert {name: v.dtype for name, v in out.items()} == {n: v.dtype for n, v in whole.items()}
    assert all(len(values) == 0 for values in out.values())


def test_without_a_rule_or_a_predictor_there_are_fewer_columns():
    X, y = rows(400)
    locus = Locus(engine=Forest(n_trees=5), random_state=0).fit_losses(X, np.abs(y))
    bounds = Scorer(locus)
    assert list(bounds(X[:2])) == bounds.column_names == ["bound_0.1"]
    assert bounds.columns == (Column("bound_0.1", "bound"),)
    assert "99 calibration rows" in bounds.card


def test_classes_keep_their_type():
    X, y = rows(400)
    labels = np.where(y > 0.5, "high", "low")
    locus = fitted(X, labels, LogisticRegression().fit(X, labels), loss="zero_one")
    scorer = Scorer(locus)
    assert set(scorer(X)["prediction"]) == {"high", "low"}
    assert scorer(X[:0])["prediction"].dtype == scorer(X)["prediction"].dtype


def test_several_outputs_are_several_columns():
    X, y = rows(400)
    two = np.column_stack([y, y])
    locus = fitted(
        X, two, LinearRegression().fit(X, two), loss=lambda y, g: np.abs(y - g).max(axis=1)
    )
    scorer = Scorer(locus)
    names = ["prediction_0", "prediction_1", "bound_0.1"]
    assert scorer.column_names == list(scorer(X[:2])) == list(scorer(X[:0])) == names
    assert locus.n_outputs_ == 2


def test_a_prediction_column_of_whole_numbers_gives_floats():
    X, y = rows(400)
    X = np.round(10 * X).astype(np.int64)
    scorer = Scorer(fitted(X, y, prediction_column(0)))
    assert scorer(X)["prediction"].dtype == scorer(X[:0])["prediction"].dtype == np.float64


def test_an_infinite_bound_is_said_once_and_flagged():
    X, y = rows(60)
    locus = fitted(X, y)
    rule = locus.tau_rule(tau=1.0, alpha=0.001)
    with warns(LocusWarning, "29", "alpha = 0.001", "infinite"):
        scorer = Scorer(locus, rule, alphas=(0.5, 0.001))
    out = scorer(X)  # warnings are errors here
    assert np.isinf(out["bound_0.001"]).all()
    assert out["flag"].all()
    assert np.isfinite(out["bound_0.5"]).all()


def test_wrong_settings_are_refused():
    X, y = rows(60)
    with pytest.raises(ValueError, match="not fitted"):
        Scorer(Locus(LinearRegression()))
    locus = fitted(X, y)
    with raises(ValueError, "one column"):
        Scorer(locus, alphas=(0.1, 0.1))
    with pytest.raises(ValueError, match="between 0 and 1"):
        Scorer(locus, alphas=(1.0,))
    with pytest.raises(ValueError, match="cannot compute"):
        Scorer(locus, match_acceptance(y, 0.5))
    with raises(TypeError, "fitted Locus", "got LinearRegression"):
        Scorer(LinearRegression().fit(X, y))
    with raises(TypeError, "FlagRule", "got tuple"):
        Scorer(locus, (0.1,))
    with raises(TypeError, "FlagRule", "got float"):
        locus.accepts(X, 0.1)


@pytest.mark.extra
def test_saving_into_a_folder_that_is_not_there_names_it(scorer, tmp_path):
    with raises(FileNotFoundError, "no folder", str(tmp_path / "models"), "g.locus"):
        scorer.save(tmp_path / "models" / "g.locus")
    assert not list(tmp_path.iterdir())


def test_an_array_of_another_width_is_refused(scorer):
    with raises(ValueError, "3 columns", "got 2"):
        scorer(np.ones((2, 2)))


# Frames


def frame_and_target(n=300, seed=0):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.uniform(size=n),
            "count": rng.integers(0, 9, size=n),
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], size=n)),
            "town": rng.choice(["north", "south"], size=n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
        }
    )
    return frame, frame["size"].to_numpy() * rng.normal(size=n)


def own_guess(frame):
    """A predictor that insists on the frame it knows."""
    assert type(frame).__module__.startswith("pandas")
    assert str(frame["kind"].dtype) == "category"
    assert str(frame["town"].dtype) == "object"
    assert str(frame["day"].dtype).startswith("datetime64")
    return frame["size"].to_numpy() * (frame["kind"] == "a").to_numpy()


@pytest.fixture(scope="module")
def frame_scorer():
    locus = fitted(*frame_and_target(), own_guess)
    return Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.1, 0.25))


@pytest.mark.extra
def test_a_frame_keeps_its_index(frame_scorer):
    frame, _ = frame_and_target(20, seed=1)
    frame.index = [f"row {i}" for i in range(20)]
    out = frame_scorer(frame)
    assert list(out.columns) == NAMES
    assert list(out.index) == list(frame.index)
    assert str(out["flag"].dtype) == "bool"


@pytest.mark.extra
@pytest.mark.parametrize("n", [0, 1, 50])
@pytest.mark.parametrize("kind", ["polars", "table", "batch"])
def test_other_frames_give_the_same_numbers_in_their_own_kind(frame_scorer, kind, n):
    import polars as pl
    import pyarrow as pa

    frame, _ = frame_and_target(50, seed=1)
    frame, expected = frame[:n], frame_scorer(frame[:n])
    make = {
        "polars": pl.from_pandas,
        "table": pa.Table.from_pandas,
        "batch": pa.RecordBatch.from_pandas,
    }[kind]
    given = make(frame)
    out = frame_scorer(given)
    assert type(out) is type(given)
    names = out.columns if kind == "polars" else out.schema.names
    assert list(names) == NAMES
    for name in NAMES:
        assert_close(np.asarray(out[name]), expected[name].to_numpy(), rtol=1e-12)


@pytest.mark.extra
def test_text_and_dates_of_other_readers_become_the_types_of_fit(frame_scorer):
    """CSV and JSON know no categories, Parquet and Arrow know plain dates."""
    import pyarrow as pa

    frame, _ = frame_and_target(30, seed=1)
    plain = pa.table(
        {
            "size": frame["size"],
            "count": frame["count"],
            "kind": frame["kind"].astype(str),
            "town": pa.array(frame["town"]).dictionary_encode(),
            "day": pa.array(frame["day"].dt.date),
        }
    )
    expected, out = frame_scorer(frame), frame_scorer(plain)
    for name in NAMES:
        assert_close(np.asarray(out[name]), expected[name].to_numpy(), rtol=1e-12)


@pytest.mark.extra
@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda frame: frame.drop(columns="town"), ["missing", "['town']"]),
        (lambda frame: frame.assign(more=1), ["not seen", "['more']"]),
        (lambda frame: frame[list(frame)[::-1]], ["another order"]),
        (lambda frame: frame.to_numpy(), ["array without names"]),
    ],
)
def test_other_columns_are_refused(frame_scorer, change, facts):
    frame, _ = frame_and_target(5, seed=1)
    with raises((TypeError, ValueError), *facts):
        frame_scorer(change(frame))


@pytest.mark.extra
def test_a_fit_on_an_array_takes_frames_by_position(scorer):
    import pyarrow as pa

    X, _ = rows(9, seed=1)
    table = pa.table({name: X[:, j] for j, name in enumerate("abc")})
    out, expected = scorer(table), scorer(X)
    assert isinstance(out, pa.Table)
    for name in NAMES:
        assert_close(np.asarray(out[name]), expected[name])
    with raises(ValueError, "3 columns"):
        scorer(table.select(["a"]))


@pytest.mark.extra
def test_text_predictions_in_every_kind_of_frame():
    import polars as pl
    import pyarrow as pa

    frame, y = frame_and_target()
    scorer = Scorer(
        fitted(frame, np.where(y > 0, "high", "low"), prediction_column("town"), loss="zero_one")
    )
    for make in (pl.from_pandas, pa.Table.from_pandas):
        out = scorer(make(frame[:4]))
        assert list(np.asarray(out["prediction"])) == list(frame["town"][:4])


@pytest.mark.extra
def test_a_digest_tells_scorers_apart_and_survives_the_archive(scorer, tmp_path):
    locus = scorer.locus
    X, y = rows(400, seed=2)
    others = [
        Scorer(locus, scorer.rule),
        Scorer(locus, locus.tau_rule(tau=0.7, alpha=0.1), alphas=(0.1, 0.25)),
        Scorer(locus, alphas=(0.1, 0.25)),
        Scorer(locus.recalibrate(X, y), alphas=(0.1, 0.25)),
    ]
    assert len({scorer.digest, *(one.digest for one in others)}) == 5
    scorer.save(tmp_path / "scorer.locus")
    assert Scorer.load(tmp_path / "scorer.locus").digest == scorer.digest


def test_groups_are_those_of_the_rule_or_else_of_the_calibration(scorer):
    X, y = rows(400)
    X = np.column_stack([X, np.arange(400) % 3])
    assert scorer.groups_of(X[:5, :-1]) is None
    by_group = fitted(X, y, calibration=ByGroup(by=X.shape[1] - 1))
    assert Scorer(by_group).groups_of(X[:4]) == [0, 1, 2, 0]
    new = X[:2].copy()
    new[:, -1] = 7.0
    assert Scorer(by_group).groups_of(new) == [None, None]
    told = fitted(X, y, calibration=ByGroup(np.repeat(["a", "b"], 200)))
    assert Scorer(told).groups_of(X[:3], ["b", "a", "c"]) == ["b", "a", None]
    each = {0: by_group.tau_rule(1.0, 0.1), 1: by_group.tau_rule(2.0, 0.1)}
    rule = GroupRule(each, by=X.shape[1] - 1)
    assert Scorer(
        fitted(X, y), GroupRule({0: tau_rule(1.0, 0.1), 1: tau_rule(2.0, 0.1)}, by=X.shape[1] - 1)
    ).groups_of(X[:4]) == [0.0, 1.0, 2.0, 0.0]
    assert Scorer(by_group, rule).groups_of(X[:2]) == [0.0, 1.0]
