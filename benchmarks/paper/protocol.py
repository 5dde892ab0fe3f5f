"""The paper's protocol (Appendix A): one shuffled split, one g, and the measures of one method.

A `Task` holds what all methods share for one dataset and seed: the parts, g's predictions and the
spread of its trees, and the losses. A method turns it into `Scores`; `measure` turns these into
one flat record.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import load
from locuscore import (
    Locus,
    Score,
    match_acceptance,
    prediction_column,
    tau_rule,
    tune_alpha,
    tune_threshold,
)
from locuscore.engines import Forest, Scale
from locuscore.metrics import coverage, exceedance_area, exceedance_rates, pinball_loss

ALPHA = 0.1
ACCEPTANCE = 0.7
LARGE = 0.7  # tau is this quantile of the losses
ETA, LEAST_ACCEPTANCE = 0.1, 0.1  # for the rules that are tuned to an exceedance
N_TREES = 300
CURVE = np.round(np.arange(0.05, 0.96, 0.05), 2)  # acceptances at which curves are recorded
Record = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """Rows of one part: features, what g says (prediction and spread), target and loss.

    `opinion` has the columns of a second opinion, for methods that are shown them.
    """

    x: np.ndarray
    own: np.ndarray
    y: np.ndarray
    z: np.ndarray
    opinion: np.ndarray | None = None

    @property
    def all(self) -> np.ndarray:
        """Features, g(x) and the spread of g's trees, side by side."""
        return np.hstack([self.x, self.own])

    def take(self, rows: np.ndarray) -> "Part":
        return Part(self.x[rows], self.own[rows], self.y[rows], self.z[rows])


@dataclass(frozen=True)
class Task:
    """One dataset, one seed: everything that its methods share."""

    dataset: str
    seed: int
    train: Part
    calibration: Part
    d2: np.ndarray  # positions in the calibration part: the paper's half
    d2_ours: np.ndarray  # the share that the library takes by default, some of the same rows
    validation: Part
    test: Part
    g_seconds: float
    cache: dict[str, Any] = field(default_factory=dict)

    def d2_for(self, columns: str) -> np.ndarray:
        """Who sees what our default sees also has its split; x alone is the paper's setting."""
        return self.d2 if columns == "x" else self.d2_ours

    def split(self, columns: str) -> tuple[Part, Part]:
        """D1 and D2."""
        d2 = self.d2_for(columns)
        d1 = np.setdiff1d(np.arange(len(self.calibration.y)), d2)
        return self.calibration.take(d1), self.calibration.take(d2)

    def with_opinion(self) -> tuple[Part, Part, Part, Part]:
        """D1, D2, validation and test rows with our default's second opinion, learned on D1."""
        if "opinion" not in self.cache:
            p = self.test.x.shape[1]
            # The opinion does not depend on the engine, so a small one will do.
            locus = Locus(
                prediction_column(p),
                engine=Forest(n_trees=2, max_samples=50),
                signals=["x", "opinion"],
                calibration_size=self.d2_ours,
                random_state=self.seed,
            ).fit(self.calibration.all, self.calibration.y)
            d1, *others = *self.split("all"), self.validation, self.test
            shown = [locus.fit_signals_, *(locus.row_signals(part.all) for part in others)]
            width = d1.all.shape[1]
            self.cache["opinion"] = tuple(
                replace(part, opinion=S[:, width:])
                for part, S in zip((d1, *others), shown, strict=True)
            )
        parts: tuple[Part, Part, Part, Part] = self.cache["opinion"]
        return parts

    @property
    def taus(self) -> tuple[float, float]:
        """Tau from the test losses (the paper's appendix) and from the validation losses."""
        return float(np.quantile(self.test.z, LARGE)), float(np.quantile(self.validation.z, LARGE))


