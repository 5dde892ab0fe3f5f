"""
Which answers may be sent?
==========================

A model answers support questions, a judge says how sure it is of each answer, and people can read
only some of them. Usually answers are sent if the judge's confidence is above 0.85, say. Is that
safe, in every topic?
"""

# %%
# A table of graded answers
# -------------------------
# The answers are those of a small text model, stored with the package. For each one there are cheap
# signals and a loss: 0 for the right procedure, 0.5 for a related one, 1 for anything else.

import matplotlib.pyplot as plt
import numpy as np

from locuscore import Locus
from locuscore.datasets import load_answers
from locuscore.engines import Forest

table = load_answers()
signals = ["topic", "length", "embedding_0", "embedding_1", "embedding_2", "embedding_3"]
signals += ["large_logprob", "large_margin", "large_agreement", "large_judge"]
graded, new = table[:3000], table[3000:]
print(graded[["question", "large_answer", "large_judge", "large_loss"]].head(5).to_string())

# %%
# One rule for each topic
# -----------------------
# At most 10 % of the answers sent may lose more than a quarter of the marks, in every topic at
# once, with confidence 0.9. Half of the graded answers teach the loss model, half certify.

locus = Locus(engine=Forest(n_trees=50), support=(0, 1), calibration_size=0.5, random_state=0)
locus.fit_losses(graded[signals], graded["large_loss"])
rule = locus.certify_groups("topic", tau=0.25, eta=0.1, delta=0.1)
print(rule)

# %%
# Beside the fixed threshold
# --------------------------
# On answers that nobody has graded yet. The judge is sure of itself where it knows least: what it
# trusts about contracts and legal matters is mostly bad. The loss model weighs all signals, so that
# many answers about contracts can be sent; about legal matters nothing can be promised, and nothing
# is sent.

bad = (new["large_loss"] > 0.25).to_numpy()
sent = {
    "judge at least 0.85": (new["large_judge"] >= 0.85).to_numpy(),
    "certified by topic": locus.accepts(new[signals], rule).to_numpy(),
}
topics = list(table["topic"].value_counts().index)
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained", sharey=True)
places = np.arange(len(topics))
for offset, (name, accepted) in zip((-0.2, 0.2), sent.items(), strict=True):
    rows = [(new["topic"] == topic).to_numpy() for topic in topics]
    share = [accepted[here].mean() for here in rows]
    wrong = [bad[here & accepted].mean() if (here & accepted).any() else 0 for here in rows]
    style = ("#E69F00", "//") if offset < 0 else ("#0072B2", "")
    for ax, values in ((left, share), (right, wrong)):
        ax.barh(places + offset, values, 0.38, color=style[0], hatch=style[1], label=name)
    for place, value in zip(places, share, strict=True):
        if not value:
            right.text(0.12, place + offset, "nothing sent", va="center")
right.axvline(0.1, color="black", linestyle="--", label="eta = 0.1")
left.set_yticks(places, topics)
left.invert_yaxis()
left.set_title("Answers sent without review")
right.set_title("Bad answers among those sent")
for ax in (left, right):
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
right.legend(loc="center right")
plt.show()
