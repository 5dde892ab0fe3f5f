"""What losses add up to among accepted and flagged rows, and what review costs and saves."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from locuscore._protocols import BoolArray, FloatArray
from locuscore._shared.checks import check_numbers
from locuscore._shared.readable import as_typed, large_amount
from locuscore.report._plain import Wording, whole_percent


@dataclass(frozen=True)
class Costs:
    """Unit costs: `review` of one flagged row, and what review can save.

    That is either `bad`, the cost of one row that is accepted and has a loss above the tolerance,
    or `loss`, the cost of one unit of loss. `unit` is the currency; by default that of the losses.

    Examples
    --------
    >>> from locuscore.report import Costs
    >>> Costs(review=300, bad=12_000, unit="dollars")
    Costs(review=300, bad=12000, loss=None, unit='dollars')
    """

    review: float
    bad: float | None = None
    loss: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        if (self.bad is None) == (self.loss is None):
            raise ValueError(
                "costs need either bad, the cost of one bad row that is accepted, or loss, the "
                "cost of one unit of loss; give one of the two."
            )
        for name in ("review", "bad", "loss"):
            value = getattr(self, name)
            if value is not None:
                _check_cost(value, name)


def _check_cost(value: float, name: str) -> None:
    if not np.isfinite(check_numbers(value, f"cost {name!r}")) or value < 0:
        raise ValueError(f"cost {name!r} must be a number, 0 or more; got {value!r}.")


@dataclass
class Pile:
    """Number, sum and largest of some losses, and how many are above the tolerance."""

    n: int = 0
    total: float = 0.0
    worst: float = -np.inf
    bad: int = 0

    def add(self, z: FloatArray, tau: float) -> None:
        """See further losses."""
        if len(z):
            self.n += len(z)
            self.total += float(z.sum())
            self.worst = max(self.worst, float(z.max()))
            self.bad += int(np.sum(z > tau))

    def told(self) -> dict[str, Any]:
        """As the summary has it."""
        mean, worst = (self.total / self.n, self.worst) if self.n else (None, None)
        return {"n": self.n, "total": self.total, "mean": mean, "worst": worst, "bad": self.bad}


@dataclass
class Money:
    """Losses of accepted and of flagged rows; without a rule all rows are in one pile."""

    tau: float
    accepted: Pile = field(default_factory=Pile)
    flagged: Pile | None = None

    def add(self, z: FloatArray, accepted: BoolArray | None) -> None:
        """See losses, and which of their rows are accepted."""
        if accepted is None:
            self.accepted.add(z, self.tau)
            return
        self.flagged = self.flagged or Pile()
        self.accepted.add(z[accepted], self.tau)
        self.flagged.add(z[~accepted], self.tau)

    def told(self, wording: Wording, costs: Costs | None) -> dict[str, Any]:
        """Figures and sentences of the summary."""
        has_rule = self.flagged is not None
        paid = None if costs is None or not has_rule else self._paid(costs, wording)
        return {
            "tau": self.tau,
            "accepted": self.accepted.told(),
            "flagged": None if self.flagged is None else self.flagged.told(),
            "costs": paid,
            "sentences": [*self._sentences(wording), *([] if paid is None else paid["sentences"])],
        }

    def _sentences(self, wording: Wording) -> list[str]:
        rows, all_losses = wording.noun, wording.amount_of_loss
        kept, left = self.accepted, self.flagged
        if left is None:
            return [f"All {kept.n:,} {rows} together: {all_losses(kept.total, kept.worst)}."]
        n, total = kept.n + left.n, kept.total + left.total
        found = [
            f"The rule accepted {kept.n:,} of {n:,} {rows} ({whole_percent(kept.n / n)}) and "
            f"flagged {left.n:,} for review."
        ]
        if left.n and kept.n and total > 0 and min(kept.total, left.total) >= 0:
            found.append(
                f"The flagged {whole_percent(left.n / n)} of the {rows} hold "
                f"{whole_percent(left.total / total)} of the total loss."
            )
        return found

    def _paid(self, costs: Costs, wording: Wording) -> dict[str, Any]:
        """Review of the flagged rows against what they would have cost if they were accepted."""
        flagged = self.flagged
        assert flagged is not None
        unit = costs.unit or wording.unit
        review = costs.review * flagged.n
        if costs.bad is not None:
            most = costs.bad * flagged.bad
            what = (
                f"{flagged.bad:,} of them {wording.exceeded(self.tau)}, which at "
                f"{as_typed(costs.bad, unit)} each comes to {large_amount(most, unit)}"
            )
        else:
            most = float(costs.loss or 0.0) * flagged.total
            each = "" if costs.loss == 1 else f" at {as_typed(costs.loss or 0.0, unit)} per unit"
            what = f"their losses{each} come to {large_amount(most, unit)}"
        share = review / most if most > 0 else None
        pays = (
            "so review cannot pay for itself"
            if share is None or share > 1
            else f"so review pays if it saves at least {whole_percent(share)} of that"
        )
        sentence = (
            f"Reviewing {flagged.n:,} flagged {wording.noun} at {as_typed(costs.review, unit)} "
            f"each costs {large_amount(review, unit)}; {what}, {pays}."
        )
        return {
            "unit": unit,
            "review_each": costs.review,
            "bad_each": costs.bad,
            "loss_each": costs.loss,
            "review": review,
            "avoidable": most,
            "net": most - review,
            "break_even": share,
            "sentences": [sentence],
        }