@dataclass(frozen=True)
class Scores:
    """What a method says of the validation and test rows; small is safe.

    `bound` is the number compared with lambda: a loss bound, or any score if `is_bound` is false.
    `exceedance` has one column per tau, for methods that estimate how likely a loss above it is.
    """

    bound: tuple[np.ndarray, np.ndarray]
    exceedance: tuple[np.ndarray, np.ndarray] | None = None
    is_bound: bool = False
    fit_seconds: float = float("nan")
    score_seconds: float = float("nan")
    n2: int | None = None  # calibration rows, where coverage follows from their number
    extra: Record = field(default_factory=dict)


@contextmanager
def stopwatch(times: dict[str, float], name: str) -> Iterator[None]:
    """Processor time of a block: with one thread, what it would take on an idle machine."""
    start = time.process_time()
    yield
    times[name] = time.process_time() - start


def prepare(name: str, seed: int, most_rows: int | None = None, n_trees: int = N_TREES) -> Task:
    """The task of one dataset and seed; fewer rows or trees make it a quick one for tests."""
    return make_task(name, seed, *load(name), most_rows, n_trees)


def split_rows(n: int, seed: int, most_rows: int | None = None) -> list[np.ndarray]:
    """Shuffled positions of the train, calibration, validation and test rows: 40/40/10/10."""
    rows = np.random.default_rng(seed).permutation(n)[:most_rows]
    return np.split(rows, [int(len(rows) * share) for share in (0.4, 0.8, 0.9)])


