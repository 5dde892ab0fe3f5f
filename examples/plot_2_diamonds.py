"""
Diamond prices, in dollars
==========================

A random forest predicts the price of a diamond. By how many dollars can it be wrong on *this*
stone, and on which stones can we act on its price?
"""

# %%
# Three separate parts
# --------------------
# The data are split into rows that train the forest, labelled rows for ``Locus``, and new rows. The
# frame goes to the forest as it is, ordered categories included.

import matplotlib.pyplot as plt
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from locuscore import Locus, plots
from locuscore.datasets import load_diamonds

X, y = load_diamonds()
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=4000, random_state=0)
X_cal, X_new, y_cal, y_new = train_test_split(
    X_rest, y_rest, train_size=6000, test_size=6000, random_state=0
)

encode = make_column_transformer(
    (OrdinalEncoder(), ["cut", "color", "clarity"]), remainder="passthrough"
)
g = make_pipeline(encode, RandomForestRegressor(60, random_state=0)).fit(X_train, y_train)

# %%
# A bound for every stone
# -----------------------
# For a new stone, the chance that the error exceeds its bound is at most one in ten.

locus = Locus(g, loss="absolute", random_state=0).fit(X_cal, y_cal)
bound = locus.loss_bound(X_new, alpha=0.1)
errors = locus.losses(X_new, y_new)

table = X_new[["carat", "cut", "clarity"]].assign(
    price=y_new, predicted=g.predict(X_new).round(), bound=bound.round()
)
print(table.head(6).to_string(index=False))

# %%
# Each point below is one stone. Left of the vertical line the bound is at most 500 dollars, and we
# act on the price. The stones there that lie above the horizontal line are our mistakes.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
plots.bound_against_loss(errors, bound, alpha=0.1, tau=500, unit="dollars", log=True, ax=left)
plots.bound_distribution(bound, alpha=0.1, tau=500, unit="dollars", log=True, ax=right)

# %%
# Is it right for small and for large bounds, and for every cut?
# ---------------------------------------------------------------
# The guarantee is about all stones together. These pictures show how evenly coverage is spread; the
# intervals are exact.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
plots.coverage_by_bound(errors, bound, alpha=0.1, unit="dollars", ax=left)
plots.coverage_by_group(errors, bound, X_new["cut"].astype(str), alpha=0.1, ax=right)
plt.show()
