"""The cross-fitted law: k loss models, and the tails of the rows that each has not seen.

``P(Z > z | x) = (1 + sum over folds f of #{i in f : w_i <= S_f(z | x)}) / (n + 1)``, where S_f is
the survival of the model without fold f, and w_i the tail of row i of that fold under it. This law
is calibrated as it stands: its survival is the exceedance, and its inverse the bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from locuscore._laws.calibration import check_tails
from locuscore._laws.distribution import Floor, LossDistribution, Support
from locuscore._laws.loss_model import LossModel
from locuscore._protocols import FloatArray
from locuscore._shared.kept import Kept
from locuscore.draws import Draws, average, estimate, floats_per_row
from locuscore.draws._combined import StackedDraws


@dataclass(frozen=True, eq=False, repr=False)
class CrossFittedDraws(Draws):
    """The cross-fitted law of each row, a stack of one.

    ``w_i <= S_f(z | x)`` holds up to a place of the row's own, ``sup{z : S_f(z | x) >= w_i}``. So
    the survival counts the places above z, and its inverse is one of them: with n places per row,
    any number of levels costs n inversions and one sort.
    """

    laws: Sequence[LossDistribution]
    tails: Sequence[FloatArray]

    inverts_jointly = True

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.laws[0]), 1)

    @property
    def floats_per_row(self) -> int:
        return sum(floats_per_row(law.draws) for law in self.laws) + len(self._survival_by_count)

    def sf(self, z: FloatArray) -> FloatArray:
        above = np.count_nonzero(self._places > np.asarray(z), axis=1, keepdims=True)
        return self._survival_by_count[above]

    def isf(self, level: FloatArray) -> FloatArray:
        return self.joint_isf(np.asarray(level, dtype=np.float64))

    def joint_isf(self, level: FloatArray) -> FloatArray:
        """Inverses at m levels, (n, m): infinite where 1 / (n + 1) has the level already."""
        places = self._places
        # So many places above z keep survival at the level; at the lowest of them it drops below.
        count = np.searchsorted(self._survival_by_count, np.atleast_2d(level), side="left")
        index = np.broadcast_to(places.shape[1] - count, (len(places), count.shape[1]))
        found = np.take_along_axis(places, np.minimum(index, places.shape[1] - 1), axis=1)
        return np.where(count == 0, np.inf, found)

    def estimate(self) -> Draws:
        """The mean of what the folds' models estimate."""
        return average(StackedDraws([estimate(law.draws) for law in self.laws]))

    @cached_property
    def _places(self) -> FloatArray:
        """Where the survival of each row falls, (n rows, n), ascending."""
        pairs = zip(self.laws, self.tails, strict=True)
        return np.sort(np.hstack([law.isf(tails[None, :]) for law, tails in pairs]), axis=1)

    @cached_property
    def _survival_by_count(self) -> FloatArray:
        """Survival by the number of places above."""
        n = sum(map(len, self.tails))
        return (1.0 + np.arange(n + 1)) / (n + 1)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """The loss models of k folds, each with the signals and the tails of the rows it has not seen.

    `widths` are the numbers of signals: those of the folds stand side by side.
    """

    ARCHIVE = Kept("CrossFitted", fields=("models", "widths", "tails"), holds=(LossModel,))

    models: Sequence[LossModel]
    widths: Sequence[int]
    tails: Sequence[FloatArray]

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the models that an archive holds, if they are some."""
        models, widths, tails = (parts[name] for name in ("models", "widths", "tails"))
        if not all(isinstance(part, list) for part in (models, widths, tails)):
            raise ValueError("the loss models of its folds are no list")
        are_models = all(map(_is_model, models))
        are_widths = all(type(width) is int and width > 0 for width in widths)
        if not are_models or not are_widths or not len(models) == len(widths) == len(tails) >= 2:
            raise ValueError("the loss models of its folds are none")
        found = [check_tails(part) for part in tails]
        if len(set(map(len, found))) > 1:
            raise ValueError("its folds have different numbers of calibration rows")
        return cls(models, widths, found)

    def predict_draws(self, S: FloatArray) -> CrossFittedDraws:
        """Return the cross-fitted law of each row."""
        if S.shape[1] != sum(self.widths):
            raise ValueError(
                f"the loss models of all folds see {sum(self.widths)} signals; got {S.shape[1]}."
            )
        blocks = np.split(S, np.cumsum(self.widths)[:-1], axis=1)
        laws = [model.dist(block) for model, block in zip(self.models, blocks, strict=True)]
        return CrossFittedDraws(laws, self.tails)


def _is_model(model: Any) -> bool:
    if not isinstance(model, LossModel) or isinstance(model.engine, CrossFitted):
        return False
    has_laws = isinstance(model.support, Support) and isinstance(model.floor, Floor)
    has_gamma = model.gamma is None or hasattr(model.gamma, "predict")
    return has_laws and has_gamma and hasattr(model.engine, "predict_draws")
