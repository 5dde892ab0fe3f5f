"""The methods that are compared, cheap ones first: a name, a group, and how to score a task.

A "+" in a name means that the model sees g(x) and the spread of g's trees besides x, a "++" that it
also sees the second opinion of our default. "Locus 0.1.0" was our default before there was one; it
is not made any more, only compared with.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks import rivals
from benchmarks.paper import baselines, peers
from benchmarks.paper.protocol import ALPHA, Scores, Task, stopwatch
from locuscore import KNNGamma, Locus, Score, engines, prediction_column

Run = Callable[[Task], Scores]
FEW = 3  # seeds of the methods that take longest and stand in none of the paper's tables


class Shared:
    """An engine that is fitted once and serves several estimators; clones are itself.

    `saved` counts the seconds that others would have spent on it, so that each method is charged
    for its own fit and its own laws.
    """

    def __init__(self, engine: Any, keep_draws: bool) -> None:
        self.engine = engine
        self.keep_draws = keep_draws
        self.saved = 0.0
        self.fit_seconds: float | None = None
        self.draws: dict[bytes, tuple[Any, float]] = {}

    def __sklearn_clone__(self) -> "Shared":
        return self

    def fit(self, S: np.ndarray, z: np.ndarray) -> "Shared":
        if self.fit_seconds is not None:
            self.saved += self.fit_seconds
            return self
        start = time.process_time()
        self.engine.fit(S, z)
        self.fit_seconds = time.process_time() - start
        return self

    def predict_draws(self, S: np.ndarray) -> Any:
        if not self.keep_draws:
            return self.engine.predict_draws(S)
        key = hashlib.sha256(np.ascontiguousarray(S)).digest()
        if key in self.draws:
            draws, seconds = self.draws[key]
            self.saved += seconds
            return draws
        start = time.process_time()
        draws = self.engine.predict_draws(S)
        self.draws[key] = draws, time.process_time() - start
        return draws


def locus(
    task: Task,
    engine: Callable[[], Any],
    columns: str = "all",
    gamma: bool = False,
    shared: str | None = None,
    score: Callable[[float], Score] = Score.tail,
) -> Scores:
    """Score a task by a `Locus` on the given engine.

    Rows are ranked by the tail probability at tau, or by the paper's exceedance: the same order,
    but with few calibration rows the latter has few values and ties many rows.

    The rows hold x, g(x) and the spread of g's trees, computed once for all methods, and the
    predictor is their column g(x): the same bounds as from ``Locus(g)``, which a test verifies.
    """
    p = task.test.x.shape[1]
    model = engine()
    if shared is not None:
        if shared not in task.cache:
            seeded = model.set_params(random_state=task.seed)
            task.cache[shared] = Shared(seeded, keep_draws=shared == "BART")
        model = task.cache[shared]
    estimator = Locus(
        prediction_column(p),
        engine=model,
        signals={"all": "x", "opinion": ["x", "opinion"]}.get(columns, lambda rows: rows[:, :p]),
        gamma=KNNGamma() if gamma else None,
        calibration_size=task.d2_for(columns),
        random_state=task.seed,
    )
    times: dict[str, float] = {}
    before = getattr(model, "saved", 0.0)
    with stopwatch(times, "fit"):
        estimator.fit(task.calibration.all, task.calibration.y)
    between = getattr(model, "saved", 0.0)
    with stopwatch(times, "score"):
        test = estimator.loss_bound(task.test.all, ALPHA)
    after = getattr(model, "saved", 0.0)
    validation = estimator.loss_bound(task.validation.all, ALPHA)
    exceedance = tuple(
        np.column_stack([estimator.scores(part.all, score(tau)) for tau in task.taus])
        for part in (task.validation, task.test)
    )
    return Scores(
        (validation, test),
        exceedance,
        is_bound=True,
        n2=len(estimator.tails_),
        fit_seconds=times["fit"] + between - before,
        score_seconds=times["score"] + after - between,
        extra=_engine_facts(estimator),
    )


def _engine_facts(estimator: Locus) -> dict[str, Any]:
    """What a fitted engine says of itself: the winner of a selection, convergence of a sampler."""
    engine = getattr(estimator.engine_, "engine", estimator.engine_)
    facts: dict[str, Any] = {}
    if estimator.selection_ is not None:
        facts["winner"] = estimator.selection_.table[0]["name"]
    if hasattr(engine, "split_rhat_"):
        facts["split_rhat"] = float(engine.split_rhat_)
    return facts


def on_d1(run: Run) -> Run:
    """The same method, learning from the rows that our default's engine learns from."""
    return lambda task: run(replace(task, calibration=task.split("all")[0]))


