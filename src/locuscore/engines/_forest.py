"""Forest: each tree's leaf sample is one draw."""

from typing import Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.utils.validation import check_is_fitted

from locuscore._draws import StepDraws, smallest_scale
from locuscore._protocols import FloatArray
from locuscore._random import spawn_seeds


class Forest(BaseEstimator):
    """Leaf samples of a forest grown on the transformed loss."""

    def __init__(
        self,
        n_trees=100,
        *,
        min_samples_leaf=5,
        max_features=0.5,
        points=8,
        transform="rank",
        kind="rf",
        leaf="all",
        bootstrap=True,
        random_state=None,
        n_jobs=None,
    ):
        self.n_trees = n_trees
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.points = points
        self.transform = transform
        self.kind = kind
        self.leaf = leaf
        self.bootstrap = bootstrap
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        if self.transform == "rank":
            t = rankdata(z) / len(z)
        elif self.transform == "log":
            t = np.log(z + np.mean(z) * 0.1)
        elif self.transform == "sqrt":
            t = np.sqrt(np.abs(z))
        else:
            t = z
        cls = dict(rf=RandomForestRegressor, et=ExtraTreesRegressor)[self.kind]
        self.forest_ = cls(
            self.n_trees,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            bootstrap=self.bootstrap,
            random_state=spawn_seeds(self.random_state, 1)[0],
            n_jobs=self.n_jobs,
        ).fit(S, t)
        leaves = self.forest_.apply(S)
        self.tables_, self.index_ = [], []
        order = np.argsort(z, kind="stable")
        tables = []
        offset = 0
        n = len(z)
        for j, tree in enumerate(self.forest_.estimators_):
            ids = leaves[:, j]
            if self.leaf != "all" and self.bootstrap:
                inbag = np.zeros(n, bool)
                inbag[self.forest_.estimators_samples_[j]] = True
                keep = inbag if self.leaf == "in" else ~inbag
            else:
                keep = np.ones(n, bool)
            o = order[keep[order]]
            so = o[np.argsort(ids[o], kind="stable")]
            sid = ids[so]
            nodes, first, count = np.unique(sid, return_index=True, return_counts=True)
            pos = ((np.arange(self.points) + 0.5) / self.points * count[:, None]).astype(int)
            tables.append(z[so][first[:, None] + pos])
            lookup = np.zeros(tree.tree_.node_count, dtype=np.int64)
            lookup[nodes] = np.arange(len(nodes)) + offset
            offset += len(nodes)
            self.index_.append(lookup)
        self.table_ = np.vstack(tables)
        self.smallest_ = smallest_scale(z)
        return self

    def predict_draws(self, S: FloatArray) -> StepDraws:
        check_is_fitted(self)
        leaves = self.forest_.apply(S)
        rows = np.column_stack([look[leaves[:, j]] for j, look in enumerate(self.index_)])
        points = self.table_[rows]
        top = points.max(axis=(1, 2))
        scale = np.maximum(points.mean(axis=(1, 2)) - points.min(axis=(1, 2)), self.smallest_)
        return StepDraws(points, top, scale)
