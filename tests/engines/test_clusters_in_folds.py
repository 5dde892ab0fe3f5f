"""Engines that leave rows out inside D1 leave out whole clusters, if fit knows them."""

from unittest import mock

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.linear_model import LinearRegression

from locuscore import Locus
from locuscore.engines import Auto, Ensemble, Gaussian, Scale

ONE, OTHER = Scale(LinearRegression()), Gaussian(LinearRegression(), LinearRegression())
ENGINES = [ONE, OTHER, Ensemble([ONE, OTHER], weights="stacked"), Auto([ONE, OTHER], max_rows=90)]


def clustered(n_clusters=40, size=5):
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(n_clusters), size)
    X = rng.uniform(size=(len(label), 2))
    return X, rng.normal(size=len(label)) * np.repeat(rng.gamma(2, size=n_clusters), size), label


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__)
def test_no_fold_learns_from_a_cluster_that_it_leaves_out(engine):
    X, y, label = clustered()
    seen = []

    def watched(splitter, rows, y=None, groups=None):
        for kept, out in split(splitter, rows, y, groups):
            seen.append(groups is not None and not set(groups[kept]) & set(groups[out]))
            yield kept, out

    split = model_selection.GroupKFold.split
    with (
        mock.patch.object(model_selection.GroupKFold, "split", watched),
        mock.patch.object(model_selection, "KFold", side_effect=AssertionError("rows one by one")),
    ):
        Locus(lambda X: 0 * X[:, 0], engine=engine, signals=["x"], random_state=0).fit(
            X, y, clusters=label
        )
    assert seen
    assert all(seen)
