"""
Choose an operating point
=========================

How much to accept is a decision: a looser rule saves reviews and lets more bad predictions through.
Look at all rules first, then choose; the bands stay valid after looking.
"""

# %%
# Data with known truth
# ---------------------

import matplotlib.pyplot as plt

from locuscore import Locus, operating_curve, plots
from locuscore.testing import GENERATORS

data = GENERATORS["smooth"]
X_cal, y_cal = data.sample(4000, rng=0)
X_val, y_val = data.sample(4000, rng=1)
locus = Locus(data.predictor, random_state=0).fit(X_cal, y_cal)
losses = locus.losses(X_val, y_val)

# %%
# Which tolerance?
# ----------------
# The simple rule accepts where the bound at ``alpha`` is at most ``tau``. For every ``tau``, the
# share of rows that are accepted and yet bad is at most ``alpha`` on average (Theorem 3). The
# accepted share grows with ``tau``.

bound = locus.loss_bound(X_val, alpha=0.1)
ax = plots.operating_by_tau(losses, bound, alpha=0.1, tau=1.0)

# %%
# Which threshold, for one tolerance?
# -----------------------------------
# With ``tau`` given, rank the rows by their exceedance and choose where to stop.
# ``operating_curve`` has a band that holds at all thresholds at once. So it is valid to take the
# last threshold whose band is below 8 %, although it was chosen by looking.

curve = operating_curve(locus.exceedance(X_val, tau=1.0), losses, tau=1.0, delta=0.1)
chosen = curve.threshold[curve.high <= 0.08].max()
ax = plots.operating_by_threshold(curve, chosen, score="exceedance at tau", eta=0.08)
plt.show()
