"""The cases of `same_scores`: fits, rules and kept archives, each a function without arguments."""

import datetime
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skpro.regression.residual import ResidualDouble

import locuscore as lc
from benchmarks.costs.same_scores_rules import ALPHAS, CASES
from locuscore import Locus, Score, Scorer, engines, metrics
from locuscore.engines import Auto, Bagged, Ensemble, Forest, Gaussian, QuantileGrid, Scale
from locuscore.report import report

N_SCORED = 12  # rows whose scores are kept
# What 0.1.0 meant by "all"; its signals had no second opinion.
BEFORE: Any = "all" if lc.__version__ == "0.1.0" else ["x", "predictor"]
ROOT = next(p for p in Path(__file__).resolve().parents if (p / "tests" / "archives").is_dir())
Case = Callable[[], Any]


def columns_of(scorer: Scorer, batch: Any) -> dict[str, np.ndarray]:
    found = scorer(batch)
    return {name: np.asarray(found[name]) for name in scorer.column_names}


def own_functions(locus: Locus) -> dict[str, Any]:
    """What `Scorer.load` must be given, since no archive holds functions."""
    kinds = {name: getattr(locus, name) for name in ("predictor", "loss", "signals")}
    return {name: value for name, value in kinds.items() if is_own(value)}


def is_own(value: Any) -> bool:
    if isinstance(value, list):
        return any(is_own(part) for part in value)
    return callable(value) and getattr(value, "__module__", None) == __name__


def reloaded(scorer: Scorer) -> Scorer:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.locus"
        scorer.save(path)
        return Scorer.load(path, **own_functions(scorer.locus))


def evaluate(locus: Locus, X: Any, y: Any, fresh: tuple[Any, Any], saved: bool = True) -> Any:
    """Everything a fitted `Locus` says about a few rows, with rules from many fresh ones."""
    losses = np.asarray(locus.losses(*fresh))
    taus = [float(q) for q in np.quantile(losses, [0.3, 0.6, 0.9])]
    tau, eta = taus[1], 0.7 * float(np.mean(losses > taus[1])) + 0.02
    rules = {
        "tau rule": locus.tau_rule(tau, 0.1),
        "certify": locus.certify(tau, eta, 0.1),
        "certify fresh": locus.certify(tau, eta, 0.1, *fresh),
        "certify bound": locus.certify(tau, eta, 0.1, *fresh, of=Score.bound(0.2)),
        "certify exceedance": locus.certify(tau, eta, 0.1, *fresh, of=Score.exceedance(tau)),
        "certify reference": locus.certify(tau, eta, 0.1, reference=fresh[0]),
    }
    law = locus.loss_dist(X)
    out = {
        "bound": locus.loss_bound(X, ALPHAS),
        "one bound": locus.loss_bound(X, 0.1),
        "exceedance": locus.exceedance(X, taus),
        "probability": locus.probability(X, taus),
        "losses": locus.losses(X, y),
        "predict": locus.predict(X),
        "tail": locus.scores(X, Score.tail(tau)),
        "sf": law.sf(np.array([taus])),
        "cdf": law.cdf(taus[0]),
        "isf": law.isf(np.array([[0.001, 0.05, 0.3, 0.7, 0.999]])),
        "route": locus.route_by_cost(X, tau, 1.0, 3.0, X_val=fresh[0], y_val=fresh[1]),
    }
    out = {name: value if name == "route" else np.asarray(value) for name, value in out.items()}
    for name, rule in rules.items():
        scorer = Scorer(locus, rule, alphas=(0.5, 0.1))
        out[name] = rule
        out[f"{name} accepts"] = np.asarray(locus.accepts(X, rule))
        out[f"{name} scorer"] = columns_of(scorer, X)
    plain = Scorer(locus, alphas=ALPHAS)
    tolerated, is_bad = plain.tolerate(X)
    out |= {"plain": columns_of(plain, X), "plain card": plain.card, "bad": is_bad}
    out["roles"] = [f"{column.name}: {column.role}" for column in scorer.columns]
    out["tolerated"] = {name: np.asarray(tolerated[name]) for name in plain.column_names}
    if saved:
        again = reloaded(scorer)
        out |= {"reloaded": columns_of(again, X), "reloaded rule": again.rule}
        out["reloaded bound"] = np.asarray(again.locus.loss_bound(X, ALPHAS))
    return out


# --- rows ---


def simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    return X, 2 * X[:, 0] + np.sin(5 * X[:, 1]) + (0.1 + X[:, 2]) * rng.normal(size=n)


