"""What others would rank by: g's probabilities, calibrated ones, packages, and direct models."""

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.classes.protocol import MOST_ITERATIONS, Part, Scores, Task, stopwatch

# Levels of the prediction sets: fine enough to rank by, and each has calibration rows enough.
CONFIDENCES = np.round(np.arange(0.02, 0.985, 0.02), 2)
SMALLEST_PROBABILITY = 1e-3  # forests give zeros, and a logarithm must stay finite
BOOSTING = {"max_iter": 100, "max_leaf_nodes": 15, "early_stopping": False}
Columns = tuple[np.ndarray, np.ndarray]  # of the labelled rows and of the test rows


def largest_probability(task: Task) -> Scores:
    """Also the order of scikit-fallback's threshold and rate rules."""
    return Scores(-task.test.p.max(axis=1))


def margin(task: Task) -> Scores:
    """Also the order of scikit-fallback's ambiguity threshold."""
    top = np.sort(task.test.p, axis=1)
    return Scores(top[:, -2] - top[:, -1])


def entropy(task: Task) -> Scores:
    return Scores(task.test.own[:, -1])


def expected_cost(task: Task) -> Scores:
    return Scores(task.expected(task.test.p))


def calibrated(task: Task, kind: str) -> Scores:
    """Expected loss of g's class under scikit-learn's calibrated probabilities."""
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        model = CalibratedClassifierCV(FrozenEstimator(task.g), method=kind)
        model.fit(task.labelled.x, task.labelled.y)
    with stopwatch(times, "score"):
        values = task.expected(model.predict_proba(task.test.x))
    return _timed(values, times)


def mapie_top_label(task: Task) -> Scores:
    """MAPIE: the largest probability calibrated for each predicted class by itself.

    It says nothing of the other classes, so with costs the row is worth the mean cost of them.
    """
    from mapie.calibration import TopLabelCalibrator  # noqa: PLC0415 - optional

    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        model = TopLabelCalibrator(task.g, calibrator="isotonic", cv="prefit")
        model.fit(task.labelled.x, task.labelled.y)
    with stopwatch(times, "score"):
        # Everything but the column of g's class is NaN.
        right = np.nanmax(model.predict_proba(task.test.x), axis=1)
        of_class = task.matrix.sum(axis=0) / (len(task.matrix) - 1)
        values = (1.0 - right) * of_class[task.test.said]
    return _timed(values, times)


def mapie_sets(task: Task, kind: str) -> Scores:
    """MAPIE: the dearest class in the prediction set, as a mean over levels of confidence.

    With a 0-1 loss that is the share of levels at which the set is not g's class alone. An empty
    set counts as one of all classes. For two classes MAPIE offers LAC alone.
    """
    from mapie.classification import SplitConformalClassifier  # noqa: PLC0415 - optional

    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        model = SplitConformalClassifier(
            task.g,
            confidence_level=CONFIDENCES.tolist(),
            conformity_score="lac" if len(task.matrix) == 2 else kind,
            prefit=True,
        )
        model.conformalize(task.labelled.x, task.labelled.y)
    with stopwatch(times, "score"):
        sets = model.predict_set(task.test.x)[1]  # (rows, classes, levels)
        sets = sets | ~sets.any(axis=1, keepdims=True)
        costs = task.matrix.T[task.test.said]  # of each true class, under g's
        values = (sets * costs[:, :, None]).max(axis=1).mean(axis=1)
    return _timed(values, times)


def fallback_anomaly(task: Task) -> Scores:
    """scikit-fallback: reject the outliers of g's training rows, by an isolation forest."""
    from skfb.estimators import AnomalyFallbackClassifier  # noqa: PLC0415 - optional

    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        detector = IsolationForest(random_state=task.seed).fit(task.train_x)
        rejector = AnomalyFallbackClassifier(task.g, detector)
    with stopwatch(times, "score"):
        # Its own answer is yes or no at one contamination; the detector's score has the order.
        values = -rejector.outlier_detector_.score_samples(task.test.x)
    return _timed(values, times)


def forest_loss(task: Task, columns: Columns | None = None) -> Scores:
    """Mean loss by a forest, as in the benchmark of the paper."""
    model = RandomForestRegressor(
        100, min_samples_leaf=5, max_features=0.5, n_jobs=1, random_state=task.seed
    )
    return _mean_loss(task, model, columns)


def boosted_loss(task: Task, columns: Columns | None = None) -> Scores:
    """Mean loss by boosting; an error is a class of its own, a cost is a number."""
    settings = {**BOOSTING, "learning_rate": 0.05, "random_state": task.seed}
    kind = HistGradientBoostingClassifier if task.loss == "0-1" else HistGradientBoostingRegressor
    return _mean_loss(task, kind(**settings), columns)


def boosted_classes(task: Task) -> Scores:
    """A second classifier, boosted on x and g's probabilities: expected loss of g's class."""
    model = HistGradientBoostingClassifier(**BOOSTING, learning_rate=0.1, random_state=task.seed)
    return _classes(task, model, [np.hstack([p.x, p.p]) for p in (task.labelled, task.test)])


def logistic_classes(task: Task) -> Scores:
    """The same by logistic regression on x and the logarithms of g's probabilities."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MOST_ITERATIONS))
    columns = [
        np.hstack([part.x, np.log(np.maximum(part.p, SMALLEST_PROBABILITY))])
        for part in (task.labelled, task.test)
    ]
    return _classes(task, model, columns)


def _classes(task: Task, model: Any, columns: list[np.ndarray]) -> Scores:
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        model.fit(columns[0], task.labelled.y)
    with stopwatch(times, "score"):
        p = np.zeros_like(task.test.p)
        p[:, model.classes_] = model.predict_proba(columns[1])
        values = task.expected(p)
    return _timed(values, times)


def _mean_loss(task: Task, model: Any, columns: Columns | None) -> Scores:
    labelled, test = columns or (_plus(task.labelled), _plus(task.test))
    z = task.labelled.z
    if len(np.unique(z)) < 2:
        model = DummyRegressor()  # a classifier refuses one class
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        model.fit(labelled, z)
    with stopwatch(times, "score"):
        if hasattr(model, "predict_proba"):
            values = model.predict_proba(test)[:, 1]
        else:
            values = model.predict(test)
    return _timed(np.asarray(values), times)


def _plus(part: Part) -> np.ndarray:
    return np.hstack([part.x, part.own])


def _timed(values: np.ndarray, times: dict[str, float]) -> Scores:
    return Scores(values, fit_seconds=times["fit"], score_seconds=times["score"])
