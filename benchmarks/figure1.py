"""The paper's Figure 1 on simulated data, with the known truth drawn in; figures/figure1.png.

Two predictors on the same data, a line and k nearest neighbours. The variance of the target does
not know which of them fails where; the loss bound does.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from locuscore import Locus
from locuscore.engines import Forest

mpl.use("Agg")
from matplotlib import pyplot as plt

TARGET = Path(__file__).with_name("figures") / "figure1.png"
N, ALPHA, TAU = 3_000, 0.1, 0.8
BLACK, RED, BLUE, GREEN = "black", "#D55E00", "#0072B2", "#009E73"


def mean(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x) + 1.2 * np.exp(-20 * (x - 1.5) ** 2)


def sd(x: np.ndarray) -> np.ndarray:
    return 0.08 + 0.5 * np.exp(-4 * (x + 1) ** 2)


def sample(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-2, 2, size=n)
    return x[:, None], mean(x) + sd(x) * rng.normal(size=n)


def true_quantile(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The 1 - alpha quantile of |Y - g| by halving: a folded normal law."""
    miss, low, high = mean(x) - g, np.zeros(len(x)), np.full(len(x), 20.0)
    for _ in range(60):
        middle = (low + high) / 2
        inside = norm.cdf((middle - miss) / sd(x)) - norm.cdf((-middle - miss) / sd(x))
        low, high = (
            np.where(inside < 1 - ALPHA, middle, low),
            np.where(inside < 1 - ALPHA, high, middle),
        )
    return high


def main() -> None:
    rng = np.random.default_rng(0)
    X_train, y_train = sample(300, rng)
    X_cal, y_cal = sample(N, rng)
    X_new, y_new = sample(400, rng)
    grid = np.linspace(-2, 2, 400)
    figure, axes = plt.subplots(4, 2, figsize=(9, 9), sharex=True, sharey="row")
    models = {
        "linear regression": LinearRegression(),
        "k nearest neighbours": KNeighborsRegressor(15),
    }
    for column, (name, model) in enumerate(models.items()):
        g = model.fit(X_train, y_train)
        engine = Forest(200, min_samples_leaf=25)
        locus = Locus(g, engine=engine, random_state=0).fit(X_cal, y_cal)
        bound, seen = locus.loss_bound(grid[:, None], ALPHA), g.predict(grid[:, None])
        a, b, c, d = axes[:, column]
        a.set_title(f"{name}\n", fontsize=11)
        a.plot(X_new[:, 0], y_new, ".", color="0.75", ms=3)
        a.plot(grid, mean(grid), color=BLACK, label="true mean")
        a.plot(grid, seen, color=RED, label="g(x)")
        b.plot(grid, sd(grid), color=GREEN, label="true sd of Y given x")
        c.plot(X_new[:, 0], np.abs(y_new - g.predict(X_new)), ".", color="0.75", ms=3)
        c.plot(grid, true_quantile(grid, seen), color=BLACK, label="true 90 % quantile of the loss")
        c.plot(grid, bound, color=BLUE, lw=1.2, label="loss bound at alpha = 0.1")
        c.axhline(TAU, color="0.4", ls="--", lw=0.8, label="tau")
        _flags(d, X_new[:, 0], y_new, locus.loss_bound(X_new, ALPHA) <= TAU)
    _finish(figure, axes)


def _flags(axes: plt.Axes, x: np.ndarray, y: np.ndarray, accepted: np.ndarray) -> None:
    axes.plot(x[accepted], y[accepted], ".", color=BLUE, ms=4, label="accepted")
    axes.plot(x[~accepted], y[~accepted], ".", color=RED, ms=4, label="flagged")


def _finish(figure: plt.Figure, axes: np.ndarray) -> None:
    titles = (
        "(a) data, truth and g",
        "(b) what variance sees",
        "(c) loss and its bound",
        "(d) rule",
    )
    for row, title in zip(axes, titles, strict=True):
        row[0].set_ylabel(title)
        row[1].legend(frameon=False, fontsize=8, loc="upper right")
        for panel in row:
            panel.spines[["top", "right"]].set_visible(False)
    for panel in axes[-1]:
        panel.set_xlabel("x")
    figure.set_layout_engine("constrained")
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