def labels(y: np.ndarray) -> np.ndarray:
    return np.digitize(y, [0.7, 1.7])


def names(y: np.ndarray) -> np.ndarray:
    return np.array(["low", "middle", "high"])[labels(y)]


def table(X: np.ndarray) -> dict[str, Any]:
    """Numbers, whole numbers, text, truth and dates, some of them missing."""
    n = len(X)
    day = np.datetime64("2024-01-31T10:30", "ns")
    days = day + (X[:, 2] * 1e7).astype(np.int64).astype("timedelta64[s]")
    return {
        "a": X[:, 0],
        "b": np.where(np.arange(n) % 7 == 3, np.nan, X[:, 1]),
        "count": (100 * X[:, 2]).astype(np.int64),
        "colour": [None if i % 11 == 5 else ["red", "green", "blue"][i % 3] for i in range(n)],
        "big": X[:, 3] > 0.5,
        "day": days,
        "quoted": 2 * X[:, 0] + 0.3,
    }


def pandas_rows(X: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(table(X), index=np.arange(len(X)) + 100)
    frame["colour"] = frame["colour"].astype("category")
    frame["text"] = np.where(X[:, 0] > 0.4, "yes", "no")
    frame["zoned"] = frame["day"].dt.tz_localize("Europe/Lisbon")
    frame.loc[frame.index[::9], "day"] = pd.NaT
    frame["nullable"] = pd.array(frame["count"], dtype="Int64")
    frame.loc[frame.index[::5], "nullable"] = pd.NA
    return frame


def polars_rows(X: np.ndarray) -> pl.DataFrame:
    zoned = pl.col("day").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    return pl.DataFrame(table(X)).with_columns(
        zoned.alias("zoned"), pl.col("colour").cast(pl.Categorical)
    )


def arrow_rows(X: np.ndarray) -> pa.Table:
    columns = table(X)
    columns["colour"] = pa.array(columns["colour"]).dictionary_encode()
    return pa.table(columns)


# --- predictors, losses and signals of one's own ---


def first_column(X: Any) -> np.ndarray:
    return 2 * np.asarray(X)[:, 0] + 0.3


def of_the_frame(X: Any) -> np.ndarray:
    return 2 * np.asarray(X["a"]) + 0.3


def text_of(X: Any) -> np.ndarray:
    return np.where(np.asarray(X)[:, 0] > 0.5, "high", "low")


def largest_error(y: Any, g: Any) -> np.ndarray:
    return np.abs(np.asarray(y) - np.asarray(g)).max(axis=1)


def signed(y: Any, g: Any) -> np.ndarray:
    return np.asarray(y) - np.asarray(g)


def capped(y: Any, g: Any) -> np.ndarray:
    return np.minimum(np.abs(signed(y, g)), 1.5)


def rounded(y: Any, g: Any) -> np.ndarray:
    return np.minimum(np.round(np.abs(signed(y, g))), 3.0)


def doubled(column: Callable[[Any], np.ndarray]) -> Any:
    """Signals of 0.1.0 for predictions that are a column of x: they stood there twice."""

    def again(X: Any) -> np.ndarray:
        return np.asarray(column(X), dtype=np.float64)[:, None]

    return "all" if BEFORE == "all" else ["x", again]


def two_signals(X: Any) -> np.ndarray:
    return np.column_stack([np.asarray(X)[:, 2], np.asarray(X)[:, :2].sum(axis=1)])


# --- the cases ---


def before(predictor: Any, **settings: Any) -> Locus:
    """A small fit, with the signals that 0.1.0 had by default."""
    small = {"engine": Forest(n_trees=20), "signals": BEFORE, "random_state": 0}
    return Locus(predictor, **small | settings)


def fit_case(
    g: Any = first_column,
    rows: Callable[[np.ndarray], Any] = np.asarray,
    target: Callable[[np.ndarray], Any] = np.asarray,
    n: int = 600,
    saved: bool = True,
    **settings: Any,
) -> Case:
    """Fit on simulated rows and score others; g is fitted on rows of its own."""

    def run() -> Any:
        (X_g, y_g), (X, y), (X_new, y_new) = (simulated(m, seed=m) for m in (300, n, 301))
        predictor = g.fit(rows(X_g), target(y_g)) if hasattr(g, "fit") else g
        locus = before(predictor, **settings).fit(rows(X), target(y))
        few, fresh = slice(0, N_SCORED), slice(N_SCORED, None)
        part = rows(X_new[few]), target(y_new[few])
        return evaluate(locus, *part, (rows(X_new[fresh]), target(y_new[fresh])), saved)

    return run


def boosted(**more: Any) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(max_iter=10, **more)


def engine_cases() -> dict[str, Case]:
    one = {
        "Scale": Scale(boosted()),
        "Gaussian": Gaussian(boosted(), Ridge()),
        "QuantileGrid": QuantileGrid(model=boosted(loss="quantile", quantile=0.5)),
        "default settings of Scale": Scale(),
        "default settings of QuantileGrid": QuantileGrid((0.5, 0.9)),
        "FromSkpro": engines.FromSkpro(ResidualDouble(Ridge())),
    }
    bagged = Bagged(Gaussian(Ridge(), Ridge()), n_draws=5)
    forests = Ensemble([Forest(n_trees=10), bagged, QuantileGrid((0.5, 0.9))])
    several = {
        "default": None,
        "Forest": Forest(n_trees=30, n_draws=6),
        "Forest of small parts": Forest(n_trees=12, max_samples=80, n_points=4),
        "Bagged Gaussian": bagged,
        "Bagged Scale": Bagged(Scale(Ridge()), n_draws=4),
        "Bagged Forest": Bagged(Forest(n_trees=5), n_draws=3),
        "Ensemble": forests,
        "stacked": Ensemble([Forest(n_trees=10), Scale(Ridge())], weights="stacked", cv=2),
        "Auto": Auto([Forest(n_trees=5), forests], cv=2),
        "BART": engines.BART(n_draws=8, n_trees=10, n_burn=5),
        "BART log": engines.BART(n_draws=8, n_trees=10, n_burn=5, transform="log"),
        "MDN": engines.MDN(n_draws=6, n_hidden=8, max_epochs=15),
        "MDN sqrt": engines.MDN(n_draws=6, n_hidden=8, max_epochs=15, transform="sqrt"),
    }
    cases = {
        name: fit_case(LinearRegression(), engine=engine, saved="Skpro" not in name)
        for name, engine in (one | several).items()
    }
    for name, engine in several.items():
        cases[f"{name}, gamma"] = fit_case(engine=engine, gamma=lc.KNNGamma(k=20))
    return {f"engine: {name}": case for name, case in cases.items()}


def other_cases() -> dict[str, Case]:
    forest = RandomForestRegressor(15, min_samples_leaf=3, random_state=0)
    classifier = RandomForestClassifier(15, min_samples_leaf=5, random_state=0)
    costs = lc.cost([[0, 1, 4], [2, 0, 1], [8, 3, 0]])
    named = lc.cost([[0, 1], [5, 0]], classes=["low", "high"])
    back = TransformedTargetRegressor(forest, func=np.exp, inverse_func=np.log)
    boost = lightgbm.LGBMRegressor(n_estimators=20, n_jobs=1, verbose=-1, random_state=0)
    return {
        "loss: squared": fit_case(loss="squared"),
        "loss: pinball": fit_case(loss=lc.pinball(0.8)),
        "loss: zero_one": fit_case(classifier, target=labels, loss="zero_one"),
        "loss: log": fit_case(classifier, target=labels, loss="log"),
        "loss: brier": fit_case(classifier, target=labels, loss="brier"),
        "loss: cost": fit_case(classifier, target=labels, loss=costs),
        "loss: signed": fit_case(loss=signed, engine=Gaussian(Ridge(), Ridge())),
        "loss: zero_one, Gaussian": fit_case(
            classifier, target=labels, loss="zero_one", engine=Gaussian(Ridge(), Ridge())
        ),
        "g: forest": fit_case(forest, n=1500),
        "g: pipeline": fit_case(make_pipeline(StandardScaler(), forest)),
        "g: transformed target": fit_case(back),
        "g: LightGBM": fit_case(boost),
        "g: column": fit_case(column := lc.prediction_column(0), signals=doubled(column)),
        "g: column of a frame": fit_case(
            quoted := lc.prediction_column("quoted"), pandas_rows, signals=doubled(quoted)
        ),
        "g: two outputs": fit_case(
            LinearRegression(), target=lambda y: np.column_stack([y, -y]), loss=largest_error
        ),
        "g: text labels": fit_case(LogisticRegression(), target=names, loss="log"),
        "g: text labels, zero_one": fit_case(LogisticRegression(), target=names, loss="zero_one"),
        "g: function giving text": fit_case(
            text_of, target=lambda y: np.where(y > 1, "high", "low"), loss=named
        ),
        "rows: pandas": fit_case(of_the_frame, pandas_rows, target=pd.Series, n=1000),
        "rows: polars": fit_case(of_the_frame, polars_rows, target=pl.Series),
        "rows: Arrow": fit_case(of_the_frame, arrow_rows),
        "rows: sparse": fit_case(LinearRegression(), sparse.csr_array),
        "signals: x": fit_case(forest, signals="x"),
        "signals: function": fit_case(signals=two_signals),
        "support: interval": fit_case(loss=capped, support=(0, 1.5)),
        "support: interval, Gaussian": fit_case(
            loss=capped, support=(0, 1.5), engine=Gaussian(Ridge(), Ridge())
        ),
        "support: points": fit_case(loss=rounded, support=[0, 1, 2, 3]),
        "support: points, Bagged, gamma": fit_case(
            loss=rounded,
            support={0, 1, 2, 3},
            engine=Bagged(Gaussian(Ridge(), Ridge()), n_draws=4),
            gamma=lc.KNNGamma(k=10, gamma_min=0.3),
        ),
        "split: share": fit_case(n=200, calibration_size=0.4),
        "split: number": fit_case(n=200, calibration_size=30),
        "split: positions": fit_case(n=200, calibration_size=range(0, 200, 2)),
        "logged losses": logged_losses,
        "bad rows": bad_rows,
        "selection": selection,
        "report": reported,
        "metrics": measured,
    }


def logged_losses() -> Any:
    X, y = simulated(400, seed=1)
    z = signed(y, first_column(X))
    locus = before(None, support=(-20, 20)).fit_losses(X, z)
    scorer = Scorer(locus, locus.certify(0.5, 0.2, 0.1), alphas=ALPHAS)
    few = X[:N_SCORED]
    return {"scorer": columns_of(scorer, few), "again": columns_of(reloaded(scorer), few)} | {
        "rule": scorer.rule,
        "loss": locus.loss_.name,
    }


def bad_rows() -> Any:
    X, y = simulated(300, seed=2)
    locus = before(first_column).fit(X, y)
    X[[1, 4], 3], X[7, 0] = np.inf, np.nan
    columns, is_bad = Scorer(locus, locus.tau_rule(1.0, 0.2)).tolerate(X[:N_SCORED])
    return columns | {"bad": is_bad}


def selection() -> Any:
    X, y = simulated(300, seed=3)
    candidates = {"forest": Forest(n_trees=10), "scale": Scale(Ridge())}
    found = engines.select_engine(candidates, X, np.abs(y), random_state=0).table
    return [{k: v for k, v in record.items() if k != "seconds"} for record in found]


def reported() -> Any:
    X, y = simulated(700, seed=4)
    locus = before(first_column).fit(X[:500], y[:500])
    scorer, groups = Scorer(locus, locus.certify(1.0, 0.3, 0.1)), np.arange(200) % 3
    day = datetime.date(2026, 1, 2)
    found = report(scorer, X[500:], y[500:], groups=groups, created=day)
    summary = dict(found.summary)
    timed = {"seconds", "method"}  # how long it took, and a sentence that says so
    parts = summary["attribution"].items()
    summary["attribution"] = {name: part for name, part in parts if name not in timed}
    return {"summary": summary, "text": str(found), "broken": found.is_broken}


def measured() -> Any:
    X, y = simulated(300, seed=6)
    locus = before(first_column).fit(X[:200], y[:200])
    z, bound = locus.losses(X[200:], y[200:]), locus.loss_bound(X[200:], 0.2)
    return {
        "crps": metrics.crps(z, locus.loss_dist(X[200:])),
        "pinball": metrics.pinball_loss(z, bound, 0.2),
        "coverage": metrics.coverage(z, bound),
        "local": metrics.local_coverage(z, bound, X[200:, 2], n_bins=3),
        "area": metrics.exceedance_area(bound, z, 1.0),
    }


def kept_archives() -> dict[str, Case]:
    def case(path: Path) -> Case:
        def run() -> Any:
            scorer = Scorer.load(path)
            batch = pd.DataFrame(json.loads(path.with_suffix(".json").read_text())["batch"])
            bounds = np.asarray(scorer.locus.loss_bound(batch, ALPHAS))
            return columns_of(scorer, batch) | {"rule": scorer.rule, "bounds": bounds}

        return run

    paths = sorted((ROOT / "tests" / "archives" / "format_1").glob("*.locus"))
    return {f"archive: {path.stem}": case(path) for path in paths}


def all_cases() -> dict[str, Case]:
    return engine_cases() | other_cases() | CASES | kept_archives()
