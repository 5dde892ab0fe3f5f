"""Rows that are no table: every kind through fit, bound, rule and Scorer, and what is refused."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse

from archives_for_tests import assert_same_scores
from helpers import raises, warns
from locuscore import (
    Locus,
    LocusWarning,
    Reuse,
    Score,
    Scorer,
    inspect_archive,
    prediction_column,
)
from locuscore._shared.rows import RowKind, floats_per_row, kind_of_rows
from locuscore.calibration import ByGroup, CrossFit, Shifted
from locuscore.engines import Forest
from locuscore.report import report

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytestmark = pytest.mark.extra

N = 160
WORDS = np.array(["good", "bad", "slow", "quick", "dull", "bright", "red", "blue"])
FEW_TREES = Forest(n_trees=5)


class Shelf:
    """Rows of a kind of its own: a length, and some rows of the same kind by their positions."""

    def __init__(self, books):
        self.books = np.asarray(books)

    def __len__(self):
        return len(self.books)

    def __getitem__(self, positions):
        return Shelf(self.books[positions])


class Loader(Shelf):
    """As many data sets are: one row by its position, and nothing by several."""

    def __getitem__(self, position):
        return self.books[int(position)]


def texts(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(row) for row in rng.choice(WORDS, size=(n, 5))]


def images(n=N, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(n, 4, 4, 3), dtype=np.uint8)


def wide(n=N, seed=0):
    return sparse.random(n, 300, 0.02, format="csr", rng=np.random.default_rng(seed))


def of_text(rows):
    return np.array([float(row.count("bad")) for row in rows])


def of_image(rows):
    assert rows.dtype == np.uint8
    assert rows.ndim >= 3
    return rows.reshape(len(rows), -1).mean(axis=1) / 256


def of_sparse(rows):
    assert sparse.issparse(rows)
    return np.asarray(rows.sum(axis=1)).ravel()


def of_shelf(rows):
    assert isinstance(rows, Shelf)
    return rows.books[:, 0]


# Rows, and a predictor that takes them as they come.
KINDS = {
    "list": (texts, of_text),
    "tuple": (lambda n=N, seed=0: tuple(texts(n, seed)), of_text),
    "array of texts": (lambda n=N, seed=0: np.array(texts(n, seed)), of_text),
    "pandas series": (lambda n=N, seed=0: pd.Series(texts(n, seed), np.arange(n) + 7), of_text),
    "polars series": (lambda n=N, seed=0: pl.Series(texts(n, seed)), of_text),
    "images": (images, of_image),
    "grey images": (lambda n=N, seed=0: images(n, seed)[..., 0], of_image),
    "sparse": (wide, of_sparse),
    "own": (lambda n=N, seed=0: Shelf(np.random.default_rng(seed).uniform(size=(n, 2))), of_shelf),
}


def target(g, X, seed=0):
    said = g(X)
    return said + (0.2 + np.abs(said)) * np.random.default_rng(seed).normal(size=len(said))


# Without a second opinion, which takes time; the list has one.
SMALL = {"engine": FEW_TREES, "random_state": 0, "signals": ["x", "predictor"]}


@cache
def fitted(kind):
    make, g = KINDS[kind]
    X = make()
    settings = SMALL | ({"signals": "all"} if kind == "list" else {})
    return Locus(g, **settings).fit(X, target(g, X))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_goes_through_fit_bound_rule_scorer_and_archive(kind, tmp_path):
    make, g = KINDS[kind]
    locus, new = fitted(kind), make(30, seed=1)
    bounds = np.asarray(locus.loss_bound(new, [0.5, 0.2]))
    assert bounds.shape == (30, 2)
    assert np.all(bounds[:, 0] <= bounds[:, 1])
    rule = locus.certify(0.5, 0.4, 0.2)
    scorer = Scorer(locus, rule, alphas=(0.2,))
    table = scorer(new)
    assert np.array_equal(np.asarray(table["bound_0.2"]), bounds[:, 1])
    assert np.array_equal(np.asarray(table["prediction"]), g(new))
    assert np.array_equal(~np.asarray(table["flag"]), np.asarray(locus.accepts(new, rule)))
    with warns(LocusWarning, "no safe format"):
        scorer.save(tmp_path / "x.locus")
    loaded = Scorer.load(tmp_path / "x.locus", predictor=g)
    assert_same_scores(scorer, loaded, new)
    with raises(TypeError, "fit was given", "pass rows like those of fit"):
        loaded(images(4) if kind_of_rows(new) is RowKind.TEXTS else texts(4))


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_rows_give_the_same_bounds(kind, monkeypatch):
    make, _ = KINDS[kind]
    locus, new = fitted(kind), make(23, seed=1)
    whole = np.asarray(locus.loss_bound(new, 0.3))
    monkeypatch.setattr("locuscore._shared.blocks.BLOCK_FLOATS", 5 * floats_per_row(new))
    blocks = [len(block) for block in locus.blocks(new)]
    assert blocks == [5, 5, 5, 5, 3]
    np.testing.assert_allclose(np.asarray(locus.loss_bound(new, 0.3)), whole, rtol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "own"])
def test_rows_of_fit_are_recognised(kind):
    make, g = KINDS[kind]
    locus, X = fitted(kind), make()
    with raises(ValueError, "used to fit"):
        locus.certify(0.5, 0.4, 0.2, X, target(g, X))
    new = make(seed=1)
    assert Reuse(locus.used_rows_, locus.schema_, "y").add(new, g(new)).verdict.outcome == "fresh"


def test_rows_of_an_own_kind_cannot_be_recognised_and_the_archive_says_so(tmp_path):
    make, g = KINDS["own"]
    locus = fitted("own")
    assert locus.used_rows_ is None
    rule = locus.certify(0.5, 0.4, 0.2, make(), target(g, make()))
    assert rule.certificate is not None
    with warns(LocusWarning, "no safe format"):
        Scorer(locus).save(tmp_path / "x.locus")
    found = inspect_archive(tmp_path / "x.locus")
    assert found["rows"] == "own of the type Shelf"
    assert found["kept_rows"]["digests"] == 0
    assert "cannot be kept" in found["kept_rows"]["note"]


@pytest.mark.parametrize("kind", ["list", "images", "sparse", "own"])
def test_calibrations_by_array_and_function(kind):
    make, g = KINDS[kind]
    X, new = make(), make(20, seed=1)
    y = target(g, X)
    by_function = Locus(g, calibration=ByGroup(lambda rows: g(rows) > np.median(g(X))), **SMALL)
    labels = g(X) > np.median(g(X))
    by_array = Locus(g, calibration=ByGroup(labels), **SMALL).fit(X, y)
    first = by_function.fit(X, y).loss_bound(new, 0.2)
    second = by_array.loss_bound(new, 0.2, groups=g(new) > np.median(g(X)))
    assert np.array_equal(first, second)
    grouped = by_function.certify_groups(lambda rows: np.zeros(len(g(rows))), 0.5, 0.5, 0.2)
    assert len(grouped.rules) == 1
    clustered = Locus(g, **SMALL).fit(X, y, clusters=np.arange(N) // 4)
    assert clustered.calibration_.n_clusters == 19
    weighted = Locus(g, calibration=Shifted(lambda rows: 1 + np.abs(g(rows))), **SMALL).fit(X, y)
    assert np.all(weighted.loss_bound(new, 0.3) > 0)
    crossed = Locus(g, calibration=CrossFit(3), **SMALL).fit(X, y)
    assert crossed.loss_bound(new, 0.2).shape == (20,)
    again = by_array.recalibrate(make(seed=2), target(g, make(seed=2)), groups=labels)
    assert again.loss_bound(new, 0.2, groups=g(new) > 0).shape == (20,)


@pytest.mark.parametrize("kind", ["list", "pandas series", "images", "own"])
def test_a_report_has_no_columns_to_show_of_them(kind):
    make, g = KINDS[kind]
    scorer = Scorer(Locus(g, **SMALL).fit(X := make(), target(g, X)))
    new = make(40, seed=1)
    summary = report(scorer, new, target(g, new, seed=1)).summary
    names = [part["name"] for part in summary["attribution"]["importance"]]
    assert set(names) == ({"text", "prediction"} if g is of_text else {"prediction"})
    assert summary["rows"]["riskiest"][0]["reasons"]
    shown = [part for part in summary["rows"]["columns"] if part["role"] == "feature"]
    assert len(shown) == (g is of_text)


def test_learned_weights_need_columns_and_texts_have_some():
    X, far = texts(240), [text for text in texts(120, seed=1) if "bad" in text]
    locus = Locus(of_text, calibration=Shifted(), **SMALL)
    weights = locus.fit(X, target(of_text, X), target=far).calibration_.reads(X)
    said = of_text(X)
    assert weights[said > 0].mean() > 2 * weights[said == 0].mean()
    shifted = Locus(of_image, calibration=Shifted(), **SMALL)
    with raises(ValueError, "weights are learned from the columns", "Shifted(weights)"):
        shifted.fit(images(), target(of_image, images()), target=images(50, seed=1))


def test_an_embedding_of_images_adds_signals_and_is_shown_a_few_at_a_time(monkeypatch):
    seen = []

    def embedding(rows):
        seen.append(len(rows))
        return rows[:, 0, 0, :].astype(float)

    X = images()
    monkeypatch.setattr("locuscore._shared.blocks.BLOCK_FLOATS", 50 * 48)
    locus = Locus(of_image, **SMALL | {"signals": ["x", "predictor", embedding]})
    locus.fit(X, target(of_image, X))
    assert max(seen) <= 50
    assert locus.signals_.function_width == 3
    assert locus.fit_signals_.shape[1] == 4
    assert np.array_equal(locus.row_signals(X[:5])[:, 1:4], X[:5, 0, 0])


def test_no_copy_of_all_images_is_made():
    """Neither of D1: its answers are known when the rows are taken apart."""
    X = images()
    locus = fitted("images")
    assert locus.calibration_inputs_.nbytes == len(locus.calibration_rows_) * X[0].nbytes
    held = [value for value in vars(locus).values() if isinstance(value, np.ndarray)]
    assert sum(value.nbytes for value in held if value.ndim > 2) < X.nbytes


def test_a_series_of_texts_keeps_its_index():
    locus = fitted("pandas series")
    new = pd.Series(texts(4, seed=1), index=list("abcd"))
    bound = locus.loss_bound(new, 0.2)
    assert list(bound.index) == list("abcd")
    assert list(Scorer(locus)(new).index) == list("abcd")
    assert isinstance(fitted("polars series").loss_bound(pl.Series(texts(4))), pl.Series)


def test_containers_of_texts_are_one_kind():
    locus, new = fitted("list"), texts(5, seed=1)
    others = [np.asarray(locus.loss_bound(kind, 0.3)) for kind in (pd.Series(new), np.array(new))]
    assert all(np.array_equal(locus.loss_bound(new, 0.3), other) for other in others)


def test_no_texts_and_an_empty_text_are_allowed():
    scorer = Scorer(fitted("list"))
    assert scorer([])["bound_0.1"].shape == (0,)
    assert np.isfinite(scorer.locus.loss_bound(["", "good"], 0.3)).all()


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        ([[1.0, 2.0]], None),
        (np.zeros((2, 2)), None),
        (sparse.eye(3, format="csr"), None),
        (pd.DataFrame({"a": [1]}), None),
        (pd.Series([1.0, 2.0]), None),
        (pd.Series([{"a": 1}]), None),
        ([{"a": 1}], None),
        ({"a": [1]}, None),
        (range(3), None),
        (np.zeros((2, 2, 2)), RowKind.IMAGES),
        ([None, "a"], RowKind.TEXTS),
        (Shelf([1, 2]), RowKind.OWN),
    ],
)
def test_kinds_are_told_by_their_type(X, kind):
    assert kind_of_rows(X) is kind


ragged = np.empty(2, dtype=object)
ragged[:] = [np.zeros((2, 2)), np.zeros((3, 3))]


@pytest.mark.parametrize(
    ("X", "error", "facts"),
    [
        (ragged, ValueError, ["different shapes", "resize or pad"]),
        ([np.zeros((2, 2)), np.zeros((3, 3))], ValueError, ["all of one shape"]),
        (np.full((2, 2, 2), "a"), TypeError, ["(2, 2, 2)", "expected numbers"]),
        (np.zeros((2, 0, 2)), ValueError, ["(2, 0, 2)", "its rows are empty"]),
        (["a", 1.0], TypeError, ["row 1", "float", "one text per row"]),
        (["a", None], TypeError, ["row 1", "NoneType", "Write ''"]),
        (pd.Series(["a", None]), TypeError, ["row 1", "Write ''"]),
        (np.array(["a", 2], dtype=object), TypeError, ["row 1", "int"]),
        (Loader([1, 2]), TypeError, ["a Loader", "np.stack([image"]),
        ([{"a": 1}, {"a": 2}], ValueError, ["make it a table"]),
    ],
)
def test_bad_rows_are_refused_in_one_sentence(X, error, facts):
    with raises(error, *facts):
        Locus(lambda rows: np.zeros(len(rows))).fit(X, [0.0, 1.0])


def test_rows_of_another_form_than_in_fit_are_refused():
    locus = fitted("images")
    with raises(ValueError, "4 x 4 x 3 whole numbers", "4 x 4 whole numbers"):
        locus.loss_bound(images(3)[..., 0])
    with raises(ValueError, "4 x 4 x 3 whole numbers", "4 x 4 x 3 floats"):
        locus.loss_bound(images(3) / 256)
    with raises(TypeError, "an array of three or more axes", "texts"):
        locus.loss_bound(texts(3))
    with raises(TypeError, "fit was given texts", "a table"):
        fitted("list").loss_bound(np.zeros((2, 1)))
    with raises(TypeError, "fit was given a table", "texts"):
        fitted("sparse").loss_bound(texts(3))


def test_what_rows_without_columns_lack_is_said():
    X, y = images(), target(of_image, images())
    with raises(ValueError, "signals='x'", "these rows have none"):
        Locus(of_image, signals="x").fit(X, y)
    with raises(ValueError, "nothing", "such as an embedding"):
        Locus().fit_losses(X, np.abs(y))
    with raises(TypeError, "'yhat'", "without columns", "pass a frame"):
        Locus(prediction_column("yhat")).fit(X, y)
    with raises(ValueError, "inconsistent numbers of samples", "160", "(159,)"):
        Locus(of_text).fit(texts(), y[1:])


@pytest.mark.parametrize("kind", ["list", "images"])
def test_files_and_services_say_that_they_bring_tables(kind):
    with raises(ValueError, "fitted on", "bring tables", "fit it on a frame"):
        Scorer(fitted(kind)).check_rows_are_enough()


def test_losses_alone_are_enough_with_an_embedding():
    X = images()
    locus = Locus(**SMALL | {"signals": lambda rows: rows[:, 0, 0, :] / 256})
    locus.fit_losses(X, np.abs(target(of_image, X)))
    assert np.isfinite(locus.scores(X[:3], Score.tail(0.5))).all()
