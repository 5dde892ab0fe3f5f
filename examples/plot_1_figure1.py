"""
Where a model fails, and what variance cannot see
=================================================

This is the paper's Figure 1. A line and k nearest neighbours predict the same target. The spread of
the target is the same for both, so no estimate of it can tell which predictor fails where. The
bound on the *loss* can, because it is about one predictor, in the units of its errors.
"""

# %%
# The data
# --------
# There is one input, a curved mean, and noise that is large only on the left. Because the data are
# simulated, the truth is known and can be drawn next to the bound.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import foldnorm
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from locuscore import Locus, plots
from locuscore.engines import Forest

rng = np.random.default_rng(0)


def mean(x):
    return np.sin(3 * x) + 1.2 * np.exp(-20 * (x - 1.5) ** 2)


def sd(x):
    return 0.08 + 0.5 * np.exp(-4 * (x + 1) ** 2)


def sample(n):
    x = rng.uniform(-2, 2, size=n)
    return x[:, None], mean(x) + sd(x) * rng.normal(size=n)


X_train, y_train = sample(300)
X_cal, y_cal = sample(3000)
X_new, y_new = sample(400)
grid = np.linspace(-2, 2, 400)

# %%
# Two predictors, one recipe
# --------------------------
# Each column of the picture is one predictor. ``Locus`` gets rows that neither was trained on, and
# bounds the absolute error. A prediction is accepted where its bound is at most ``tau``.

alpha, tau = 0.1, 0.8
models = {"linear regression": LinearRegression(), "k nearest neighbours": KNeighborsRegressor(15)}
figure, axes = plt.subplots(4, 2, figsize=(9, 10), sharex=True, sharey="row", layout="constrained")

for (name, model), (a, b, c, d) in zip(models.items(), axes.T, strict=True):
    g = model.fit(X_train, y_train)
    locus = Locus(g, engine=Forest(200, min_samples_leaf=25), random_state=0).fit(X_cal, y_cal)
    bound = locus.loss_bound(grid[:, None], alpha)
    on_grid = g.predict(grid[:, None])
    # The absolute error of a normal target is a folded normal: its quantile is known.
    truth = foldnorm.ppf(1 - alpha, np.abs(mean(grid) - on_grid) / sd(grid), scale=sd(grid))

    plots.fit_panel(X_new[:, 0], y_new, grid, on_grid, mean=mean(grid), ax=a)
    plots.spread_panel(grid, sd(grid), ax=b)
    losses = locus.losses(X_new, y_new)
    about = {"alpha": alpha, "tau": tau, "quantile": truth}
    plots.loss_panel(X_new[:, 0], losses, grid, bound, **about, ax=c)
    plots.rule_panel(X_new[:, 0], y_new, locus.loss_bound(X_new, alpha) <= tau, ax=d)
    a.set_title(name)

for row, letter in zip(axes, "abcd", strict=True):
    row[0].set_ylabel(f"({letter}) {row[0].get_ylabel()}")
    for panel in row:
        panel.label_outer()
plt.show()

# %%
# What the picture shows
# ----------------------
# The line misses the wave. Around ``x = 0.5`` the noise is smallest, and yet the line is wrong: its
# bound is high there and its predictions are flagged. The neighbours fail only where the target is
# noisy. Row (b) is the same for both predictors, so it cannot show the difference.
