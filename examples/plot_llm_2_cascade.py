"""
Small model, large model, person
================================

A cheap model answers most questions well enough, a dear one some more, and people the rest. One
certificate covers whatever is sent, and costs decide who is asked.
"""

# %%
# Two models, both graded
# -----------------------
# A loss model for each, on the same rows and with the same seed, so that the same half is held out.
# The score of an answer is the probability that it loses more than a quarter of the marks.

import matplotlib.pyplot as plt
import numpy as np

from locuscore import Locus, Score, certify_cascade
from locuscore.datasets import load_answers
from locuscore.engines import Forest

table = load_answers()
graded, new = table[:3000], table[3000:]
common = ["topic", "length", "embedding_0", "embedding_1", "embedding_2", "embedding_3"]
own = ["logprob", "margin", "agreement", "judge"]
columns = {name: common + [f"{name}_{part}" for part in own] for name in ("small", "large")}
models = {}
for name in columns:
    model = Locus(engine=Forest(n_trees=50), support=(0, 1), calibration_size=0.5, random_state=0)
    models[name] = model.fit_losses(graded[columns[name]], graded[f"{name}_loss"])


def scores(rows):
    tail = Score.tail(0.25)
    return np.column_stack([models[name].scores(rows[columns[name]], tail) for name in models])


# %%
# One certificate
# ---------------
# A question costs 1 for the small model, 10 more if the large one is asked, and 100 more for a
# person. At most 5 % of the answers sent may be bad.

costs = [1, 10, 100]
held_out = graded.iloc[models["small"].calibration_rows_]
rule = certify_cascade(
    scores(held_out),
    held_out[["small_loss", "large_loss"]],
    tau=0.25,
    eta=0.05,
    delta=0.1,
    costs=costs,
    models=list(models),
)
print(rule)

# %%
# The path, and what happens on new questions
# -------------------------------------------
# The path of thresholds was fixed on rows set aside; the other rows tested it from the left, step
# by step, up to the first failure. Without the small model every question costs 10 more to begin
# with; without any model, 100.

who = rule.choose(scores(new))
loss = new[["small_loss", "large_loss"]].to_numpy()
sent = np.flatnonzero(who < 2)
bad = (loss[sent, who[sent]] > 0.25).mean()
alone = models["large"].certify(tau=0.25, eta=0.05, delta=0.1)
asked = ~models["large"].accepts(new[columns["large"]], alone)
totals = {
    "people only": 100,
    "large model\nand people": 10 + 100 * asked.mean(),
    "cascade": np.cumsum(costs)[who].mean(),
}
print(f"bad among {len(sent)} answers sent: {bad:.1%}")

path = rule.to_frame()
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
left.plot(path["cost"], path["n_bad"] / path["n_sent"], "o-", color="#0072B2", markersize=4)
chosen = path[path["step"] == rule.certificate.step]
left.plot(chosen["cost"], chosen["n_bad"] / chosen["n_sent"], "D", color="#D55E00", markersize=9,
          label="certified")  # fmt: skip
left.axhline(0.05, color="black", linestyle="--", label="eta = 0.05")
left.invert_xaxis()
left.set_ylim(0, 0.06)
left.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
left.set_xlabel("cost per question, from dear to cheap")
left.set_ylabel("bad answers among those sent")
left.set_title("Steps of the path, on the certifying rows")
left.legend(loc="lower right")
bars = right.bar(list(totals), list(totals.values()), 0.55, color=["#999999", "#E69F00", "#0072B2"])
right.bar_label(bars, fmt="%.0f")
right.set_ylabel("cost per question")
right.set_title("At most 5 % of the answers sent are bad")
plt.show()
