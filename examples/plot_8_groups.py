"""
A promise for every group
=========================

One threshold for all rows can be right on average and wrong for a group: it accepts too much where
the predictor is poor. With one certified threshold per group, the promise holds in each group.
"""

# %%
# Diamonds by cut
# ---------------
# A certificate needs rows that had no part in the score. Here they are set aside.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from locuscore import Locus, Score, certify_groups, certify_threshold, plots
from locuscore.datasets import load_diamonds
from locuscore.metrics import exceedance_rates

X, y = load_diamonds(as_frame=False)
names = np.array(["Fair", "Good", "Very Good", "Premium", "Ideal"])
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=3000, random_state=0)
X_cal, X_rest, y_cal, y_rest = train_test_split(X_rest, y_rest, train_size=4000, random_state=0)
X_val, X_new, y_val, y_new = train_test_split(
    X_rest, y_rest, train_size=12_000, test_size=20_000, random_state=0
)
g = RandomForestRegressor(40, random_state=0).fit(X_train, y_train)
locus = Locus(g, random_state=0).fit(X_cal, y_cal)

# %%
# One rule, or one for each group
# -------------------------------
# Both promise that at most 4 % of the accepted prices are wrong by more than 500 dollars. The
# promises for all groups hold together with confidence 0.9.

score = Score.tail(500)
val, new = locus.scores(X_val, score), locus.scores(X_new, score)
z_val, z_new = locus.losses(X_val, y_val), locus.losses(X_new, y_new)
cut_val, cut_new = names[X_val[:, 1].astype(int)], names[X_new[:, 1].astype(int)]

target = {"tau": 500, "eta": 0.04, "delta": 0.1, "of": score}
one = certify_threshold(val, z_val, **target)
each = certify_groups(val, z_val, cut_val, **target)

shares = {"one rule": [], "a rule per group": []}
for name in names:
    rows = cut_new == name
    for key, rule in (("one rule", one), ("a rule per group", each[name])):
        accepted = rule.accepts(new[rows], score)
        bad = exceedance_rates(z_new[rows], accepted, tau=500).conditional if accepted.any() else 0
        shares[key].append(bad)
        print(f"{name:10s} {key:17s} accepted {accepted.mean():5.1%}, of these bad {bad:.1%}")

# %%
# What happened on new rows
# -------------------------
# The left picture shows the coverage of the bound, group by group. The right one shows the promise
# of the two certificates: a rule per group keeps every bar below the line. For the few stones of
# cut "Fair" no threshold can be certified, so their rule accepts nothing, while the one rule for
# all lets bad prices through.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
plots.coverage_by_group(z_new, locus.loss_bound(X_new, 0.1), cut_new, alpha=0.1, ax=left)
places = np.arange(len(names))
for offset, (key, values) in zip((-0.2, 0.2), shares.items(), strict=True):
    style = {"one rule": ("#E69F00", "//"), "a rule per group": ("#0072B2", "")}[key]
    right.bar(places + offset, values, 0.38, color=style[0], hatch=style[1], label=key)
right.axhline(0.04, color="black", linestyle="--", label="eta = 0.04")
right.set_xticks(places, names)
right.set_ylabel("errors above 500 dollars if accepted")
right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
right.text(0.2, 0.002, "nothing accepted", rotation=90, ha="center")
right.set_title("The promise, group by group")
right.legend()
plt.show()
