"""The families of laws that engines return. Shapes: rows, draws, components.

Each family derives from `Draws` and has one `sf` and the upper inverse `isf` that goes with it.
"""

from typing import TYPE_CHECKING

from locuscore._shared.lazy_names import lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "AverageDraws": "_base",
    "Draws": "_base",
    "EnvelopeDraws": "_normal",
    "GridDraws": "_points",
    "MixtureDraws": "_normal",
    "NormalDraws": "_normal",
    "RankedDraws": "_base",
    "ShapeDraws": "_points",
    "SplineDraws": "_spline",
    "StackedDraws": "_combined",
    "StepDraws": "_points",
    "SurvivalDraws": "_survival",
    "TransformedDraws": "_combined",
    "WeightedDraws": "_combined",
    "average": "_base",
    "envelope": "_base",
    "estimate": "_base",
    "floats_per_row": "_base",
    "joint_isf": "_base",
    "smallest_scale": "_scale",
}

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
