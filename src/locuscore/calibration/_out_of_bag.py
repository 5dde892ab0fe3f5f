"""OutOfBag: one forest on all rows, and each row's tail from the trees that have not seen it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locuscore._laws.calibration import (
    BaseCalibration,
    MarginalCalibration,
    conformal_rank,
    too_few_rows,
)
from locuscore._laws.distribution import LossDistribution
from locuscore._protocols import Calibration, IntArray, Part, Rows
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds
from locuscore.calibration._all_rows import AllRows, AllRowsFit, refuse_extras
from locuscore.calibration._choice import Choice
from locuscore.engines._forest import Forest
from locuscore.engines._out_of_bag import out_of_bag_laws


@dataclass(frozen=True, repr=False)
class OutOfBag(Choice):
    """All rows grow one forest, and each calibrates with the trees that were grown without it.

    The tail of a row is that of the trees that have not seen it, with its own loss taken out of
    their leaves; the second opinion among its signals is out of fold. New rows have the law of the
    whole forest, at the level of marginal calibration. This costs no more than a split.

    It is a heuristic: no theorem covers it, because the law of a new row rests on more trees and on
    one row more than those that calibrate it. Measured coverage is close to ``1 - alpha``, see
    benchmarks/choices/out_of_bag.py; `CrossFit` has a theorem. The engine must be a `Forest`, and
    gamma is not supported. While fitting, memory grows with rows times trees, 60 bytes for each.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.calibration import OutOfBag
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=60)
    >>> locus = Locus(lambda X: X[:, 0], calibration=OutOfBag(), random_state=0).fit(X, y)
    >>> locus.calibration_.n, locus.calibration_.promised(0.1)  # all rows, and no promise
    (60, 1.0)
    """

    def check(self, X: Rows, clusters: IntArray | None, target: Rows | None) -> None:
        """Refuse what other calibrations are for."""
        refuse_extras("OutOfBag", clusters is not None, target is not None)

    def calibrate(self, fit: Part, cal: Part, target: Rows | None, seed: int) -> Calibration:
        """Refuse: there is no D2 to calibrate with."""
        raise ValueError("OutOfBag calibrates with all rows of fit, and has no use for a D2.")

    def fit_all(self, rows: AllRows, seed: int) -> AllRowsFit:
        """Grow a forest on all rows, and compute the tail of each without its own loss."""
        if not isinstance(rows.engine, Forest):
            raise ValueError(
                "OutOfBag needs the trees of a Forest, the default engine; got "
                f"{type(rows.engine).__name__}. CrossFit takes any engine."
            )
        if rows.gamma is not None:
            raise ValueError(
                "OutOfBag takes no gamma: rows have different numbers of trees, so their envelopes "
                "cannot be compared. CrossFit takes gamma."
            )
        engine_seed, opinion_seed = spawn_seeds(seed, 2)
        learned = rows.learn(np.arange(len(rows.z)), (engine_seed, opinion_seed))
        model, forest = learned.model, learned.model.engine
        assert isinstance(forest, Forest)
        tails = np.full(len(rows.z), np.nan)
        for at, draws in out_of_bag_laws(forest, learned.fit_signals, rows.z, learned.errors):
            law = LossDistribution(draws, None, model.support, model.floor)
            tails[at] = law.tail(rows.z[at])
        known = np.flatnonzero(~np.isnan(tails))
        if not len(known):
            raise ValueError(
                f"every row was seen by all {forest.n_trees} trees, so OutOfBag has no tails; pass "
                "an engine Forest with more trees."
            )
        calibration = OutOfBagCalibration(np.sort(tails[known]))
        return AllRowsFit(learned.signals, model, calibration, known)


@dataclass(frozen=True, eq=False, repr=False)
class OutOfBagCalibration(MarginalCalibration):
    """The level of marginal calibration, from tails that are out of bag; a heuristic."""

    ARCHIVE = Kept("OutOfBag", numbers=("tails",))
    holds_rows_out = False
    has_law = False
    # Tails of new rows and those that calibrate are not exchangeable, so nothing exact is known.
    coverage_law = BaseCalibration.coverage_law
    coverage_p_value = BaseCalibration.coverage_p_value
    urns = BaseCalibration.urns

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that rows are too few for a finite bound at `alpha`; None if they are not."""
        is_enough = conformal_rank(self.n, alpha) <= self.n
        return None if is_enough else too_few_rows(self.n, alpha, top)

    def promised(self, alpha: float) -> float:
        """Nothing is promised."""
        return 1.0

    def rule_facts(self, alpha: float) -> dict[str, Any]:
        """What the bound aims at; a rule on it is a heuristic too."""
        return {"promise": self.sentence([alpha]), "standing": "heuristic"}

    def sentence(self, alphas: Sequence[float]) -> str:
        """That this is a heuristic, and what it aims at."""
        shares = ", ".join(f"{alpha:g}" for alpha in alphas)
        return (
            f"Heuristic, nothing is promised: each of {self.n} rows calibrates with the trees of "
            "the forest that have not seen it, and no theorem covers that. For rows exchangeable "
            f"with them, the loss is meant to exceed its bound for the share alpha = {shares}; "
            "check it on fresh labelled rows, or use CrossFit, which has a theorem."
        )
