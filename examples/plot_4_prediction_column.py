"""
A column of predictions, without the model
==========================================

Often the model is elsewhere: a vendor's score, last year's forecast, a spreadsheet. All you have is
a table with a column of predictions and, for some rows, the truth. That is enough.
"""

# %%
# A table as it comes
# -------------------
# The table has delivery times in minutes, as promised by a closed system and as measured. The
# system knows the distance, but not that the old town is slow in the evening.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from locuscore import Locus, plots, prediction_column

rng = np.random.default_rng(0)
n = 9000
table = pd.DataFrame(
    {
        "kilometres": rng.gamma(3.0, 1.5, size=n),
        "hour": rng.integers(8, 22, size=n),
        "district": rng.choice(["centre", "harbour", "old town", "hills"], size=n),
    }
)
slow = (table["district"] == "old town") & (table["hour"] >= 17)
noise = (1 + 0.6 * table["kilometres"]) * rng.normal(size=n)
minutes = 10 + 4 * table["kilometres"] + slow * rng.gamma(4.0, 3.0, size=n) + noise
table["promised"] = 10 + 4 * table["kilometres"]

# %%
# Name the column
# ---------------
# The first 5,000 deliveries have been measured. The column of predictions is used as a feature too.

known, new = table.iloc[:5000], table.iloc[5000:]
locus = Locus(prediction_column("promised"), random_state=0).fit(known, minutes.iloc[:5000])
bound = locus.loss_bound(new, alpha=0.1)
late = locus.losses(new, minutes.iloc[5000:])
print(new.assign(bound=bound.round(1)).head(6).to_string(index=False))

# %%
# The bound has found the evenings
# --------------------------------

evening = np.where(new["hour"] >= 17, "evening", "day")
group = new["district"] + ", " + evening
print(bound.groupby(group).median().round(1).sort_values().to_string())

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
plots.bound_against_loss(late, bound, alpha=0.1, tau=15, unit="minutes", ax=left)
plots.coverage_by_group(late, bound, group, alpha=0.1, ax=right)
plt.show()