@dataclass(frozen=True)
class Method:
    """How a method is named, run and grouped, and which packages it needs.

    `seconds` is its cost on 1,000 rows of D1 and `power` how it grows with them, both rough and
    measured once: only the first estimate of a run uses them.
    """

    name: str
    group: str
    run: Run
    seconds: float
    power: float = 0.85
    needs: tuple[str, ...] = ()
    datasets: tuple[str, ...] | None = None
    n_seeds: int | None = None

    @property
    def available(self) -> bool:
        return all(find_spec(package) for package in self.needs)

    def wants(self, dataset: str, seed: int) -> bool:
        """Whether this dataset and seed belong to the method; slow ones take few."""
        return (self.datasets is None or dataset in self.datasets) and (
            self.n_seeds is None or seed < self.n_seeds
        )


class ToldSpread(engines.Forest):
    """The library's own default engine, told that the last signal is the spread of g's trees.

    `Locus(g)` tells it so; here g is a column of the rows.
    """

    def fit(self, S: np.ndarray, z: np.ndarray, errors: Any = None) -> "ToldSpread":
        return super().fit(S, z, errors, spread=None if errors is not None else -1)


def _core_ensemble() -> Any:
    return engines.Ensemble(
        [engines.Forest(), engines.QuantileGrid(), engines.Scale()], weights="stacked"
    )


def _bart() -> Any:
    return engines.BART()  # loaded when first used, as MDN: both need an optional package


def _paper_bart() -> Any:
    return engines.BART(transform="identity")  # the paper's model: normal on the loss itself


def _mdn() -> Any:
    return engines.MDN()


def _bayesian_mdn() -> Any:
    return engines.BayesianMDN()


def _flow() -> Any:
    return engines.Flow()


def _variational_gp() -> Any:
    return engines.VariationalGP()


def _pymc_bart() -> Any:
    return engines.PyMCBART(n_samples=500, n_tune=500)


_ENGINES: dict[str, tuple[Callable[[], Any], float]] = {
    "Scale": (engines.Scale, 0.7),
    "Forest": (engines.Forest, 0.4),
    "Gaussian": (engines.Gaussian, 0.8),
    "QuantileGrid": (engines.QuantileGrid, 1.2),
    "Bagged Scale": (lambda: engines.Bagged(engines.Scale()), 12.0),
    "Ensemble": (_core_ensemble, 12.0),
}


def _paper(engine: Callable[[], Any], name: str, seconds: float, **options: Any) -> list[Method]:
    """One engine in the paper's setting: averaged, and gamma-inflated from the same fit."""
    return [
        Method(
            f"LOCUS {name}{' gamma' if gamma else ''}",
            run=partial(
                locus,
                engine=engine,
                columns="x",
                gamma=gamma,
                shared=name,
                score=Score.exceedance,
            ),
            seconds=seconds / 4 if gamma else seconds * 3 / 4,
            **options,
        )
        for gamma in (False, True)
    ]


BOOSTED_ON_X = "LightGBM mean loss", "x"  # sees g(x) as well, as NannyML's does
SEEN = (("", "x"), ("+", "all"), ("++", "opinion"))


def _shown(
    name: str, run: Callable[..., Scores], fit: Callable[..., Any], seconds: float, *needs: str
) -> list[Method]:
    """A rival with x alone, with what g says, and with our default's second opinion."""
    group = "peers" if needs else "baselines"
    return [
        Method(
            name + end,
            "opinion" if columns == "opinion" else group,
            partial(run, fit=fit, columns="x g" if (name, columns) == BOOSTED_ON_X else columns),
            seconds,
            needs=needs,
        )
        for end, columns in SEEN
    ]


