"""
A classifier with a cost matrix
===============================

Not all mistakes cost the same. A classifier looks for a rare fault: a false alarm costs 10 dollars,
a missed fault 500. Which of its answers can we act on without a second look?
"""

# %%
# A fixed classifier
# ------------------

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from locuscore import Locus, cost, plots

X, y = make_classification(
    12_000, n_features=8, n_informative=5, weights=[0.8], flip_y=0.03, random_state=0
)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=3000, random_state=0)
X_cal, X_new, y_cal, y_new = train_test_split(X_rest, y_rest, train_size=5000, random_state=0)
classifier = RandomForestClassifier(100, random_state=0).fit(X_train, y_train)

# %%
# The loss is the cost of the answer
# ----------------------------------
# Rows are the true class, columns the predicted one. The bound takes only the values of the matrix:
# 0, 10 or 500 dollars. For ranking, ``exceedance`` is finer: the smallest alpha at which the bound
# is at most 10 dollars, so that a missed fault is excluded at that level.

locus = Locus(classifier, loss=cost([[0, 10], [500, 0]]), random_state=0).fit(X_cal, y_cal)
bound = locus.loss_bound(X_new, alpha=0.02)
level = locus.exceedance(X_new, tau=10)
costs = locus.losses(X_new, y_new)

for value in (0, 10, 500):
    rows = bound == value
    if rows.any():
        print(f"bound {value:3d}: {rows.mean():6.1%} of rows, mean cost {costs[rows].mean():6.2f}")

# %%
# Better than the classifier's own doubt?
# ---------------------------------------
# The usual score is the probability of the class not chosen. It does not know that the two
# mistakes differ: a doubtful "fault" is cheap, a doubtful "no fault" is not.

doubt = 1 - classifier.predict_proba(X_new).max(axis=1)
scores = {"Locus, exceedance at 10 dollars": level, "doubt of the classifier": doubt}
ax = plots.exceedance_curves(scores, costs, tau=10, unit="dollars")
plt.show()
