"""The methods that are compared: each bounds the losses of the test rows at every alpha.

Models of the loss see what our default sees: x, g(x) and the spread of g's trees. Methods that
need no model of it, or no calibration, use all labelled rows, as their users would.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from locuscore import Locus

ALPHAS = (0.1, 0.2)


@dataclass(frozen=True)
class Part:
    """Features, target, loss of g, and all that a model of the loss sees."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    signals: np.ndarray

    @classmethod
    def of(cls, g: RandomForestRegressor, x: np.ndarray, y: np.ndarray) -> "Part":
        trees = np.stack([tree.predict(x) for tree in g.estimators_])
        own = np.column_stack([g.predict(x), trees.std(axis=0)])
        return cls(x, y, np.abs(y - own[:, 0]), np.hstack([x, own]))


@dataclass(frozen=True)
class Problem:
    """One predictor, its labelled rows in random order, and test rows."""

    g: RandomForestRegressor
    labelled: Part
    test: Part
    seed: int


Bounds = list[np.ndarray]  # one array per alpha
Method = Callable[[Problem], Bounds]


def locus(problem: Problem) -> Bounds:
    """Our default."""
    model = Locus(problem.g, loss="absolute", random_state=problem.seed)
    model.fit(problem.labelled.x, problem.labelled.y)
    return list(model.loss_bound(problem.test.x, ALPHAS).T)


def constant_bound(problem: Problem) -> Bounds:
    """One number for all rows: the conformal quantile of all labelled losses."""
    z = np.sort(problem.labelled.z)
    # In whole percents, since (1 - alpha) * (n + 1) may be rounded up to the next rank.
    ranks = [-(-round(100 * (1 - alpha)) * (len(z) + 1) // 100) for alpha in ALPHAS]
    return [np.full(len(problem.test.z), z[rank - 1]) for rank in ranks]


def mapie_split(problem: Problem) -> Bounds:
    """MAPIE's split conformal interval around g; the bound is half of its width."""
    from mapie.regression import SplitConformalRegressor  # noqa: PLC0415 - optional

    levels = [1 - alpha for alpha in ALPHAS]
    peer = SplitConformalRegressor(problem.g, confidence_level=levels, prefit=True)
    peer.conformalize(problem.labelled.x, problem.labelled.y)
    ends = peer.predict_interval(problem.test.x)[1]
    return list((ends[:, 1] - ends[:, 0]).T / 2)


def mapie_quantiles(problem: Problem) -> Bounds:
    """MAPIE's conformalised quantile regression on the loss; half of the rows calibrate.

    It has no one-sided mode, so the level is 1 - 2 alpha and the upper end is kept.
    """
    from mapie.regression import ConformalizedQuantileRegressor  # noqa: PLC0415 - optional

    S, z = problem.labelled.signals, problem.labelled.z
    n1 = len(z) // 2
    bounds = []
    for alpha in ALPHAS:
        models = [
            HistGradientBoostingRegressor(
                loss="quantile",
                quantile=q,
                max_iter=100,
                learning_rate=0.05,
                max_leaf_nodes=15,
                random_state=problem.seed,
            ).fit(S[:n1], z[:n1])
            for q in (alpha, 1 - alpha, 0.5)
        ]
        peer = ConformalizedQuantileRegressor(models, confidence_level=1 - 2 * alpha, prefit=True)
        peer.conformalize(S[n1:], z[n1:])
        ends = peer.predict_interval(problem.test.signals, symmetric_correction=False)[1]
        bounds.append(ends[:, 1, 0])
    return bounds


def crepes_normalised(problem: Problem) -> Bounds:
    """The interval of crepes around g, normalised by the spread of g's trees; half of its width.

    The spread is known before any label, so all labelled rows calibrate. `beta` is the best of
    several: with its default, rows of small spread make the others' bounds enormous.
    """
    from crepes import WrapRegressor  # noqa: PLC0415 - optional
    from crepes.extras import DifficultyEstimator  # noqa: PLC0415 - optional

    labelled, test = problem.labelled, problem.test
    difficulty = DifficultyEstimator()
    difficulty.fit(X=labelled.x, learner=problem.g, scaler=True, beta=0.25)
    peer = WrapRegressor(problem.g)
    peer.calibrate(labelled.x, labelled.y, de=difficulty)
    ends = [peer.predict_int(test.x, confidence=1 - alpha) for alpha in ALPHAS]
    return [(end[:, 1] - end[:, 0]) / 2 for end in ends]


def quantile_forest(problem: Problem) -> Bounds:
    """quantile-forest on all labelled rows: no calibration, and no guarantee."""
    from quantile_forest import RandomForestQuantileRegressor  # noqa: PLC0415 - optional

    peer = RandomForestQuantileRegressor(
        100, min_samples_leaf=5, max_features=0.5, n_jobs=1, random_state=problem.seed
    ).fit(problem.labelled.signals, problem.labelled.z)
    levels = [1 - alpha for alpha in ALPHAS]
    return list(np.asarray(peer.predict(problem.test.signals, quantiles=levels)).T)


OURS, REFERENCE = "Locus", "constant bound"
METHODS: dict[str, Method] = {
    OURS: locus,
    REFERENCE: constant_bound,
    "MAPIE split": mapie_split,
    "MAPIE CQR": mapie_quantiles,
    "crepes normalised": crepes_normalised,
    "quantile-forest": quantile_forest,
}
