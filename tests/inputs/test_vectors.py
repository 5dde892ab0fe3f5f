"""Free text and wide sparse rows as a few numbers, learned on D1 and kept as plain arrays."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

from archives_for_tests import assert_same_scores
from helpers import raises
from locuscore import Locus, Scorer, inspect_archive, prediction_column
from locuscore._inputs.encoder import Encoder
from locuscore._inputs.vectors import MOST_LEVELS, N_HASHES, Reduction, TextVectors, is_free_text
from locuscore.calibration import CrossFit
from locuscore.engines import Forest
from locuscore.report import report

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytestmark = pytest.mark.extra

WORDS = np.array(["good", "bad", "slow", "quick", "dull", "bright", "red", "blue"])
SMALL = {"engine": Forest(n_trees=5), "signals": "x", "random_state": 0}


def notes(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(row) for row in rng.choice(WORDS, size=(n, 4))]


def frame(n=200, seed=0, kind=pd.DataFrame):
    rng = np.random.default_rng(seed)
    note, town = notes(n, seed), rng.choice(["north", "south"], size=n).tolist()
    size = rng.uniform(size=n)
    spread = np.array([0.1 + text.count("bad") for text in note])
    table = {"note": note, "size": size, "town": town, "guess": size}
    return kind(table), size + spread * rng.normal(size=n)


def slow_vectors(learned, texts):
    """The same by scikit-learn's own weights, text by text."""
    hasher = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), n_features=N_HASHES, alternate_sign=False, norm=None
    )
    vectors = TextVectors.of(learned)
    tfidf = TfidfTransformer().fit(hasher.transform(learned)[:, vectors.hashes])
    rows = [tfidf.transform(hasher.transform([text])[:, vectors.hashes]) for text in texts]
    return np.vstack([row.toarray() @ vectors.components.T for row in rows])


def test_vectors_are_tfidf_times_singular_vectors():
    learned, new = notes(60), ["", "good", "an unknown word", *notes(5, seed=1)]
    vectors = TextVectors.of(learned)
    np.testing.assert_allclose(vectors(new), slow_vectors(learned, new), atol=1e-12)
    assert not vectors([""]).any()
    # The components are those of the largest singular values: no other span leaves less.
    full = np.linalg.svd(slow_rows(vectors, learned), compute_uv=False)
    kept = np.linalg.norm(vectors(learned)) ** 2
    assert kept == pytest.approx(np.sum(full[: vectors.width] ** 2), rel=1e-6)
    assert full[vectors.width - 1] > 1e-6 * full[0]


def slow_rows(vectors, texts):
    """TF-IDF rows of the known n-grams, by counting them one by one."""
    hasher = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), n_features=N_HASHES, alternate_sign=False, norm=None
    )
    rows = hasher.transform(texts)[:, vectors.hashes].toarray() * vectors.weights
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_vectors_of_few_texts_and_of_none():
    assert TextVectors.of([])(["a text"]).shape == (1, 0)
    assert TextVectors.of(["one text"])(["a text"]).shape == (1, 0)  # no n-gram occurs twice
    assert TextVectors.of(["one text", "two texts"])(["a text"]).shape == (1, 1)  # all they share


def test_many_texts_are_learned_from_some_and_read_in_parts(monkeypatch):
    texts = notes(90)
    whole = TextVectors.of(texts)(texts)
    monkeypatch.setattr("locuscore._inputs.vectors.TEXTS_AT_ONCE", 7)
    np.testing.assert_allclose(TextVectors.of(texts)(texts), whole, atol=1e-12)
    monkeypatch.setattr("locuscore._inputs.vectors.MOST_TO_LEARN", 20)
    some = TextVectors.of(texts)
    assert len(some.hashes) <= len(TextVectors.of(texts[::4]).hashes) * 2
    monkeypatch.setattr("locuscore._inputs.vectors.LONGEST", 4)
    assert np.array_equal(some(["good and so on"]), some(["good"]))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (notes(100), True),
        (notes(100)[:MOST_LEVELS], False),  # too few to be texts
        ([f"A{i:05d}" for i in range(100)], False),  # codes
        ([f"Saint{i}" for i in range(90)] + ["San Jose"] * 10, False),  # places
        ([*notes(99), 3.0], False),
        ([], False),
    ],
)
def test_what_counts_as_free_text(values, expected):
    assert is_free_text(values, len(set(values))) is expected


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_text_is_its_length_and_vectors_behind_the_columns(kind):
    X, _ = frame(kind=kind)
    encoder = Encoder().fit(X)
    S = encoder.transform(X)
    assert list(encoder.texts_) == [0]
    assert list(encoder.codes_) == [2]
    assert S.shape == (200, 4 + encoder.n_vectors)
    assert S[:, 0].tolist() == [len(text) for text in X["note"]]
    assert np.array_equal(S[:, 4:], TextVectors.of(notes(200))(notes(200)))
    assert encoder.owners(S.shape[1]).tolist() == [0, 1, 2, 3, *[0] * encoder.n_vectors]


def test_declared_categories_and_codes_stay_codes():
    X, _ = frame()
    X["note"] = X["note"].astype("category")
    assert not Encoder().fit(X).texts_


def test_a_missing_text_has_no_length_and_no_vectors():
    X, _ = frame()
    encoder = Encoder().fit(X)
    X.loc[:1, "note"] = [None, ""]
    S = encoder.transform(X)
    assert np.isnan(S[0, 0])
    assert S[1, 0] == 0
    assert not S[:2, 4:].any()


