"""The contracts by name, and what to do about each."""

from typing import Any

import numpy as np

PROTOCOL = "protocol"
OVERRIDES = "draws, what a family overrides"
UPPER_INVERSE = "contract 1, upper inverse"
ROUNDING = "contract 2, rounding is guarded once"
LEVEL_ZERO = "contract 3, level zero is infinity"
NOT_EARLY = "contract 4, no law ends early"
NO_RANDOMNESS = "contract 5, nothing is random after fit"
ROWS_INDEPENDENT = "contract 6, rows are independent"
HELD_OUT = "contract 7, D2 is held out"
SCALE = "contract 8, scale"
MONOTONE = "contract 9, monotone"
ROUND_TRIP = "contract 10, round trip"
FREE_IDENTITY = "contract 11, the free identity"
SUPPORT = "contract 12, support"
MISSING = "missing values"

_REMEDIES = {
    PROTOCOL: "`fit` returns self and changes no argument; `predict_draws` returns an object with "
    "`shape` (rows, draws), `sf` and `isf`, finite and broadcast against that shape.",
    OVERRIDES: "`average`, `envelope`, `joint_isf`, `knots` and `floats_per_row` of a family must "
    "agree with its own `sf` and `isf`; if in doubt, leave them to the base class `Draws`.",
    UPPER_INVERSE: "Return isf(s) = sup{z : sf(z) >= s}, the right end where a law is flat, and "
    "check that it inverts this same sf.",
    ROUNDING: "Check that sf falls below every positive level.",
    LEVEL_ZERO: "isf must accept level 0; Locus turns it into infinity, or the support's top.",
    NOT_EARLY: "Add a tail beyond the last point, as StepDraws and GridDraws have, and estimate "
    "shapes and residuals out of fold.",
    NO_RANDOMNESS: "Draw masks, posterior samples and seeds in `fit` and store them.",
    ROWS_INDEPENDENT: "Learn means, scales and encodings in `fit`; use no statistic of the batch.",
    HELD_OUT: "Learn from what `fit` is given, and keep nothing outside the engine.",
    SCALE: "Make every floor, offset and starting value relative to the losses of D1.",
    MONOTONE: "sf never rises with z, and isf never with the level: sort crossing quantiles.",
    ROUND_TRIP: "Store parameters untouched, and read `random_state` in `fit` only.",
    FREE_IDENTITY: "sf and isf disagree, or a law depends on the batch.",
    SUPPORT: "sf and isf must belong to the same law; leave the support to LossDistribution.",
    MISSING: "Handle missing signals, or raise a ValueError that says they are not accepted.",
}


def require(holds: Any, contract: str, problem: str) -> None:
    """Raise an AssertionError that names the contract, the problem and the remedy."""
    if not np.all(holds):
        raise AssertionError(f"{contract}: {problem}. {_REMEDIES[contract]}")