def _registry() -> list[Method]:
    isolation = baselines.isolation_forest
    methods = [
        Method("spread of g", "baselines", baselines.spread, 0.01),
        Method("IFlag", "baselines", isolation, 0.2),
        Method("IFlag reversed", "baselines", partial(isolation, sign=-1.0), 0.2),
        Method("VARNet", "baselines", baselines.variance_network, 5.0, needs=("torch",)),
        *_shown(
            "LightGBM mean loss", peers.uncalibrated, rivals.lightgbm_mean_loss, 0.1, "lightgbm"
        ),
        *_shown("MAPIE CQR", peers.calibrated, rivals.mapie_quantiles, 0.4, "mapie"),
        *_shown("crepes Mondrian", peers.calibrated, rivals.crepes_mondrian, 0.4, "crepes"),
        *_shown(
            "quantile-forest", peers.uncalibrated, rivals.quantile_forest, 0.7, "quantile_forest"
        ),
        *_shown("forest mean loss", peers.uncalibrated, rivals.forest_mean_loss, 0.5),
        Method("Locus", "ours", partial(locus, engine=ToldSpread, columns="opinion"), 1.5),
        Method("Locus 0.1.0", "before", partial(locus, engine=engines.Forest), 0.4, datasets=()),
        Method("Locus auto", "ours", partial(locus, engine=lambda: "auto"), 36.0, 0.6, n_seeds=FEW),
        *_paper(_paper_bart, "BART", 10.0, group="paper", needs=("stochtree",)),
        *_paper(_mdn, "MDN", 6.0, group="paper", needs=("torch",)),
        *_paper(
            _pymc_bart,
            "PyMCBART",
            1500.0,
            group="slow",
            needs=("pymc_bart",),
            datasets=("airfoil", "concrete"),
            n_seeds=3,
        ),
    ]
    for end, columns in SEEN[:2]:
        for name, (engine, seconds) in _ENGINES.items():
            run = partial(locus, engine=engine, columns=columns)
            seeds = FEW if seconds > 10 else None
            methods.append(Method(name + end, "engines", run, seconds, n_seeds=seeds))
    uncalibrated = ("forest mean loss+", "LightGBM mean loss+", "quantile-forest+")
    methods += [
        Method(f"{m.name} on D1", "same rows", on_d1(m.run), m.seconds, needs=m.needs)
        for m in methods
        if m.name in uncalibrated
    ]
    more = partial(locus, engine=_bart, columns="all")
    methods.append(Method("BART+", "more", more, 10.0, needs=("stochtree",), n_seeds=FEW))
    more = partial(locus, engine=_mdn, columns="all")
    methods.append(Method("MDN+", "more", more, 5.0, needs=("torch",), n_seeds=FEW))
    for end, columns in SEEN[:2]:
        for name, engine, needs in (
            ("FlexCode", engines.FlexCode, ()),
            ("BayesianMDN", _bayesian_mdn, ("torch",)),
            ("Flow", _flow, ("zuko",)),
            ("VariationalGP", _variational_gp, ("gpytorch",)),
        ):
            more = partial(locus, engine=engine, columns=columns)
            methods.append(Method(name + end, "more", more, 6.0, needs=needs, n_seeds=FEW))
    return sorted(methods, key=lambda method: method.seconds)


METHODS = {method.name: method for method in _registry()}
GROUPS = sorted({method.group for method in METHODS.values()})
USUAL = [name for name, method in METHODS.items() if method.group != "slow"]


def chosen(words: list[str] | None) -> list[str]:
    """Names of the methods meant by names and groups; without any, all but the slow ones."""
    if not words:
        return USUAL
    unknown = [word for word in words if word not in METHODS and word not in GROUPS]
    if unknown:
        raise SystemExit(
            f"unknown methods {', '.join(unknown)}; groups are {', '.join(GROUPS)}, "
            f"methods are {', '.join(METHODS)}."
        )
    return [name for name, m in METHODS.items() if name in words or m.group in words]
