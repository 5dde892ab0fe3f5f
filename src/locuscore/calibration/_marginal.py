"""Marginal: one level for all rows."""

from dataclasses import dataclass

from locuscore._laws.calibration import MarginalCalibration, sorted_tails
from locuscore._protocols import CalibrationChoice, IntArray, Part, Rows
from locuscore._shared.checks import check_methods
from locuscore.calibration._choice import Choice
from locuscore.calibration._clusters import ClusterCalibration


@dataclass(frozen=True, repr=False)
class Marginal(Choice):
    """The default: new rows are exchangeable with those of D2 (Theorem 1).

    If `fit` is given clusters, whole clusters are exchangeable instead, and the promise is for a
    random row of a random new cluster (`ClusterCalibration`).

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.calibration import Marginal
    >>> from locuscore.engines import Scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), calibration=Marginal(), random_state=0)
    >>> locus.fit(X, y).loss_bound(X, alpha=0.1).shape
    (400,)
    """

    def check(self, X: Rows, clusters: IntArray | None, target: Rows | None) -> None:
        """Refuse what other calibrations are for."""
        if target is not None:
            raise ValueError(
                "fit was given a target sample, which marginal calibration has no use for; pass "
                "calibration=Shifted() to calibrate for its mix of rows."
            )

    def calibrate(
        self, fit: Part, cal: Part, target: Rows | None, seed: int
    ) -> MarginalCalibration | ClusterCalibration:
        """Keep the tails of D2, in order."""
        if cal.clusters is not None:
            return ClusterCalibration.of(cal)
        return MarginalCalibration(sorted_tails(cal))


def resolve_calibration(choice: CalibrationChoice | None) -> CalibrationChoice:
    """Return the choice of calibration; None is `Marginal`."""
    if choice is None:
        return Marginal()
    if isinstance(choice, type):
        name = choice.__name__
        raise TypeError(f"calibration must be an object, {name}(...); got the class {name}.")
    check_methods(choice, ["check", "calibrate"], "calibration")
    return choice
