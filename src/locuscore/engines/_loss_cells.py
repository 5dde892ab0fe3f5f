"""Losses on a scale from 0 to 1, cosine series of their density, and the law of such a series.

A law is a share for each cell of that scale, and one for each atom.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from locuscore._protocols import FloatArray
from locuscore._shared.kept import Kept

N_CELLS = 128
ATOM_SHARE = 0.02  # of D1; a loss that more rows share is an atom
LINEAR_UNTIL = 0.2  # of the mean size of the losses; beyond it the scale is logarithmic
MOST_CELLS = 1_000  # in an archive


@dataclass(frozen=True, eq=False)
class LossCells:
    """Cells of equal width on the scale of the series, and the atoms.

    `ends` are the ends of the cells as losses, ascending, or nothing if all losses are atoms.
    Between two ends, u in [0, 1] is a straight line of the loss.
    """

    ARCHIVE = Kept("LossCells", numbers=("atoms", "ends"))

    atoms: FloatArray
    ends: FloatArray

    @classmethod
    def learned(cls, z: FloatArray) -> Self:
        """From the smallest to the largest loss of D1, in equal steps of ``log(1 + z / unit)``."""
        values, counts = np.unique(z, return_counts=True)
        is_atom = (counts > 1) & (counts > ATOM_SHARE * len(z))
        rest = z[~np.isin(z, values[is_atom])]
        if len(np.unique(rest)) < 2:
            return cls(values, np.empty(0))
        unit = LINEAR_UNTIL * float(np.mean(np.abs(rest)))
        low, high = (
            np.sign(end) * np.log1p(np.abs(end) / unit) for end in (rest.min(), rest.max())
        )
        steps = np.linspace(low, high, N_CELLS + 1)
        ends = np.sign(steps) * unit * np.expm1(np.abs(steps))
        ends[[0, -1]] = rest.min(), rest.max()
        # Losses that differ by rounding only have fewer cells.
        return cls(values[is_atom], np.unique(np.clip(ends, ends[0], ends[-1])))

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the cells that an archive holds, if they are some."""
        found = atoms, ends = [parts[name] for name in ("atoms", "ends")]
        are_lists = all(
            isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype == np.float64
            for part in found
        )
        if not are_lists or len(ends) == 1 or not 0 < len(atoms) + len(ends) <= MOST_CELLS:
            raise ValueError(f"the cells of a FlexCode are none, or more than {MOST_CELLS}")
        if not all(np.isfinite(part).all() and (np.diff(part) > 0).all() for part in found):
            raise ValueError("the cells of a FlexCode are not in order")
        return cls(atoms, ends)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return max(len(self.ends) - 1, 0)

    def targets(self, z: FloatArray, n_basis: int) -> FloatArray:
        """What is to be regressed on the signals: ``phi_j(u) / j`` and the indicators of atoms.

        The first are zero at atoms. Divided by j, the squared error of all cosines is that of the
        distribution function, so trees do not split by the noise of high frequencies.
        """
        at = z[:, None] == self.atoms
        if not self.n_cells:
            return at.astype(np.float64)
        j = np.arange(1, n_basis + 1)
        u = np.interp(z, self.ends, self._scale)
        cosines = np.sqrt(2) * np.cos(np.pi * j * u[:, None]) / j
        return np.hstack([np.where(at.any(axis=1)[:, None], 0.0, cosines), at])

    def shares(self, coefficients: FloatArray, power: float = 1.0) -> FloatArray:
        """Laws (n, cells and atoms) of coefficients: those of cosines first, then of atoms."""
        n_basis = coefficients.shape[1] - len(self.atoms)
        if not 0 <= n_basis <= MOST_CELLS:
            raise ValueError(
                f"{coefficients.shape[1]} coefficients do not go with {len(self.atoms)} atoms."
            )
        atoms = np.clip(coefficients[:, n_basis:], 0.0, 1.0)
        total = atoms.sum(axis=1, keepdims=True)
        if not self.n_cells:
            # A model may say of a row that it has none of the losses.
            return np.where(total > 0, atoms, 1.0) / np.where(total > 0, total, len(self.atoms))
        atoms /= np.maximum(total, 1.0)
        rest = np.maximum(1.0 - atoms.sum(axis=1, keepdims=True), 0.0)
        j = np.arange(1, n_basis + 1)[:, None]
        # j from the targets, and 1 / j from the integral of a cosine, cancel.
        integrals = np.diff(np.sqrt(2) * np.sin(np.pi * j * self._scale) / np.pi, axis=1)
        mass = _proper(rest / self.n_cells + coefficients[:, :n_basis] @ integrals, rest)
        largest = mass.max(axis=1, keepdims=True)
        mass = (mass / np.where(largest > 0, largest, 1.0)) ** power
        size = mass.sum(axis=1, keepdims=True)
        mass = np.where(size > 0, mass, 1.0) / np.where(size > 0, size, self.n_cells)
        return np.hstack([rest * mass, atoms])

    def seen(self, z: FloatArray) -> FloatArray:
        """Share of losses in each cell and at each atom, and of one more that may lie anywhere."""
        at = z[:, None] == self.atoms
        counts = np.zeros(0)
        if self.n_cells:
            counts = np.histogram(z[~at.any(axis=1)], self.ends)[0] + 1.0 / self.n_cells
        counts = np.concatenate([counts, at.sum(axis=0)])
        return counts / counts.sum()

    def score(self, shares: FloatArray, z: FloatArray) -> float:
        """Mean over rows of ``integral f(u)^2 du - 2 f(u_i)``, without the atoms.

        Up to a constant it is the expected squared error of the density.
        """
        density = shares[:, : self.n_cells] * self.n_cells
        cell = np.clip(np.searchsorted(self.ends, z, side="right") - 1, 0, self.n_cells - 1)
        is_atom = (z[:, None] == self.atoms).any(axis=1)
        own = np.where(is_atom, 0.0, density[np.arange(len(z)), cell])
        return float(np.mean(np.mean(density**2, axis=1) - 2.0 * own))

    @property
    def places(self) -> FloatArray:
        """Ends of the cells, and each atom twice, as `SurvivalDraws` takes them."""
        return self._layout[0]

    def survival(self, shares: FloatArray) -> FloatArray:
        """Survival (n, places) of laws; 1 at the first place and 0 at the last."""
        above = shares @ self._layout[1]
        return np.minimum.accumulate(np.clip(above / above[:, :1], 0.0, 1.0), axis=1)

    @property
    def _scale(self) -> FloatArray:
        """The ends of the cells on the scale of the series."""
        return np.linspace(0.0, 1.0, len(self.ends))

    @cached_property
    def _layout(self) -> tuple[FloatArray, FloatArray]:
        """The places, and how much of each cell and atom lies above each of them."""
        places = np.concatenate([self.atoms, self.ends, self.atoms])
        second = np.arange(len(places)) >= len(self.atoms) + len(self.ends)
        order = np.argsort(places, kind="stable")  # so the first copy of an atom stays the first
        places, second = places[order], second[order]
        low, high = self.ends[:-1, None], self.ends[1:, None]
        cells = np.clip((high - places) / (high - low), 0.0, 1.0)
        atoms = (self.atoms[:, None] > places) | ((self.atoms[:, None] == places) & ~second)
        return places, np.vstack([cells, atoms])


def _proper(mass: FloatArray, total: FloatArray) -> FloatArray:
    """``max(mass - c, 0)`` with c such that each row has its total: the nearest such shares.

    The rows have that total already, with parts below zero; c is then at least zero, so small bumps
    vanish (Glad, Hjort and Ushakov, 2003).
    """
    falling = -np.sort(-mass, axis=1)
    # With the k largest values kept, c follows from their sum; k is the last to stay above its c.
    c = (np.cumsum(falling, axis=1) - total) / np.arange(1, mass.shape[1] + 1)
    kept = np.maximum(np.count_nonzero(falling > c, axis=1, keepdims=True), 1)
    return np.maximum(mass - np.take_along_axis(c, kept - 1, axis=1), 0.0)