def test_nothing_is_learned_from_the_texts_of_d2():
    X, y = frame()
    locus = Locus(prediction_column("guess"), **SMALL).fit(X, y)
    other = X.copy()
    rows = locus.calibration_rows_
    other.loc[rows, "note"] = [f"{text} strange" for text in X["note"].iloc[rows]]
    again = Locus(prediction_column("guess"), **SMALL).fit(other, y)
    assert np.array_equal(again.fit_signals_, locus.fit_signals_)
    assert np.array_equal(again.row_signals(X), locus.row_signals(X))
    assert not np.array_equal(again.calibration_signals_, locus.calibration_signals_)


def test_one_column_has_one_reason_in_a_report():
    X, y = frame(400)
    locus = Locus(lambda X: X["size"].to_numpy(), **SMALL | {"signals": ["x", "predictor"]})
    scorer = Scorer(locus.fit(X, y))
    width = locus.fit_signals_.shape[1]
    assert locus.signals_.players(width).max() + 1 == 5
    names = locus.signals_.names(locus.predictor_, list(X.columns), width)
    assert names == [*X.columns, "prediction"]
    summary = report(scorer, *frame(60, seed=1)).summary
    named = [part["name"] for part in summary["attribution"]["importance"]]
    assert sorted(named) == sorted(names)
    assert named[0] == "note"
    reason = summary["rows"]["riskiest"][0]["reasons"][0]
    assert reason["name"] == "note"
    assert "bad" in reason["value"]


def test_the_archive_keeps_vectors_and_says_which_columns_are_text(tmp_path):
    X, y = frame()
    for name, calibration in (("split", None), ("folds", CrossFit(2))):
        settings = SMALL | {"calibration": calibration}
        scorer = Scorer(Locus(prediction_column("guess"), **settings).fit(X, y))
        path = tmp_path / f"{name}.locus"
        scorer.save(path)
        assert_same_scores(scorer, Scorer.load(path), frame(20, seed=1)[0])
        facts = inspect_archive(path)
        assert facts["features"][0] == {"name": "note", "type": "String, free text"}
        assert "free text in 1 of them by" in facts["signals"]


def test_what_a_predictor_says_may_be_free_text():
    X, _ = frame()
    answers = [f"It is {text}." for text in X["note"]]
    z = np.array([text.count("bad") for text in answers]) + 0.1
    X = pd.DataFrame({"size": X["size"], "answer": answers})
    locus = Locus(
        lambda X: X["answer"].to_numpy(dtype=object),
        loss=lambda y, g: np.array([text.count("bad") + 0.1 for text in g]),
        **SMALL | {"signals": "predictor"},
    ).fit(X, z)
    width = locus.fit_signals_.shape[1]
    assert width == 1 + locus.signals_.output_encoder.n_vectors
    assert locus.signals_.names(locus.predictor_, ["size", "answer"], width) == ["prediction"]
    assert not locus.signals_.players(width).any()


def wide(n=80, seed=0, width=400):
    return sparse.random(n, width, 0.05, format="csr", rng=np.random.default_rng(seed))


def test_a_wide_sparse_matrix_is_reduced_and_never_dense():
    X = wide()
    encoder = Encoder().fit(X)
    S = encoder.transform(X)
    assert S.shape == (80, 30)
    np.testing.assert_allclose(S, X.toarray() @ encoder.reduction_.components.T, atol=1e-12)
    assert not encoder.owners(30).any()
    assert Encoder().fit(wide(width=20)).transform(wide(width=20)).shape == (80, 20)
    with raises(ValueError, "expected 400 columns", "got 20"):
        encoder.transform(wide(width=20))


def honest():
    vectors = TextVectors.of(notes(60))
    return {name: getattr(vectors, name).copy() for name in ("hashes", "weights", "components")}


def out_of_range(parts):
    parts["hashes"][-1] = N_HASHES


def doubled(parts):
    parts["hashes"][1] = parts["hashes"][0]


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (out_of_range, "hashes that no text has"),
        (doubled, "ascending"),
        (lambda parts: parts.update(hashes=parts["hashes"][:-1]), "ascending"),
        (lambda parts: parts.update(hashes=parts["hashes"].astype(float)), "ascending"),
        (lambda parts: parts["weights"].fill(np.nan), "weights"),
        (lambda parts: parts.update(weights=np.ones((2, 2))), "weights"),
        (lambda parts: parts["components"].fill(np.inf), "not finite"),
        (lambda parts: parts.update(components=np.ones(3)), "no matrix"),
        (lambda parts: parts.update(components=np.ones((31, 3))), "no matrix"),
    ],
)
def test_vectors_of_an_archive_are_checked(change, fact):
    parts = honest()
    TextVectors.from_parts(parts)
    change(parts)
    with raises(ValueError, fact):
        TextVectors.from_parts(parts)


def test_an_encoder_of_an_archive_is_checked():
    with raises(ValueError, "no matrix"):
        Reduction.from_parts({"components": np.ones(3)})
    for wrong in ({"texts_": {0: 1}}, {"texts_": {"a": TextVectors.of([])}}, {"reduction_": 1}):
        with raises(ValueError, "none of its vectors"):
            Encoder.from_parts({"codes_": {}} | wrong)
    assert Encoder.from_parts({"codes_": {}}).texts_ == {}
