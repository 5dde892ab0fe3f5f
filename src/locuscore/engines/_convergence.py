"""Do the chains of a sampler agree, and what to say when they do not."""

import warnings

import numpy as np

from locuscore._protocols import FloatArray
from locuscore._shared.checks import LocusWarning

LARGEST_SPLIT_RHAT = 1.5
LEAST_DRAWS_PER_HALF = 10  # fewer say nothing about agreement
LOOKED_AT_ROWS = 5


def largest_split_rhat(location: FloatArray, log_scale: FloatArray, n_chains: int) -> float:
    """Largest split R-hat of the mean location, the mean log scale and a few rows' location.

    ``sqrt((h - 1) / h + between / within)`` over half chains of h draws: 1 where all agree, nan
    where they are too short to say. Both arrays are (rows of D1, draws), one chain after the other.
    """
    rows = np.linspace(0, len(location) - 1, LOOKED_AT_ROWS).astype(np.int64)
    traces = np.vstack([location.mean(axis=0), log_scale.mean(axis=0), location[rows]])
    half = traces.shape[1] // n_chains // 2
    if half < LEAST_DRAWS_PER_HALF:
        return float("nan")
    chains = traces.reshape(len(traces), n_chains, -1)[:, :, : 2 * half]
    halves = chains.reshape(len(traces), 2 * n_chains, half)
    within = halves.var(axis=2, ddof=1).mean(axis=1)
    between = halves.mean(axis=2).var(axis=1, ddof=1)
    ratio = np.divide(between, within, out=np.zeros(len(traces)), where=within > 0)
    return float(np.sqrt((half - 1) / half + ratio).max())


def warn_if_apart(rhat: float, engine: str, remedy: str) -> None:
    """Say in one line that the chains disagree."""
    if rhat > LARGEST_SPLIT_RHAT:
        warnings.warn(
            f"the chains of {engine} disagree (split R-hat {rhat:.2f}): bounds stay valid, but "
            f"depend on the seed more than they should; try {remedy}.",
            LocusWarning,
            stacklevel=3,
        )
