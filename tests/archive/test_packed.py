"""Rows kept to know a predictor by come back as the predictor saw them, or are not kept."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression

from archives_for_tests import rows, small_scorer
from frames_for_tests import frame_of_all_kinds, to_arrow, to_polars
from locuscore import ArchiveError, Scorer
from locuscore._archive.container import read_manifest
from locuscore._archive.packed_rows import pack, unpack
from locuscore._inputs.cells import cells
from locuscore._inputs.probe import PROBE_ROWS
from locuscore._inputs.schema import Schema

pytestmark = pytest.mark.extra


def as_it_is(frame, _):
    return frame


def nullable(frame, _):
    return frame.convert_dtypes()


@pytest.mark.parametrize("kind", [as_it_is, nullable, to_polars, to_arrow])
def test_frames_come_back(kind):
    import pandas as pd

    frame = kind(frame_of_all_kinds(), None)
    back = unpack(pack(frame), Schema.of(frame))
    assert type(back) is type(frame)
    assert Schema.of(back) == Schema.of(frame)
    assert (cells(back, Schema.of(frame).types) == cells(frame, Schema.of(frame).types)).all()
    if kind in (as_it_is, nullable):
        pd.testing.assert_frame_equal(back, frame)


def test_arrays_and_sparse_rows_come_back(rng):
    X = rng.integers(0, 3, size=(20, 4)).astype(float)
    schema = Schema.of(X)
    for array in (X, X.astype(object), X.astype("datetime64[s]"), X.astype(str)):
        assert (unpack(pack(array), schema) == array).all()
    assert (unpack(pack(sparse.csr_matrix(X)), schema) != sparse.csr_matrix(X)).nnz == 0


def test_a_wild_position_in_sparse_rows_is_refused(rng):
    X = sparse.csr_matrix(rng.uniform(size=(3, 4)))
    packed = pack(X)
    packed["at"] = packed["at"] + 10
    with pytest.raises(ValueError, match="exceeds"):
        unpack(packed, Schema.of(X))


@pytest.mark.parametrize("unit", ["us], S300000000, M8[us", "generic", "Y"])
def test_times_in_an_unknown_unit_are_refused(unit):
    """In the name of a numpy type, a unit could bring other types of any size with it."""
    frame = frame_of_all_kinds()[["time"]]
    packed = pack(frame)
    packed["columns"][0]["unit"] = unit
    with pytest.raises(ValueError, match="unknown unit"):
        unpack(packed, Schema.of(frame))


@pytest.mark.parametrize("shape", [[10**12, 4], [3, 10**12], [3], [-3, 4], [0, 4]])
def test_a_shape_that_would_take_all_memory_is_refused(rng, shape):
    X = sparse.csr_matrix(rng.uniform(size=(3, 4)))
    with pytest.raises(ValueError, match="shape"):
        unpack(pack(X) | {"shape": shape}, Schema.of(X))


class ByType:
    """A predictor that looks at what it is given: the wrong kind of rows gives wrong answers."""

    def predict(self, X):
        kinds = [
            str(kind) for kind in getattr(X, "dtypes", [X.dtype if hasattr(X, "dtype") else 0])
        ]
        return np.full(len(X), float(sum(map(len, kinds))))


@pytest.mark.parametrize("kind", [as_it_is, to_polars])
def test_a_predictor_is_asked_about_the_kind_of_rows_that_fit_has_seen(kind, tmp_path):
    frame = frame_of_all_kinds().drop(columns=["number", "time"])
    frame = kind(frame.loc[frame.index.repeat(20)].reset_index(drop=True), None)
    scorer = small_scorer(ByType(), frame, np.arange(80.0))
    with pytest.warns(Warning, match="left out"):
        scorer.save(tmp_path / "x.locus")
    assert read_manifest(tmp_path / "x.locus")["kept_rows"]["probe_rows"] == PROBE_ROWS
    Scorer.load(tmp_path / "x.locus", predictor=ByType())
    with pytest.raises(ArchiveError, match="not the one of fit"):
        Scorer.load(tmp_path / "x.locus", predictor=lambda X: np.zeros(len(X)))


def test_rows_without_a_safe_form_are_not_kept(tmp_path):
    import pandas as pd

    X, y = rows()
    frame = pd.DataFrame({"a": X[:, 0], "b": [frozenset([v]) for v in X[:, 1]]})
    scorer = small_scorer(lambda X: X["a"], frame, y, signals=lambda X: X[["a"]])
    with pytest.warns(Warning, match="left out"):
        scorer.save(tmp_path / "x.locus")
    kept = read_manifest(tmp_path / "x.locus")["kept_rows"]
    assert kept["digests"] == len(X)
    assert kept["probe_rows"] == 0
    assert "not checkable" in kept["note"]


def test_a_classifier_of_several_outputs_of_text_is_known_again(tmp_path):
    from sklearn.multioutput import MultiOutputClassifier

    X, y = rows()
    labels = np.column_stack([np.where(y > 0.5, "a", "b"), np.where(X[:, 1] > 0.5, "c", "d")])
    g = MultiOutputClassifier(LogisticRegression()).fit(X, labels)

    def wrong(y, g):
        return np.mean(y != g, axis=1)

    scorer = small_scorer(g, X, labels, loss=wrong)
    assert len(scorer.locus.probe_.answers) == 3
    with pytest.warns(Warning, match="not trusted"):
        scorer.save(tmp_path / "x.locus")
    Scorer.load(tmp_path / "x.locus", predictor=g, loss=wrong)
    other = MultiOutputClassifier(LogisticRegression(C=0.01)).fit(X, labels)
    with pytest.raises(ArchiveError, match="not the one of fit"):
        Scorer.load(tmp_path / "x.locus", predictor=other, loss=wrong)


def test_sparse_rows_are_kept(tmp_path):
    X, y = rows()
    thin = sparse.csr_matrix(np.where(X > 0.5, X, 0))
    small_scorer(LinearRegression().fit(thin, y), thin, y).save(tmp_path / "x.locus")
    assert Scorer.load(tmp_path / "x.locus").locus.probe_.rows.shape == (PROBE_ROWS, 3)
