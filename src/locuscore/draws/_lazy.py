"""Laws that are made when they are asked for, a few rows at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.blocks import row_blocks
from locuscore._shared.threads import in_threads
from locuscore.draws._base import Draws, average, envelope, estimate

Question = Callable[[Draws, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False, repr=False)
class LazyDraws(Draws):
    """Laws of many rows, of which a few at a time are in memory: those that `make` gives.

    `make(rows)` gives the laws of rows by their positions, `n_draws` of each, and `at_a_time` says
    of how many. They are taken in the given `order`, made again for every question, and so should
    be cheap beside it. `floats` is what a row takes all the time. `n_jobs` of these parts are made
    and asked at the same time.
    """

    make: Callable[[IntArray], Draws]
    order: IntArray
    n_draws: int
    at_a_time: int
    floats: int
    n_jobs: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.order), self.n_draws)

    @property
    def floats_per_row(self) -> int:
        return self.floats

    def sf(self, z: FloatArray) -> FloatArray:
        return self._asked(lambda laws, at: laws.sf(at), z)

    def isf(self, level: FloatArray) -> FloatArray:
        return self._asked(lambda laws, at: laws.isf(at), level)

    def average(self) -> "LazyDraws":
        """The mean of the laws, as lazy as they are."""
        return self._reduced(lambda rows: average(self.make(rows)))

    def estimate(self) -> "LazyDraws":
        """The estimate of the laws, as lazy as they are."""
        return self._reduced(lambda rows: estimate(self.make(rows)))

    def envelope(self, rank: IntArray) -> "LazyDraws":
        """The envelope of the laws, as lazy as they are."""
        return self._reduced(lambda rows: envelope(self.make(rows), rank[rows]))

    @property
    def inverts_jointly(self) -> bool:
        return self.make(self.order[:1]).inverts_jointly

    def joint_isf(self, level: FloatArray) -> FloatArray:
        return self._asked(lambda laws, at: laws.joint_isf(at), level)

    def knots(self, level: FloatArray) -> FloatArray:
        return self._asked(lambda laws, at: laws.knots(at), level)

    def _reduced(self, make: Callable[[IntArray], Draws]) -> "LazyDraws":
        return replace(self, make=make, n_draws=1)

    def _asked(self, question: Question, argument: FloatArray) -> FloatArray:
        """Ask all laws, each about its own part of an argument that has one per row."""
        values = np.asarray(argument)
        is_per_row = values.ndim == 2 and len(values) == len(self.order)

        def ask(part: slice) -> FloatArray:
            rows = self.order[part]
            return question(self.make(rows), values[rows] if is_per_row else values)

        parts = row_blocks(len(self.order), 1, self.at_a_time)
        answers = np.concatenate(in_threads(ask, parts, self.n_jobs))
        out = np.empty_like(answers)
        out[self.order] = answers
        return out
