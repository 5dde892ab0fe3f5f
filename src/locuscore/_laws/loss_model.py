"""LossModel: the laws of the loss at rows given by their signals, a few rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from locuscore._laws.distribution import Floor, LossDistribution, Support
from locuscore._laws.gamma import phi_of
from locuscore._protocols import FittedEngine, FloatArray, GammaModel
from locuscore._shared.blocks import row_blocks
from locuscore._shared.kept import Kept
from locuscore.draws import floats_per_row

FIRST_ROWS = 64  # so few fit into memory whatever a row takes, and a request of so many is one call


@dataclass(frozen=True)
class LossModel:
    """A fitted engine and gamma with the support of the loss: a function of D1 alone."""

    ARCHIVE = Kept("LossModel", fields=("engine", "gamma", "support", "floor"))

    engine: FittedEngine
    gamma: GammaModel | None
    support: Support
    floor: Floor

    def dist(self, S: FloatArray) -> LossDistribution:
        """Laws of all rows at once."""
        draws = self.engine.predict_draws(S)
        gamma = None
        if self.gamma is not None:
            gamma = self.gamma.predict(phi_of(self.gamma, self.engine, S))
        if gamma is not None and draws.shape[1] == 1:
            raise ValueError(
                f"gamma needs several draws per row, but {type(self.engine).__name__} gives one; "
                "use engines.Bagged(engine, n_draws=20), or Forest."
            )
        return LossDistribution(draws, gamma, self.support, self.floor)

    def blocks(self, S: FloatArray) -> Iterator[tuple[slice, LossDistribution]]:
        """Laws of consecutive rows, few enough at a time to bound memory.

        The laws of the first rows tell how much memory a row takes.
        """
        first = slice(0, min(len(S), FIRST_ROWS))
        if not len(S):
            return
        laws = self.dist(S[first])
        width = floats_per_row(laws.draws)
        yield first, laws
        del laws
        for rows in row_blocks(len(S) - first.stop, width):
            at = slice(first.stop + rows.start, first.stop + rows.stop)
            yield at, self.dist(S[at])

    def survival(self, S: FloatArray, tau: float) -> FloatArray:
        """``P(Z > tau | x)`` of each row."""
        out = np.empty(len(S))
        for rows, dist in self.blocks(S):
            out[rows] = dist.sf(np.full(rows.stop - rows.start, tau))
        return out

    def tails(self, S: FloatArray, z: FloatArray) -> FloatArray:
        """``P(Z >= z | x)`` at the loss of each row; raises if ``isf`` does not invert ``sf``."""
        tails = np.empty(len(z))
        for rows, dist in self.blocks(S):
            tails[rows] = dist.tail(z[rows])
            # A cheap and exact check: if each row is covered at its own level, then at every alpha
            # k calibration rows are covered.
            broken = ~((tails[rows] >= 0) & (tails[rows] <= 1))
            own = dist.isf(np.where(broken, 0.0, tails[rows]))
            missed = broken | (z[rows] > own + 1e-9 * np.abs(z[rows]))
            if missed.any():
                raise RuntimeError(
                    f"the laws of {type(self.engine).__name__} are inconsistent: isf(sf) falls "
                    f"below the loss for {int(missed.sum())} of {len(missed)} calibration rows, or "
                    "sf is no probability. Run locuscore.testing.check_engine on it."
                )
        return tails
