"""CrossFit: k loss models, and each row calibrates the one that has not seen it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from locuscore._inputs.fold_signals import FoldSignals
from locuscore._laws.calibration import (
    BaseCalibration,
    MarginalCalibration,
    check_tails,
    conformal_rank,
    sorted_tails,
    too_few_rows,
)
from locuscore._laws.cross_fitted import CrossFitted
from locuscore._laws.loss_model import LossModel
from locuscore._protocols import Calibration, FloatArray, IntArray, Part, Rows
from locuscore._shared.checks import check_count
from locuscore._shared.frames import n_rows
from locuscore._shared.kept import Kept
from locuscore._shared.progress import tracked
from locuscore._shared.seeds import spawn_seeds
from locuscore.calibration._all_rows import AllRows, AllRowsFit, refuse_extras
from locuscore.calibration._choice import Choice


@dataclass(frozen=True, repr=False)
class CrossFit(Choice):
    """All rows model the loss and all rows calibrate: k loss models in k folds of equal size.

    Signals, second opinion, engine and gamma are learned k times, each time without one fold. With
    ``w_i`` the tail of row i under the model without its fold, and ``S_f(tau | x)`` what the model
    without fold f says of a new row,

    ``exceedance(tau | x) = (1 + sum over f of #{i in f : w_i <= S_f(tau | x)}) / (n + 1)``,

    and the bound is its inverse. For new rows exchangeable with those of `fit`,

    ``P(Z <= U) >= 1 - 2 alpha - min{2 (1 - 1/k) / (n/k + 1), (1 - k/n) / (k + 1)}``,

    the bound of CV+ (Barber, Candes, Ramdas and Tibshirani 2021). Its proof compares rows two by
    two by models that have seen neither, so it holds for any score. The promise is weak (.72 for n
    = 60, k = 10 and alpha = .1) and must be: there are models for which coverage is far below 1 -
    alpha. Measured coverage is usually near ``1 - alpha``.

    It suits few rows, where a split leaves too little for either part. Fitting takes k times as
    long. Scoring inverts the k laws of a row at n levels in all: 8 times as long as after a split
    for a `Forest` and n = 500, and about 10 ms per row for engines whose laws are inverted by a
    search (`Bagged`, `Ensemble`).

    Parameters
    ----------
    k
        Number of folds, from 2 to the number of rows. Rows that are left over, fewer than k of
        them, model in every fold and calibrate in none, so that folds are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.calibration import CrossFit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=60)
    >>> locus = Locus(lambda X: X[:, 0], calibration=CrossFit(3), random_state=0).fit(X, y)
    >>> print(f"{1 - locus.calibration_.promised(0.1):.3f}")  # the floor at alpha = 0.1
    0.737
    """

    k: int = 10

    def check(self, X: Rows, clusters: IntArray | None, target: Rows | None) -> None:
        """Refuse a number of folds that the rows do not have, and what other calibrations use."""
        k, n = check_count(self.k, "k of CrossFit"), n_rows(X)
        if not 2 <= k <= n or n - n // k < 2:
            raise ValueError(
                f"CrossFit needs k from 2 to the number of rows, and 2 rows outside each fold; got "
                f"k = {k} and {n} rows. Pass more labelled rows, or another k."
            )
        refuse_extras("CrossFit", clusters is not None, target is not None)

    def calibrate(self, fit: Part, cal: Part, target: Rows | None, seed: int) -> Calibration:
        """Refuse: there is no D2 to calibrate with."""
        raise ValueError("CrossFit calibrates with all rows of fit, and has no use for a D2.")

    def fit_all(self, rows: AllRows, seed: int) -> AllRowsFit:
        """Learn from all but one fold, k times, and compute the tails of the fold left out."""
        n, k = len(rows.z), self.k
        order_seed, *seeds = spawn_seeds(seed, 1 + 2 * k)
        order = np.random.default_rng(order_seed).permutation(n)
        folds = np.sort(order[: n - n % k].reshape(k, -1), axis=1)
        signals, models, widths, tails = [], [], [], []
        parts = list(zip(folds, seeds[:k], seeds[k:], strict=True))
        for fold, engine_seed, opinion_seed in tracked(parts, "folds"):
            # In their own order, which is random among exchangeable rows.
            learned = rows.learn(np.setdiff1d(np.arange(n), fold), (engine_seed, opinion_seed))
            S = learned.signals(rows.outputs.take(fold))
            signals.append(learned.signals)
            models.append(learned.model)
            widths.append(S.shape[1])
            tails.append(np.sort(learned.model.tails(S, rows.z[fold])))
        engine = CrossFitted(models, widths, tails)
        # Gamma is part of each fold's laws.
        model = LossModel(engine, None, models[0].support, models[0].floor)
        calibration = CrossFitCalibration(np.sort(np.concatenate(tails)), k)
        return AllRowsFit(FoldSignals(signals), model, calibration, np.sort(folds, axis=None))


@dataclass(frozen=True, eq=False, repr=False)
class CrossFitCalibration(BaseCalibration):
    """Reads bounds off the cross-fitted law, which is calibrated as it stands.

    `tails` are those of all folds, ascending; `k` is the number of folds.
    """

    ARCHIVE = Kept("CrossFit", numbers=("tails",), single=("k",))
    holds_rows_out = False

    tails: FloatArray
    k: int

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if it is one."""
        tails, k = check_tails(parts["tails"]), parts["k"]
        if type(k) is not int or not 2 <= k <= len(tails) or len(tails) % k:
            raise ValueError("a cross-fitted calibration has no such number of equal folds")
        return cls(tails, k)

    def again(self, cal: Part) -> MarginalCalibration:
        """Marginal calibration on other rows, for which all rows of `fit` are D1."""
        return MarginalCalibration(sorted_tails(cal))

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None = None) -> FloatArray:
        """The smallest value above alpha that the survival of the cross-fitted law can have."""
        n = self.n
        ranks = [conformal_rank(n, float(share)) for share in np.ravel(alpha)]
        return np.array([(n + 2 - rank) / (n + 1) for rank in ranks]).reshape(np.shape(alpha))

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None = None) -> FloatArray:
        """The survival itself."""
        return survival

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that rows are too few for a finite bound at `alpha`; None if they are not."""
        is_enough = conformal_rank(self.n, alpha) <= self.n
        return None if is_enough else too_few_rows(self.n, alpha, top)

    def promised(self, alpha: float) -> float:
        """Largest probability of a loss above its bound, see `CrossFit`; at most 1."""
        size = self.n / self.k
        by_folds = 2 * (1 - 1 / self.k) / (size + 1)
        by_pairs = (1 - 1 / size) / (self.k + 1)
        return min(2 * alpha + min(by_folds, by_pairs), 1.0)

    def rule_facts(self, alpha: float) -> dict[str, Any]:
        """The promise of the bound; none is a heuristic."""
        standing = "theorem" if self.promised(alpha) < 1 else "heuristic"
        return {"promise": self.sentence([alpha]), "standing": standing}

    def sentence(self, alphas: Sequence[float]) -> str:
        """The floor for these alphas, and what to expect."""
        floors = [1 - self.promised(alpha) for alpha in alphas]
        least = ", ".join(
            f"{floor:.3g} at alpha = {alpha:g}" if floor > 0 else f"nothing at alpha = {alpha:g}"
            for floor, alpha in zip(floors, alphas, strict=True)
        )
        usual = ", ".join(f"{1 - alpha:.4g}" for alpha in alphas)
        return (
            f"Each of {self.n} rows calibrates a loss model that has not seen it ({self.k} folds). "
            f"For a new row exchangeable with them, the probability of a loss within its bound is "
            f"promised to be at least: {least} (the bound of CV+, on average over the draw of all "
            f"rows). Measured coverage is usually near {usual}, but that is not promised."
        )
