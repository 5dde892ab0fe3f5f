"""The closed set of classes that an archive can hold, each known by its kind.

A file names kinds, and a kind is looked up among classes that are there already: ours, and those
the caller passes. Nothing is imported because a file names it, apart from the engines of this
library, which load when first used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from locuscore import engines
from locuscore._archive.container import ArchiveError
from locuscore._inputs.encoder import Encoder
from locuscore._inputs.fold_signals import FoldSignals
from locuscore._inputs.predictor import PredictionColumn
from locuscore._inputs.schema import Schema
from locuscore._inputs.signals import Signals
from locuscore._inputs.used_rows import UsedRows
from locuscore._laws.calibration import MarginalCalibration
from locuscore._laws.cross_fitted import CrossFitted
from locuscore._laws.distribution import Floor, Support
from locuscore._laws.gamma import KNNGamma
from locuscore._shared.kept import Kept, kept_of
from locuscore.calibration._by_group import GroupCalibration
from locuscore.calibration._clusters import ClusterCalibration, ClusterRowsCalibration
from locuscore.calibration._cross_fit import CrossFitCalibration
from locuscore.calibration._fading import FadingCalibration
from locuscore.calibration._out_of_bag import OutOfBagCalibration
from locuscore.calibration._overlap import OverlapCalibration
from locuscore.calibration._weighted import WeightedCalibration

HOW_TO_DECLARE = 'ARCHIVE = locuscore.Kept("Name", fields=("model_",), single=("unit_",))'


def declared(kind: type) -> Kept:
    """Return what a class declares, or say that it must."""
    kept = kept_of(kind) if isinstance(kind, type) else None
    if kept is None:
        name = getattr(kind, "__name__", repr(kind))
        raise TypeError(
            f"{name} is no class that says how it is kept, with an attribute such as "
            f"{HOW_TO_DECLARE}."
        )
    return kept


_OF_ROWS = (Encoder, FoldSignals, PredictionColumn, Schema, Signals, UsedRows)
_OF_LAWS = (Floor, KNNGamma, MarginalCalibration, Support)
CALIBRATIONS = (  # beside the marginal one
    ClusterCalibration,
    ClusterRowsCalibration,
    CrossFitCalibration,
    FadingCalibration,
    GroupCalibration,
    OutOfBagCalibration,
    OverlapCalibration,
    WeightedCalibration,
)
_ALWAYS_THERE = {
    declared(kind).kind: kind for kind in (*_OF_ROWS, *_OF_LAWS, *CALIBRATIONS, CrossFitted)
}


@dataclass(frozen=True)
class Kinds:
    """Classes by kind: ours, and others that the caller, or the class around an object, names."""

    others: Mapping[str, type] = field(default_factory=dict)

    @classmethod
    def of(cls, classes: Iterable[type]) -> "Kinds":
        """Return our kinds and those of the caller's classes; raise where two have one kind."""
        others: dict[str, type] = {}
        for one in classes:
            kind = declared(one).kind
            is_ours = kind in _ALWAYS_THERE or kind in engines.KEPT
            # One file must not mean two things, depending on what was passed to read it.
            if is_ours or others.setdefault(kind, one) is not one:
                owner = "a class of locuscore" if is_ours else others[kind].__name__
                raise ValueError(
                    f"{one.__name__} is kept as {kind!r}, and so is {owner}; give its ARCHIVE "
                    "another kind."
                )
        return cls(others)

    def inside(self, kind: type) -> "Kinds":
        """Return the kinds that the fields of a class may hold: these, and those of its own."""
        own = declared(kind).holds
        return Kinds({**self.others, **{declared(one).kind: one for one in own}}) if own else self

    def find(self, kind: Any) -> type | None:
        """Return the class of a kind; None where there is none."""
        if not isinstance(kind, str):
            return None
        if kind in engines.KEPT:  # by name, so that a missing package is named with its extra
            found: type = getattr(engines, kind)
            return found
        return _ALWAYS_THERE.get(kind) or self.others.get(kind)

    def named(self, kind: Any) -> type:
        """Return the class of a kind that a file names."""
        found = self.find(kind)
        if found is None:
            raise ArchiveError(
                f"it holds an object of the unknown kind {kind!r}; if that is a class of your own, "
                "pass it to Scorer.load(path, classes=[...]), or with --class module:name."
            )
        return found
