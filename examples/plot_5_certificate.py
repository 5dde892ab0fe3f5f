"""
A certificate without a validation set
======================================

The bound promises something about all rows together. To act on some of them we want more: of the
predictions we *accept*, at most 5 % may be wrong by more than 500 dollars. ``certify`` finds such a
rule with the calibration rows alone; no further labelled rows are set aside.
"""

# %%
# Fit as usual
# ------------

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from locuscore import Locus, operating_curve, plots
from locuscore.datasets import load_diamonds
from locuscore.metrics import exceedance_rates

X, y = load_diamonds(as_frame=False)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=4000, random_state=0)
X_cal, X_new, y_cal, y_new = train_test_split(
    X_rest, y_rest, train_size=6000, test_size=8000, random_state=0
)
g = RandomForestRegressor(60, random_state=0).fit(X_train, y_train)
locus = Locus(g, random_state=0).fit(X_cal, y_cal)

# %%
# One call
# --------
# The score is the loss model's own probability of an error above 500 dollars. It depends only on
# the rows the model was fitted on (D1), so the calibration rows (D2) are new to it and can test
# thresholds. The card says what is promised, and under which assumptions.

rule = locus.certify(tau=500, eta=0.05, delta=0.1)
print(rule)

# %%
# Did it hold?
# ------------
# New rows with labels show it. In practice these labels are missing, and the certificate takes
# their place.

accepted = locus.accepts(X_new, rule)
errors = locus.losses(X_new, y_new)
rates = exceedance_rates(errors, accepted, tau=500)
print(f"accepted: {accepted.mean():.1%}")
print(
    f"errors above 500 dollars among all: {rates.marginal:.1%}, accepted: {rates.conditional:.1%}"
)

# %%
# The picture shows all other thresholds as well, on the new rows. At the certified threshold the
# dashed curve is below ``eta``.

curve = operating_curve(locus.scores(X_new, rule.score), errors, tau=500)
ax = plots.operating_by_threshold(
    curve, rule.threshold, score="probability of an error above tau", eta=0.05, unit="dollars"
)
plt.show()
