"""
Write an engine
===============

An engine is a model of the loss: any object with ``fit(S, z)`` and ``predict_draws(S)``. The bound
is valid with every engine; a better engine gives a sharper bound. Here is a complete engine that
uses the losses of the nearest rows as the distribution of the loss.
"""

# %%
# Two methods
# -----------
# ``S`` holds the signals, one row of floats per input; ``z`` holds the losses. The result is a
# stack of distributions, here one step function per row with a tail beyond its largest point.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors

from locuscore import Locus, plots
from locuscore.draws import StepDraws, smallest_scale
from locuscore.engines import Scale
from locuscore.metrics import pinball_loss
from locuscore.testing import GENERATORS, check_engine


class Neighbours(BaseEstimator):
    """The losses of the k nearest rows, equally weighted."""

    def __init__(self, k=50):
        self.k = k

    def fit(self, S, z):
        if np.isnan(S).any():
            raise ValueError("Neighbours does not take missing values.")
        self.centre_, self.spread_ = S.mean(axis=0), S.std(axis=0) + smallest_scale(S)
        self.index_ = NearestNeighbors(n_neighbors=min(self.k, len(z))).fit(self._scaled(S))
        self.losses_, self.smallest_ = z.copy(), smallest_scale(z)
        return self

    def predict_draws(self, S):
        points = self.losses_[self.index_.kneighbors(self._scaled(S), return_distance=False)]
        top = points.max(axis=1)
        tail = np.maximum(top - points.mean(axis=1), self.smallest_)
        return StepDraws(points[:, None, :], top, tail)

    def _scaled(self, S):
        return (S - self.centre_) / self.spread_


# %%
# Check the contract
# ------------------
# The checks cover scale, ties, missing values, batches, copies and held-out rows. A failed check
# says what is wrong and what to do about it. No output means that all checks passed.

check_engine(Neighbours())

# %%
# Is it any good?
# ---------------
# We compare on data with known truth: a line through a curved mean, whose errors are largest where
# the noise is smallest. A smaller pinball loss means a sharper bound at the same coverage. Five
# features are many for 50 neighbours, and two of them are noise. So coverage with neighbours is
# about the same for small and large bounds, but the bound is less sharp than that of ``Scale``,
# whose coverage is uneven. Both are valid over all rows.

data = GENERATORS["misfit"]
X_cal, y_cal = data.sample(4000, rng=0)
X_new, y_new = data.sample(3000, rng=1)
truth = data.loss_quantile(X_new, data.predictor, alpha=0.1)

bounds = {}
for name, engine in {"neighbours": Neighbours(), "mean loss x shape": Scale()}.items():
    locus = Locus(data.predictor, engine=engine, signals="x", random_state=0).fit(X_cal, y_cal)
    bounds[name] = locus.loss_bound(X_new, alpha=0.1)
    losses = locus.losses(X_new, y_new)
    print(f"{name:18s} pinball loss {pinball_loss(losses, bounds[name], 0.1):.4f}")
print(f"{'the truth':18s} pinball loss {pinball_loss(losses, truth, 0.1):.4f}")

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
for ax, (name, bound) in zip(axes, bounds.items(), strict=True):
    plots.coverage_by_bound(losses, bound, alpha=0.1, ax=ax)
    ax.set_title(name)
    ax.label_outer()
plt.show()
