"""The families of laws that engines return. Shapes: rows, draws, components.

Each family derives from `Draws` and has one `sf` and the upper inverse `isf` that goes with it.
"""

from locuscore.draws._base import (
    AverageDraws,
    Draws,
    RankedDraws,
    average,
    envelope,
    estimate,
    floats_per_row,
    joint_isf,
)
from locuscore.draws._combined import StackedDraws, TransformedDraws, WeightedDraws
from locuscore.draws._normal import EnvelopeDraws, MixtureDraws, NormalDraws
from locuscore.draws._points import GridDraws, ShapeDraws, StepDraws
from locuscore.draws._scale import smallest_scale
from locuscore.draws._spline import SplineDraws
from locuscore.draws._survival import SurvivalDraws

__all__ = [
    "AverageDraws",
    "Draws",
    "EnvelopeDraws",
    "GridDraws",
    "MixtureDraws",
    "NormalDraws",
    "RankedDraws",
    "ShapeDraws",
    "SplineDraws",
    "StackedDraws",
    "StepDraws",
    "SurvivalDraws",
    "TransformedDraws",
    "WeightedDraws",
    "average",
    "envelope",
    "estimate",
    "floats_per_row",
    "joint_isf",
    "smallest_scale",
]