def make_task(
    name: str, seed: int, X: np.ndarray, y: np.ndarray, most_rows: int | None, n_trees: int
) -> Task:
    """Shuffle, split 40/40/10/10, standardise on the train part, fit g once."""
    train, calibration, validation, test = split_rows(len(y), seed, most_rows)
    X = StandardScaler().fit(X[train]).transform(X)
    y = (y - y[train].mean()) / y[train].std()
    times: dict[str, float] = {}
    with stopwatch(times, "g"):
        g = RandomForestRegressor(n_trees, random_state=seed, n_jobs=1).fit(X[train], y[train])
    # What the library itself would show an engine: x, g(x) and the spread of g's trees.
    few = calibration[:50]
    listener = Locus(g, engine=Scale(), random_state=0).fit(X[few], y[few])

    def part(rows: np.ndarray) -> Part:
        own = listener.row_signals(X[rows])[:, X.shape[1] :]
        return Part(X[rows], own, y[rows], np.abs(own[:, 0] - y[rows]))

    shuffled = np.random.default_rng((seed, 1)).permutation(len(calibration))
    d2 = np.sort(shuffled[len(shuffled) // 2 :])
    d2_ours = np.sort(shuffled[len(shuffled) - default_n2(len(shuffled)) :])
    parts = part(train), part(calibration), d2, d2_ours, part(validation), part(test)
    return Task(name, seed, *parts, g_seconds=times["g"])


def default_n2(n: int) -> int:
    """Calibration rows that `Locus` takes of n by default; a test compares."""
    size = max(min(n / 2, 100), min(n / 4, 500), n / 8)
    return 10 * round(size / 10) - 1 if size >= 20 else round(size)


def measure(task: Task, method: str, scores: Scores) -> Record:
    """One flat record; rates are shares, None where a method has no such number."""
    tau_test, tau_validation = task.taus
    record: Record = {
        "dataset": task.dataset,
        "seed": task.seed,
        "method": method,
        "n": sum(
            len(part.y) for part in (task.train, task.calibration, task.validation, task.test)
        ),
        "p": task.test.x.shape[1],
        "n_test": len(task.test.y),
        "n2": scores.n2,
        "alpha": ALPHA,
        "tau": tau_test,
        "tau_validation": tau_validation,
        "mean_loss": float(task.test.z.mean()),
        "fit_seconds": round(scores.fit_seconds, 4),
        "score_seconds": round(scores.score_seconds, 4),
        "g_seconds": round(task.g_seconds, 4),
    }
    record |= scores.extra
    if scores.is_bound:
        record |= _bound_measures(task, scores)
    for column, (suffix, tau) in enumerate([("", tau_test), ("_validation_tau", tau_validation)]):
        rules = _rule_measures(task, scores, tau, column)
        record |= {key + suffix: value for key, value in rules.items()}
    record["lambda_curve"] = _curve(scores.bound[1], task.test.z, tau_test)
    if scores.exceedance is not None:
        record["alpha_curve"] = _curve(scores.exceedance[1][:, 0], task.test.z, tau_test)
    return record


def _bound_measures(task: Task, scores: Scores) -> Record:
    bound, z = scores.bound[1], task.test.z
    rule = None if scores.n2 is None else tau_rule(1.0, ALPHA, n_calibration=scores.n2)
    return {
        "coverage": coverage(z, bound),
        "covered": int(np.sum(z <= bound)),
        "k": None if rule is None else int(rule.evidence["k"]),
        "pinball": pinball_loss(z, bound, ALPHA),
        "mean_bound": float(np.mean(bound)),
    }


def _rule_measures(task: Task, scores: Scores, tau: float, column: int) -> Record:
    """The paper's rules, each chosen on the validation part and judged on the test part."""
    z_validation, z = task.validation.z, task.test.z
    of = Score.bound(ALPHA) if scores.is_bound else Score.other("score")
    validation, test = scores.bound
    out = _judge("lambda", match_acceptance(validation, ACCEPTANCE, of=of), test, z, tau)
    out |= _ranking("lambda", test, z, tau)
    if scores.is_bound:
        out |= _judge("tau", tau_rule(tau, ALPHA), test, z, tau)
    tuned = tune_threshold(
        validation, z_validation, tau, ETA, of=of, min_acceptance=LEAST_ACCEPTANCE
    )
    out |= _judge("eta_lambda", tuned, test, z, tau)
    if scores.exceedance is None:
        return out
    validation, test = (values[:, column] for values in scores.exceedance)
    of = Score.exceedance(tau)
    out |= _judge("alpha", match_acceptance(validation, ACCEPTANCE, of=of), test, z, tau)
    out |= _ranking("alpha", test, z, tau)
    tuned = tune_alpha(validation, z_validation, tau, ETA, min_acceptance=LEAST_ACCEPTANCE)
    return out | _judge("eta_alpha", tuned, test, z, tau)


def _judge(name: str, rule: Any, values: np.ndarray, z: np.ndarray, tau: float) -> Record:
    """Acceptance of a rule, and the share of large losses among the accepted."""
    accepted = rule.accepts(values, rule.score)
    rate = exceedance_rates(z, accepted, tau).conditional
    return {
        f"{name}_acceptance": float(accepted.mean()),
        f"{name}_rate": None if np.isnan(rate) else rate,
    }


def _ranking(name: str, values: np.ndarray, z: np.ndarray, tau: float) -> Record:
    """How well a score ranks, with no threshold from elsewhere: at 70 % accepted, and overall."""
    return {
        f"{name}_tail70": tail_rates(values, z, tau, [ACCEPTANCE])[0],
        f"{name}_area": exceedance_area(values, z, tau),
    }


def _curve(values: np.ndarray, z: np.ndarray, tau: float) -> list[float]:
    return [round(rate, 5) for rate in tail_rates(values, z, tau, CURVE)]


def tail_rates(values: np.ndarray, z: np.ndarray, tau: float, acceptances: Any) -> list[float]:
    """Share of losses above tau among the rows with the smallest scores, ties in random order."""
    _, block = np.unique(values, return_inverse=True)
    accepted = np.append(0, np.cumsum(np.bincount(block)))
    large = np.append(0, np.cumsum(np.bincount(block, weights=z > tau)))
    kept = np.maximum(np.round(np.asarray(acceptances) * len(z)), 1)
    return [float(rate) for rate in np.interp(kept, accepted, large) / kept]
