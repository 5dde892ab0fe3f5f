"""The distribution of a loss of classes, as a second opinion on the class sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from locuscore._protocols import FloatArray
from locuscore._shared.kept import Kept
from locuscore.draws import Draws, WeightedDraws

MOST_VALUES = 10_000  # of a loss, in an archive


@dataclass(frozen=True, repr=False)
class DiscreteDraws(Draws):
    """One law per row on a few points, as part of a mixture: alone it would end at the last one.

    `points` are ascending, and `survival` is ``P(Z > point)``, the last one 0; both are (n, m).
    """

    points: FloatArray
    survival: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.points), 1)

    @property
    def floats_per_row(self) -> int:
        return 2 * self.points.shape[1]

    def sf(self, z: FloatArray) -> FloatArray:
        reached = np.count_nonzero(self.points <= np.atleast_2d(z), axis=1)[:, None]
        survival = np.take_along_axis(self.survival, np.maximum(reached - 1, 0), axis=1)
        return np.where(reached == 0, 1.0, survival)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.atleast_2d(level)
        # The first point at which survival is below the level.
        index = np.count_nonzero(self.survival >= level, axis=1)[:, None]
        last = self.points.shape[1] - 1
        return np.where(
            level > 0, np.take_along_axis(self.points, np.minimum(index, last), axis=1), np.inf
        )


@dataclass(frozen=True, eq=False)
class ClassLaw:
    """No loss with the probability p of the predicted class, else a mean loss of ``E / (1 - p)``.

    p and the expected loss E, the latter in `unit`, are the signals at `column` and at the next
    one. Only the losses `values` occur, 0 and larger ones in ascending order; the two that enclose
    the mean share the probability of a loss, so that they have this mean. For a 0-1 loss, and for
    two classes, this is the law of the loss under the opinion. With more classes and costs, the
    probability of a loss and the mean are right.

    `weight` is the share of this law in a mixture with that of an engine.
    """

    ARCHIVE = Kept("ClassLaw", single=("column", "unit", "weight"), numbers=("values",))

    column: int
    unit: float
    values: FloatArray
    weight: float = 0.0

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the law that an archive holds, if it is one."""
        found = cls(**parts)
        values, numbers = found.values, (found.unit, found.weight)
        is_list = isinstance(values, np.ndarray) and values.ndim == 1
        if not is_list or not 2 <= len(values) <= MOST_VALUES or type(found.column) is not int:
            raise ValueError("the law of a loss of classes is none")
        are_losses = values[0] == 0 and (np.diff(values) > 0).all() and np.isfinite(values[-1])
        are_numbers = all(isinstance(number, float) for number in numbers)
        if not are_losses or not are_numbers or not (0 < found.unit < np.inf):
            raise ValueError("the law of a loss of classes has no losses or no unit")
        if not 0 < found.weight < 1:
            raise ValueError("the law of a loss of classes has no weight")
        return found

    def weighted(self, weight: float) -> Self | None:
        """The law with a share of its own in a mixture; None without a share."""
        return replace(self, weight=weight) if weight else None

    def mixed_with(self, draws: Draws, S: FloatArray) -> WeightedDraws:
        """The mixture of an engine's laws with this one, draw by draw."""
        return WeightedDraws([draws, self.draws(S)], np.array([1.0 - self.weight, self.weight]))

    def draws(self, S: FloatArray) -> DiscreteDraws:
        """The law of each row under the opinion."""
        width = S.shape[1]
        if not -width <= self.column < width or self.column in (-1, width - 1):
            raise ValueError("the law of a loss of classes is no signal of theirs")
        right, expected = S[:, self.column], S[:, self.column + 1] * self.unit
        wrong = 1.0 - np.clip(right, 0.0, 1.0)
        if not (np.isfinite(wrong) & np.isfinite(expected)).all():
            raise ValueError("a second opinion on the class gives no probabilities")
        some = np.maximum(wrong, np.finfo(np.float64).tiny)
        mean = np.clip(expected / some, self.values[1], self.values[-1])
        above = np.clip(np.searchsorted(self.values, mean), 1, len(self.values) - 1)
        high = self.values[above]
        low = np.where(above > 1, self.values[above - 1], high)
        gap = np.where(above > 1, high - low, 1.0)
        share = (mean - low) / gap  # of the larger loss; 0 where both are the same
        points = np.column_stack([np.zeros(len(S)), low, high])
        return DiscreteDraws(points, np.column_stack([wrong, wrong * share, np.zeros(len(S))]))
