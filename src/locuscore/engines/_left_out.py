"""Tails of rows of D1 by a forest that has not seen their losses: what a certificate is planned on.

The rows' order and which of them are bad is all that a plan needs. So where the engine is no
forest, or has many rows, a forest grown for this purpose stands in for it.
"""

import numpy as np

from locuscore._laws.distribution import LossDistribution
from locuscore._laws.loss_model import LossModel
from locuscore._laws.signed_errors import SignedErrors, fit_engine
from locuscore._protocols import FloatArray
from locuscore.engines._forest import Forest
from locuscore.engines._out_of_bag import out_of_bag_laws

MOST_ROWS = 10_000  # of an engine that is a forest; memory grows with rows times trees
MOST_STAND_IN_ROWS = 3_000


def left_out_tails(
    model: LossModel, S: FloatArray, z: FloatArray, errors: SignedErrors | None, tau: float
) -> tuple[FloatArray, FloatArray]:
    """``P(Z > tau | x)`` of rows of D1 by trees and leaves without them, and their losses."""
    forest = model.engine
    if not isinstance(forest, Forest) or len(z) > MOST_ROWS:
        some = np.random.default_rng(0).permutation(len(z))[:MOST_STAND_IN_ROWS]
        S, z, errors = S[some], z[some], None if errors is None else errors.take(some)
        forest = fit_engine(Forest(random_state=0), S, z, errors)
    tails = np.full(len(z), np.nan)
    for rows, draws in out_of_bag_laws(forest, S, z, errors):
        law = LossDistribution(draws, None, model.support, model.floor)
        tails[rows] = law.sf(np.full(len(rows), tau))
    known = ~np.isnan(tails)  # a row that all trees have seen has none
    return tails[known], z[known]
