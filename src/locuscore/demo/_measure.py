"""What the demonstration computes: a forest on diamond prices, `Locus`, and two other methods.

The forest stands for a price model as many are in use: it knows weight and measures of a stone, and
nobody told it colour and clarity. `Locus` sees all columns, so that its second opinion knows where
such prices go wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from locuscore import Locus
from locuscore._protocols import FloatArray, Rows
from locuscore.datasets import load_diamonds

STEPS = (
    "load the diamonds and split them",
    "fit the forest whose errors we bound",
    "fit and calibrate Locus on other rows",
    "bound the error of every test row",
    "fit two other methods to compare with",
    "draw the picture, save the scorer",
    "write the report",
)
_ORDERED = ["cut", "color", "clarity"]
KNOWN = ["carat", "depth", "table", "x", "y", "z"]  # to the predictor


@dataclass(frozen=True)
class Setting:
    """Numbers of diamonds in each part, trees of the predictor, alpha, tau in dollars, seed."""

    n_train: int = 12_000
    n_calibration: int = 12_000
    n_test: int = 29_940  # all the others
    n_trees: int = 100
    alpha: float = 0.1
    tau: float = 1_000.0
    seed: int = 0


@dataclass(frozen=True)
class Measured:
    """What came out on the test rows: one value per row, money in dollars."""

    setting: Setting
    locus: Locus
    rows: Rows
    n_fit: int
    n_calibration: int
    prediction: FloatArray
    truth: FloatArray
    loss: FloatArray
    bound_half: FloatArray
    bound: FloatArray
    exceedance: FloatArray
    spread: FloatArray
    outlier: FloatArray
    label_sd: FloatArray

    @property
    def bad(self) -> np.ndarray:
        """Whether the loss is above the tolerance."""
        return self.loss > self.setting.tau

    @property
    def flags(self) -> dict[str, np.ndarray]:
        """Flags of Locus, and of two scores cut so that they flag just as many rows."""
        flagged = self.bound > self.setting.tau
        others = {"outlier": self.outlier, "label_sd": self.label_sd}
        count = int(flagged.sum())
        return {"locus": flagged} | {name: _largest(s, count) for name, s in others.items()}


def measure(setting: Setting, step: Callable[[], None] = lambda: None) -> Measured:
    """Fit the predictor on some diamonds, `Locus` on others, and score a third part."""
    step()
    X, y = load_diamonds()
    sizes = [setting.n_train, setting.n_calibration, setting.n_test]
    order = np.random.default_rng(setting.seed).permutation(len(X))[: sum(sizes)]
    train, calibration, test = np.split(order, np.cumsum(sizes)[:2])
    X_train, y_train, X_test, y_test = X.iloc[train], y.iloc[train], X.iloc[test], y.iloc[test]
    step()
    forest = RandomForestRegressor(
        setting.n_trees, min_samples_leaf=5, n_jobs=-1, random_state=setting.seed
    )
    columns = make_column_transformer(("passthrough", KNOWN))
    predictor = make_pipeline(columns, forest).fit(X_train, y_train)
    forest.set_params(n_jobs=1)  # threads add up the trees in any order, which rounds differently
    step()
    locus = Locus(predictor, loss="absolute", random_state=setting.seed, unit="dollars")
    locus.fit(X.iloc[calibration], y.iloc[calibration])
    step()
    bounds = locus.loss_bound(X_test, alpha=[0.5, setting.alpha]).to_numpy()
    exceedance = locus.exceedance(X_test, tau=setting.tau).to_numpy()
    prediction = locus.predict(X_test)
    step()
    return Measured(
        setting=setting,
        locus=locus,
        rows=X_test,
        n_fit=len(locus.fit_rows_),
        n_calibration=len(locus.calibration_rows_),
        prediction=prediction,
        truth=y_test.to_numpy(),
        loss=np.abs(prediction - y_test.to_numpy()),
        bound_half=bounds[:, 0],
        bound=bounds[:, 1],
        exceedance=exceedance,
        spread=_member_spread(locus, X_test),
        outlier=_outlier_score(X, X_train, X_test, setting.seed),
        label_sd=_label_sd(X, X_train, y_train, X_test, setting.seed),
    )


def summary(m: Measured) -> dict[str, Any]:
    """Return the figures the demonstration prints, as shares between 0 and 1.

    Coverage on n test rows is beta-binomial, with parameters ``k`` and ``n2 + 1 - k``; `interval`
    holds its middle 95 %.
    """
    n_test = len(m.loss)
    law = m.locus.calibration_.coverage_law(m.setting.alpha, n_test)
    assert law is not None, "the demonstration has enough calibration rows for its alpha"
    low, high = (law.ppf(share) / n_test for share in (0.025, 0.975))
    coverage = float(np.mean(m.loss <= m.bound))
    kept = {name: ~flag for name, flag in m.flags.items()}
    return {
        "coverage": coverage,
        "interval": (low, high),
        "inside": low <= coverage <= high,
        "bad": float(m.bad.mean()),
        "accepted": float(kept["locus"].mean()),
        "joint": {name: float(np.mean(m.bad & keep)) for name, keep in kept.items()},
        "conditional": {
            name: float(m.bad[keep].mean()) if keep.any() else float("nan")
            for name, keep in kept.items()
        },
    }


def example_rows(m: Measured) -> list[int]:
    """Positions of up to six rows, one for each of six ways the three flags can combine.

    Locus flags three of the combinations and accepts the other three. From each, the row is taken
    whose loss has rank ``ceil((1 - alpha) * size)``: a share alpha of its kind did worse.
    Combinations that do not occur are left out.
    """
    flags = np.column_stack(list(m.flags.values()))  # of Locus, outlier and label_sd
    chosen = []
    for kind in ((1, 1, 1), (1, 0, 1), (1, 1, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
        rows = np.flatnonzero((flags == kind).all(axis=1))
        if len(rows):
            rank = int(np.ceil((1 - m.setting.alpha) * len(rows)))
            chosen.append(int(rows[np.argsort(m.loss[rows], kind="stable")[rank - 1]]))
    return chosen


def _encoder(X: Rows) -> Any:
    levels = [list(X[name].cat.categories) for name in _ORDERED]
    encoder = OrdinalEncoder(categories=levels)
    return make_column_transformer((encoder, _ORDERED), remainder="passthrough")


def reason_row(m: Measured) -> tuple[int, str] | None:
    """A flagged row whose error is large, and what the second opinion says of it.

    Of the flagged rows with an error above tau it is the one at the 90 % point of the errors. None
    if there is no such row, or no second opinion on these errors.
    """
    rows = np.flatnonzero(m.flags["locus"] & m.bad)
    if not len(rows):
        return None
    rank = int(np.ceil((1 - m.setting.alpha) * len(rows)))
    row = int(rows[np.argsort(m.loss[rows], kind="stable")[rank - 1]])
    (block,) = m.locus.blocks(m.rows.iloc[[row]], None)
    (said,) = m.locus.signals_.words(block.signals, block.outputs)
    return None if said is None else (row, said)


def _outlier_score(X: Rows, X_train: Rows, X_test: Rows, seed: int) -> FloatArray:
    model = make_pipeline(_encoder(X), IsolationForest(random_state=seed)).fit(X_train)
    return np.asarray(-model.score_samples(X_test))


def _label_sd(X: Rows, X_train: Rows, y_train: Any, X_test: Rows, seed: int) -> FloatArray:
    """Estimate sd(Y | x) as ``sqrt(E[Y^2 | x] - E[Y | x]^2)``.

    Both means come from one forest, with the same weights, so the difference is a variance.
    """
    y = y_train.to_numpy()
    forest = RandomForestRegressor(50, min_samples_leaf=10, n_jobs=-1, random_state=seed)
    forest = make_pipeline(_encoder(X), forest).fit(X_train, np.column_stack([y, y**2]))
    first, second = forest.predict(X_test).T
    return np.sqrt(np.maximum(second - first**2, 0.0))


def _member_spread(locus: Locus, X: Rows) -> FloatArray:
    """How far the trees of the forest disagree about each row."""
    parts = [block.outputs.spread for block in locus.blocks(X)]
    return np.concatenate([part[:, 0] for part in parts if part is not None])


def _largest(score: FloatArray, count: int) -> np.ndarray:
    """Mark the `count` largest scores."""
    flagged = np.zeros(len(score), dtype=bool)
    flagged[np.argsort(-score, kind="stable")[:count]] = True
    return flagged
