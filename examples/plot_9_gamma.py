"""
More cautious where data are scarce
===================================

Far from the rows it was fitted on, a model of the loss can only guess. With ``gamma`` the bound
comes from a pessimistic envelope of the engine's draws, here of ten bootstrap copies. The
scarcer the data, the more pessimistic the envelope. The guarantee over all rows stays the same.
"""

# %%
# Data in the middle
# ------------------
# There are two features. Most rows lie near the middle, few outside.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from locuscore import KNNGamma, Locus, plots
from locuscore.engines import Bagged, Scale

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 2)) * [1.0, 0.6]
y = X[:, 0] + (0.3 + 0.2 * np.abs(X[:, 1])) * rng.standard_t(4, size=3000)


def predictor(X):
    return X[:, 0]


small = HistGradientBoostingRegressor(max_iter=30)
settings = {"engine": Bagged(Scale(small), n_draws=10), "signals": "x", "random_state": 0}
plain = Locus(predictor, **settings).fit(X, y)
careful = Locus(predictor, gamma=KNNGamma(k=50), **settings).fit(X, y)

# %%
# Where, and by how much
# ----------------------
# The left picture shows ``gamma``, the share of draws that are at least as pessimistic as the
# envelope: the smaller, the more cautious. The right one shows how much larger the bound becomes.

first, second = np.linspace(-4, 4, 60), np.linspace(-2.6, 2.6, 50)
mesh = np.column_stack([a.ravel() for a in np.meshgrid(first, second)])
gamma = careful.gamma_.predict(careful.row_signals(mesh)).reshape(len(second), len(first))
ratio = careful.loss_bound(mesh, alpha=0.1) / plain.loss_bound(mesh, alpha=0.1)

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
rows = X[careful.fit_rows_]
inside = (np.abs(rows) <= [4, 2.6]).all(axis=1)
plots.gamma_map(first, second, gamma, rows=rows[inside][:600], ax=left)
left.set_title("Far from the data gamma is small")

scarce = np.digitize(gamma.ravel(), [0.2, 0.35, 0.5])
names = ["below 0.2:\ndata scarce", "0.2 to 0.35", "0.35 to 0.5", "above 0.5:\ndata dense"]
right.boxplot([ratio[scarce == k] for k in range(4)], tick_labels=names, showfliers=False)
right.axhline(1, color="#666666", linestyle="--", linewidth=1)
right.set(xlabel="gamma", ylabel="bound with gamma / bound without")
right.set_title("How much more cautious")
plt.show()
