"""The families of laws that engines return. Shapes: rows, draws, components.

Each family has one `sf` and the upper inverse `isf` that goes with it; see `_protocols.LossDraws`.
"""

from locuscore._shared.numeric import smallest_scale
from locuscore.draws._combined import (
    AverageDraws,
    StackedDraws,
    TransformedDraws,
    WeightedDraws,
    average,
    envelope,
    estimate,
    floats_per_row,
    joint_isf,
)
from locuscore.draws._normal import EnvelopeDraws, MixtureDraws, NormalDraws
from locuscore.draws._points import GridDraws, ShapeDraws, StepDraws

__all__ = [
    "AverageDraws",
    "EnvelopeDraws",
    "GridDraws",
    "MixtureDraws",
    "NormalDraws",
    "ShapeDraws",
    "StackedDraws",
    "StepDraws",
    "TransformedDraws",
    "WeightedDraws",
    "average",
    "envelope",
    "estimate",
    "floats_per_row",
    "joint_isf",
    "smallest_scale",
]
