"""Calibrations without D2: all rows model the loss, and all rows calibrate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from locuscore._inputs.fold_signals import FoldSignals
from locuscore._inputs.outputs import Outputs
from locuscore._inputs.signals import Signals
from locuscore._laws.loss_model import LossModel
from locuscore._laws.signed_errors import SignedErrors
from locuscore._protocols import Calibration, FloatArray, GammaModel, IntArray, LossEngine


@dataclass(frozen=True, eq=False)
class Learned:
    """What some rows taught: the signals, those of the rows (out of fold), and the loss model.

    `errors` and `spread` are what its engine may have been told besides, see `fit_engine`.
    """

    signals: Signals
    fit_signals: FloatArray
    model: LossModel
    errors: SignedErrors | None
    spread: int | None


@dataclass(frozen=True, eq=False)
class AllRows:
    """The rows of `fit`, and how some of them are learned from, given two seeds.

    `engine` and `gamma` are what the loss model is made of, not fitted.
    """

    outputs: Outputs
    z: FloatArray
    learn: Callable[[IntArray, tuple[int, int]], Learned]
    engine: LossEngine
    gamma: GammaModel | None


@dataclass(frozen=True, eq=False)
class AllRowsFit:
    """What all rows taught; `calibration_rows` are the positions of those that have a tail."""

    signals: Signals | FoldSignals
    model: LossModel
    calibration: Calibration
    calibration_rows: IntArray


@runtime_checkable
class UsesAllRows(Protocol):
    """A choice of calibration that holds no rows out; it does not `calibrate`, it fits."""

    def fit_all(self, rows: AllRows, seed: int) -> AllRowsFit:
        """Learn from all rows, and calibrate with all of them."""


def refuse_extras(name: str, has_clusters: bool, has_target: bool) -> None:
    """Raise if `fit` was given what a calibration by all rows cannot use."""
    if has_clusters:
        raise ValueError(
            f"{name} treats rows one by one and takes no clusters; leave calibration out to keep "
            "clusters whole in one split."
        )
    if has_target:
        raise ValueError(
            f"fit was given a target sample, which {name} has no use for; pass "
            "calibration=Shifted() to calibrate for its mix of rows."
        )
