"""Forest: the leaf samples of a few trees are one draw."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils.validation import check_is_fitted

from locuscore._laws.class_law import ClassLaw
from locuscore._laws.signed_errors import ErrorLoss, SignedErrors
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import check_count
from locuscore._shared.flat_trees import forget, once
from locuscore._shared.kept import Kept
from locuscore._shared.machine_code import machine_code
from locuscore._shared.seeds import spawn_seeds
from locuscore.draws import Draws, StepDraws, WeightedDraws, smallest_scale
from locuscore.draws._lazy import LazyDraws
from locuscore.engines._forest_leaves import (
    FEW_ROWS,
    FlatForest,
    as_float32,
    leaves_of,
    ordered_leaves,
)
from locuscore.engines._row_unit import RowUnit
from locuscore.engines._shared_shape import SharedShape, out_of_bag, share_of_few_rows

MOST_ROWS_PER_TREE = 100_000  # bounds the time of the comparison on large samples
# What a fitted `Locus` should take, unless rows per tree are given: its rows, then all trees.
MOST_BYTES, LEAST_FOR_TREES = 150 * 2**20, 60 * 2**20
SIGNAL_BYTES = 50  # kept of each signal of a row of D1, and of the row beside it in D2
NODE_BYTES = 64 + 2 * 8 + 4  # of scikit-learn, its means of two targets, and its row of the table
ROWS_PER_TREE = (0.8, 0.9, 1.0)  # powers of n to choose from
N_FIRST_TREES = 25  # of each choice, to compare them by
FEWEST_LAZY = 64  # rows; fewer have their laws at once
LAWS_AT_A_TIME = 256  # rows whose points stay in the cache until they are sorted
N_DRAWS = 10  # chosen on validation rows, see benchmarks/choices/gamma.py


@dataclass(eq=False, repr=False)
class Forest(BaseEstimator):
    """Leaf samples of a random forest grown on the losses and their ranks; several trees per draw.

    Each leaf keeps `n_points` order statistics of the losses of all rows of D1 that fall into it.
    So every draw is a step distribution with equal weights, and the average over draws does not
    depend on how the trees are divided among the draws. Beyond a row's largest point the
    distribution falls off like a power with the row's own scale. Trees are grown on two targets of
    equal variance: the ranks of the losses, so that outliers do not decide every split, and the
    losses themselves, so that heavy tails are told apart. Missing values are accepted.

    A leaf of few rows knows little of the shape of its losses. Some of a row's points are therefore
    those of one shape, of all rows of D1, times the mean loss that the trees expect of the row: a
    share of ``100 / (100 + n)``, so half of them with 100 rows in D1, and none from 1,500 on. Where
    `fit` is told which signal is the spread of the predictor's members, losses are measured in that
    spread to the same power, so with few rows they grow with it. Where `fit` is told what a second
    opinion on the class says of the loss, that law is mixed in with the same share.

    Where `fit` is given the signed errors of a numeric prediction, each leaf also keeps order
    statistics of what the second opinion did not expect of them. A new row adds what it expects
    itself, and the loss of the sum is a further point of its distribution: half of the points are
    losses seen in the leaf, half are made in this way. They are sharper where the predictor is
    biased.

    A draw pools the points of consecutive trees. With one tree per draw, a distribution of 8 points
    has only 9 values of survival, so the calibration tails of a gamma-envelope tie. Coverage is
    then .93 to .998 for a target of .90: valid, but bounds are up to twice as wide as necessary.
    Ten draws of ten trees have the right coverage, with less caution far from D1 (docs/choosing.md
    has the figures).

    Parameters
    ----------
    n_trees
        Number of trees.
    min_samples_leaf
        Smallest leaf, counted in the rows that a tree is grown on; all rows of D1 fill the leaves.
    max_features
        Share of the signals tried at each split.
    n_points
        Order statistics kept per leaf.
    max_samples
        Rows that each tree is grown on, a whole number. None for the best of ``n ** 0.8``,
        ``n ** 0.9`` and n by out-of-bag error, at most 100,000, and no more than keep a fitted
        `Locus` within about 150 MB. Fewer rows make larger leaves, which suit noisy losses; more
        rows follow a loss that changes quickly from row to row.
    n_draws
        Number of draws, for `gamma`; it must divide `n_trees`. None for the divisor nearest to 10.
        It has no effect without gamma.
    n_jobs
        Threads for growing the trees, and for the laws of blocks of rows.
    random_state
        Seed of the forest.
    """

    ARCHIVE = Kept(
        "Forest",
        fields=("forest_", "table_row_", "error_loss_", "shape_", "unit_", "class_law_"),
        numbers=("table_", "error_table_"),
        single=("smallest_", "n_draws_", "error_column_"),
        later=(
            *("n_draws_", "error_table_", "error_loss_", "error_column_"),
            *("shape_", "unit_", "class_law_"),
        ),
        holds=(ClassLaw, ErrorLoss, SharedShape, RowUnit),
    )

    n_trees: int = 100
    _: KW_ONLY
    min_samples_leaf: int = 3
    max_features: float = 0.5
    n_points: int = 8
    max_samples: int | None = None
    n_draws: int | None = None
    n_jobs: int | None = None
    random_state: Any = None

    def fit(
        self,
        S: FloatArray,
        z: FloatArray,
        errors: SignedErrors | None = None,
        spread: int | None = None,
        class_law: ClassLaw | None = None,
    ) -> Self:
        """Grow the trees, then fill their leaves with the losses.

        `errors` are the signed errors behind the losses, `spread` is the signal that tells how far
        the predictor's members disagree, and `class_law` is what a second opinion on the class says
        of the loss; all are optional.
        """
        if self.n_points < 1:
            raise ValueError(f"n_points must be at least 1; got {self.n_points}.")
        forget(self)
        self.n_draws_ = self._count_draws()
        self.unit_ = None
        if errors is None and spread is not None:  # expected errors say more than their size
            self.unit_ = RowUnit.learned(S, z, spread)
            z = z if self.unit_ is None else z / self.unit_(S)
        self.forest_ = self._grown(S, z)
        # All rows fill the leaves, also those that a tree was not grown on.
        leaves = self._leaves(S)
        # One table holds the points of all trees, so that predicting is one lookup.
        self.table_row_ = []  # per tree: node number -> row of the table
        first_row = 0
        for tree, leaf in zip(self.forest_.estimators_, leaves.T, strict=True):
            nodes = np.unique(leaf)
            row = np.zeros(tree.tree_.node_count, dtype=np.int32)
            row[nodes] = first_row + np.arange(len(nodes))
            self.table_row_.append(row)
            first_row += len(nodes)
        self.shape_ = SharedShape.learned(self.forest_, S, leaves, z, self.n_points)
        n_points = self.n_points - (0 if self.shape_ is None else self.shape_.per_tree)
        if errors is not None:
            n_points = -(-n_points // 2)
        self.table_ = _leaf_points(leaves, z, n_points)
        self.smallest_ = smallest_scale(z)
        self.error_table_ = self.error_loss_ = self.error_column_ = None
        if errors is not None:
            self.error_table_ = _leaf_points(leaves, errors.unexpected(S), n_points)
            self.error_loss_, self.error_column_ = errors.loss, errors.column
        share = share_of_few_rows(len(z))
        self.class_law_ = None if class_law is None else class_law.weighted(share)
        return self

    def predict_draws(self, S: FloatArray) -> Draws:
        """Return the leaf samples each row falls into; of many rows, when they are asked for."""
        if not hasattr(self, "table_"):
            check_is_fitted(self)
        if len(self.forest_.estimators_) != self.n_trees:  # in an archive, which may hold anything
            raise ValueError("Forest has other trees than it claims.")
        if len(self.table_) < self.n_trees:  # a row would take more memory than the table
            raise ValueError("Forest has fewer leaves than trees.")
        # An archive written before trees were pooled has one per draw.
        n_draws = getattr(self, "n_draws_", self.n_trees)
        places, order = self._places(S)

        def laws(rows: IntArray | slice) -> StepDraws | WeightedDraws:
            return self.laws(self._points(S[rows], places[rows], n_draws), S[rows])

        if len(S) < FEWEST_LAZY:
            return laws(slice(None))
        # All points at once would take eight times the memory of the leaves, and leave the cache.
        floats = self.n_trees // 2 + S.shape[1]
        return LazyDraws(laws, order, n_draws, LAWS_AT_A_TIME, floats, self.n_jobs)

    def laws(self, points: FloatArray, S: FloatArray) -> StepDraws | WeightedDraws:
        """Return the laws of rows, given the points of their draws, (n, draws, points)."""
        flat = points.reshape(len(points), -1)
        top = flat.max(axis=1)
        scale = np.maximum(flat.mean(axis=1) - flat.min(axis=1), self.smallest_)
        unit = getattr(self, "unit_", None)
        if unit is not None:
            if not isinstance(unit, RowUnit):
                raise ValueError("Forest measures losses in an unknown unit.")
            size = unit(S)
            points, top, scale = points * size[:, None, None], top * size, scale * size
        draws = StepDraws(points, top, scale)
        class_law = getattr(self, "class_law_", None)
        if class_law is None:
            return draws
        if not isinstance(class_law, ClassLaw):
            raise ValueError("Forest has an unknown law of classes.")
        return class_law.mixed_with(draws, S)

    def _places(self, S: FloatArray) -> tuple[IntArray, IntArray]:
        """The leaf of each row in each tree, as a row of the tables, and an order of the rows."""
        flat, are_few = None, len(S) <= FEW_ROWS
        if are_few or machine_code(len(S)) is not None:
            flat = once(self, lambda: FlatForest.of(self.forest_, self.table_row_))
        if are_few and flat is not None and S.shape[1] == self.forest_.n_features_in_:
            return flat.leaves(S), np.arange(len(S))
        return ordered_leaves(self.forest_, S, self.n_jobs, self.table_row_, flat)

    def _points(self, S: FloatArray, places: IntArray, n_draws: int) -> FloatArray:
        """Points of each row and draw, given rows of the tables, (n, draws, points)."""
        shape = (len(S), n_draws, -1)
        points = [self.table_.take(places, axis=0).reshape(shape)]
        errors, loss = (getattr(self, name, None) for name in ("error_table_", "error_loss_"))
        if errors is not None:
            # Of an archive: any other shape or kind would multiply the memory that a row takes.
            column, width = self.error_column_, S.shape[1]
            has_place = type(column) is int and -width <= column < width
            fits = has_place and np.shape(errors) == self.table_.shape
            if not fits or not isinstance(loss, ErrorLoss):
                raise ValueError("Forest expects errors in other leaves than it has.")
            found = errors.take(places, axis=0).reshape(shape)
            found += S[:, column, None, None]
            points.append(loss(found))
        shared = getattr(self, "shape_", None)
        if shared is not None:
            if not isinstance(shared, SharedShape) or len(shared.means) != len(self.table_):
                raise ValueError("Forest has a shape of other leaves than it has.")
            points.append(shared.points(places).reshape(shape))
        return points[0] if len(points) == 1 else np.concatenate(points, axis=2)

    def _count_draws(self) -> int:
        if self.n_draws is None:
            even = [d for d in range(1, self.n_trees + 1) if self.n_trees % d == 0]
            return min(even[1:] or even, key=lambda d: abs(d - N_DRAWS))  # several, if possible
        if check_count(self.n_draws, "n_draws") > self.n_trees or self.n_trees % self.n_draws:
            raise ValueError(
                f"n_draws must divide n_trees, so that draws have equally many trees; got "
                f"n_draws={self.n_draws} and n_trees={self.n_trees}."
            )
        return self.n_draws

    def _grown(self, S: FloatArray, z: FloatArray) -> RandomForestRegressor:
        """Grow the trees; without `max_samples`, the first trees of each choice decide."""
        n, ranks = len(z), rankdata(z) / len(z)
        targets = np.column_stack([ranks, _with_variance_of(ranks, z)])
        seed = spawn_seeds(self.random_state, 1)[0]
        if self.max_samples is None:
            powers = {round(n**power) for power in ROWS_PER_TREE}
            choices = sorted({min(n_rows, MOST_ROWS_PER_TREE) for n_rows in powers})
        else:
            choices = [min(check_count(self.max_samples, "max_samples"), n)]
        # The same seed for all, so that they differ by their rows alone.
        forests = [self._bare(n_rows, seed) for n_rows in choices]
        if self.max_samples is not None or choices == [n]:
            return forests[0].fit(S, targets)
        rows, n_first = as_float32(S), min(N_FIRST_TREES, self.n_trees)
        for forest in forests:
            # A warm start keeps these trees when the best forest grows the rest of its own.
            forest.set_params(n_estimators=n_first, warm_start=True).fit(S, targets)
        errors = [_out_of_bag_error(forest, rows, ranks, self.n_trees) for forest in forests]
        number = int(np.argmin(np.round(errors, 12)))  # the cheapest of equals
        best, sizes = forests[number], [self._bytes(forest) for forest in forests]
        most = max(MOST_BYTES - SIGNAL_BYTES * S.size, LEAST_FOR_TREES)
        if sizes[number] > most:
            return self._bare(_rows_within(most, sizes, choices), seed).fit(S, targets)
        if self.n_trees > n_first:
            best.set_params(n_estimators=self.n_trees).fit(S, targets)
        return best.set_params(warm_start=False)

    def _bare(self, n_rows: int, seed: int) -> RandomForestRegressor:
        """A forest to be grown, with so many rows per tree."""
        return RandomForestRegressor(
            self.n_trees,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            max_samples=n_rows,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    def _bytes(self, first: RandomForestRegressor) -> float:
        """What all trees and their points will take, judged by the first of them."""
        nodes = np.mean([tree.tree_.node_count for tree in first.estimators_])
        return float(self.n_trees * nodes * (NODE_BYTES + 8 * self.n_points / 2))

    def _leaves(self, S: FloatArray) -> IntArray:
        """Return the leaf each row reaches in each tree, shape (n, trees)."""
        return leaves_of(self.forest_, S, self.n_jobs)


def _with_variance_of(ranks: FloatArray, z: FloatArray) -> FloatArray:
    """Losses on the scale of their ranks; equal losses have none."""
    unit = float(np.max(np.abs(z))) or 1.0  # squares of very large losses would overflow
    spread = float(np.std(z / unit))
    return z / unit * (np.std(ranks) / spread) if spread else np.zeros_like(z)


def _rows_within(most: float, sizes: list[float], choices: list[int]) -> int:
    """Rows per tree whose forest takes so many bytes, given what that of each choice takes."""
    if most < sizes[0]:
        return max(1, int(choices[0] * most / sizes[0]))
    return int(np.exp(np.interp(np.log(most), np.log(sizes), np.log(choices))))


def _out_of_bag_error(
    forest: RandomForestRegressor, rows: Any, ranks: FloatArray, n_trees: int
) -> float:
    """Mean squared error that `n_trees` such trees would make on new rows.

    The error of a mean of k trees with variance v is v / k above that of infinitely many.
    """
    n, mean, spread = out_of_bag(forest, rows, ranks)
    several = n >= 2  # one prediction has no variance
    if not several.any():
        return np.inf
    n, mean, spread = n[several], mean[several], spread[several]
    variance = spread / (n - 1)
    return float(np.mean((ranks[several] - mean) ** 2 + variance * (1 / n_trees - 1 / n)))


def leaf_middles(n_points: int) -> FloatArray:
    """Middles of `n_points` equal parts: each point stands for the same share of a leaf."""
    return (np.arange(n_points) + 0.5) / n_points


def _leaf_points(leaves: IntArray, values: FloatArray, n_points: int) -> FloatArray:
    """Evenly spaced order statistics of the values in each occupied leaf, tree by tree."""
    # Sorted once: a stable sort by leaf then leaves the values of each leaf in order.
    ascending = np.argsort(values, kind="stable")
    middle = leaf_middles(n_points)
    tables = []
    for leaf in leaves[ascending].T:
        by_leaf = np.argsort(leaf, kind="stable")
        _, first, count = np.unique(leaf[by_leaf], return_index=True, return_counts=True)
        position = first[:, None] + (middle * count[:, None]).astype(np.int64)
        tables.append(values[ascending][by_leaf][position])
    return np.vstack(tables)
