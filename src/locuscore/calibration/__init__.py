"""Calibrations: what new rows the promise is made for, one argument of `Locus`.

A choice, such as `Marginal`, is passed to ``Locus(g, calibration=...)``. With the tails of D2,
`fit` makes of it the object that turns alpha into a level per row, ``locus.calibration_``.
`CrossFit` and `OutOfBag` have no D2: all rows model the loss and all rows calibrate.
"""

from typing import TYPE_CHECKING

from locuscore._shared.lazy_names import lazy_names

if TYPE_CHECKING:
    from locuscore.calibration._by_group import ByGroup
    from locuscore.calibration._clusters import ClusterRows
    from locuscore.calibration._cross_fit import CrossFit
    from locuscore.calibration._marginal import Marginal
    from locuscore.calibration._out_of_bag import OutOfBag
    from locuscore.calibration._shifted import Shifted

_HOMES = {
    "ByGroup": "_by_group",
    "ClusterRows": "_clusters",
    "CrossFit": "_cross_fit",
    "Marginal": "_marginal",
    "OutOfBag": "_out_of_bag",
    "Shifted": "_shifted",
}

__all__ = [
    "ByGroup",
    "ClusterRows",
    "CrossFit",
    "Marginal",
    "OutOfBag",
    "Shifted",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
