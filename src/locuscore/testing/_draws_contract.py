"""What a family of draws overrides, beside the slow definitions by `sf` and `isf`."""

import numpy as np

from locuscore._protocols import FloatArray, IntArray, LossDraws
from locuscore.draws import Draws, WeightedDraws, average, envelope, estimate
from locuscore.draws._base import as_draws
from locuscore.testing._contract_names import OVERRIDES, require

SAME_SURVIVAL = 1e-9
SAME_PLACE = 1e-9  # relative to the size of an inverse and the spread of its law


def check_overrides(draws: LossDraws, z_grid: FloatArray, levels: FloatArray) -> None:
    """Compare average, envelope, joint inverses, knots and memory with what defines them."""
    stack = as_draws(draws)
    size = stack.floats_per_row
    require(size >= 1, OVERRIDES, f"floats_per_row is {size}, which bounds no memory")
    _check_average(stack, z_grid)
    _check_levels(average(stack), levels, "average()")
    guess = estimate(stack)
    require(guess.shape == (stack.shape[0], 1), OVERRIDES, f"estimate() has shape {guess.shape}")
    n, n_draws = stack.shape
    for rank in sorted({1, (n_draws + 1) // 2, n_draws}) if n_draws > 1 else ():
        ranks = np.full(n, rank)
        _check_envelope(stack, ranks, z_grid, levels)
        _check_levels(envelope(stack, ranks), levels, f"envelope({rank})")


def column(draws: LossDraws, value: float) -> FloatArray:
    """One number for all rows, in the shape that the protocol promises to take."""
    return np.full((draws.shape[0], 1), value)


def _check_average(draws: Draws, z_grid: FloatArray) -> None:
    law = average(draws)
    require(law.shape == (draws.shape[0], 1), OVERRIDES, f"average() has shape {law.shape}")
    if isinstance(draws, WeightedDraws):
        return  # its parts pair their draws by starting over, but count each once in the mean
    for z in z_grid:
        at = column(draws, z)
        gap = np.abs(law.sf(at)[:, 0] - draws.sf(at).mean(axis=1))
        problem = f"average() is off the mean survival by up to {gap.max():.2g} at z = {z:g}"
        require(gap <= SAME_SURVIVAL, OVERRIDES, problem)


def _check_envelope(draws: Draws, ranks: IntArray, z_grid: FloatArray, levels: FloatArray) -> None:
    law, place = envelope(draws, ranks), -int(ranks[0])
    require(law.shape == (draws.shape[0], 1), OVERRIDES, f"envelope() has shape {law.shape}")
    for z in z_grid:
        at = column(draws, z)
        gap = np.abs(law.sf(at)[:, 0] - np.sort(draws.sf(at), axis=1)[:, place])
        problem = f"envelope() is off the ranked survival by up to {gap.max():.2g} at z = {z:g}"
        require(gap <= SAME_SURVIVAL, OVERRIDES, problem)
    for level in levels:
        at = column(draws, level)
        inverses = np.sort(draws.isf(at), axis=1)
        slack = SAME_PLACE * (np.abs(inverses[:, place]) + np.ptp(inverses, axis=1))
        same = np.abs(law.isf(at)[:, 0] - inverses[:, place]) <= slack
        require(same, OVERRIDES, f"envelope() inverts to another place at level {level:g}")


def _check_levels(law: Draws, levels: FloatArray, name: str) -> None:
    """Levels shared by all rows, and the same ones shuffled in each row."""
    n, m = law.shape[0], len(levels)
    alone = np.hstack([law.isf(column(law, level)) for level in levels])
    slack = SAME_PLACE * (np.abs(alone) + np.ptp(alone, axis=1, keepdims=True))
    shared = law.joint_isf(levels)
    require(shared.shape == (n, m), OVERRIDES, f"joint_isf of {name} has shape {shared.shape}")
    together = f"joint_isf of {name} is not isf, level by level"
    require(np.abs(shared - alone) <= slack, OVERRIDES, together)
    below = [law.sf(shared[:, [j]])[:, 0] < level for j, level in enumerate(levels)]
    require(below, OVERRIDES, f"joint_isf of {name} stops where survival has not fallen below")
    order = np.random.default_rng(0).permuted(np.tile(np.arange(m), (n, 1)), axis=1)
    gap = np.abs(law.joint_isf(levels[order]) - np.take_along_axis(alone, order, axis=1))
    require(
        gap <= np.take_along_axis(slack, order, axis=1),
        OVERRIDES,
        f"joint_isf of {name} gives other places for levels (n, m), one set per row",
    )
    knots = law.knots(levels)
    usable = knots.ndim == 2 and len(knots) == n and np.isfinite(knots).all()
    require(usable, OVERRIDES, f"knots of {name} are not finite places, (n, k)")
