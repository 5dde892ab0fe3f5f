"""Data for which the conditional distribution of the absolute loss is known, for any predictor.

Five features, uniform on (0, 1), of which the first three are active. With probability `p(x)` the
target is exactly `rule(x)`; otherwise it is ``mean(x) + scale(x) * noise`` with symmetric noise.
For a predictor g, ``|Y - g(x)|`` then has an atom at ``|rule(x) - g(x)|``, exactly zero where g is
the rule, and otherwise a folded distribution with a closed-form survival function. So the truth
about the loss is known for every g, and no g is needed to draw the data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from locuscore._inputs.predictor import predict
from locuscore._protocols import FloatArray
from locuscore._shared.checks import check_alpha, check_tau

N_FEATURES = 5

Function = Callable[[FloatArray], FloatArray]


def _zero(X: FloatArray) -> FloatArray:
    return np.zeros(len(X))


@dataclass(frozen=True)
class Noise:
    """A law symmetric about zero: its survival function, the inverse of it, and draws."""

    sf: Function
    isf: Function
    draw: Callable[[np.random.Generator, int], FloatArray]


@dataclass(frozen=True, repr=False)
class Generator:
    """Data with known truth, and the truth about the absolute loss of any predictor on it.

    `predictor` is a fixed predictor to start with. The closed forms hold for every other one too,
    given as a function of X or as an object with ``predict``. `mass` and `rule` describe an atom:
    with probability ``mass(x)`` the target is exactly ``rule(x)``.

    Examples
    --------
    >>> from locuscore.testing import GENERATORS
    >>> data = GENERATORS["misfit"]
    >>> X, y = data.sample(1000, rng=0)
    >>> bool(data.exceedance(X, data.predictor, tau=0.5).mean() < 0.5)
    True
    """

    name: str
    description: str
    mean: Function
    scale: Function
    predictor: Function
    noise: Noise
    mass: Function = _zero
    rule: Function = _zero

    def __repr__(self) -> str:
        return f"Generator({self.name!r}: {self.description})"

    def sample(self, n: int, rng: int | np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw n rows: features (n, 5) and targets (n,)."""
        rng = np.random.default_rng(rng)
        X = rng.uniform(size=(n, N_FEATURES))
        return X, self.sample_targets(X, rng)

    def sample_targets(self, X: ArrayLike, rng: int | np.random.Generator) -> FloatArray:
        """Draw one target for each given row."""
        X = _check_features(X)
        rng = np.random.default_rng(rng)
        spread = self.mean(X) + self.scale(X) * self.noise.draw(rng, len(X))
        return np.where(rng.uniform(size=len(X)) < self.mass(X), self.rule(X), spread)

    def loss_sf(self, X: ArrayLike, predictor: Any, z: ArrayLike) -> FloatArray:
        """``P(|Y - g(x)| > z | x)`` for each row, in closed form; z is a number or one per row."""
        X = _check_features(X)
        z = np.broadcast_to(np.asarray(z, dtype=np.float64), len(X))
        g, p = predict(predictor, X), self.mass(X)
        atom = p * (np.abs(self.rule(X) - g) > z)
        spread = self._folded_sf(np.abs(self.mean(X) - g), self.scale(X), z)
        return np.where(z < 0, 1.0, atom + (1.0 - p) * spread)

    def exceedance(self, X: ArrayLike, predictor: Any, tau: float) -> FloatArray:
        """``P(|Y - g(x)| > tau | x)`` for each row, in closed form."""
        return self.loss_sf(X, predictor, check_tau(tau).item())

    def loss_quantile(self, X: ArrayLike, predictor: Any, alpha: float) -> FloatArray:
        """Upper ``1 - alpha`` quantile of the loss, ``sup{z : P(|Y - g(x)| > z | x) >= alpha}``.

        This is the value that `Locus.loss_bound` estimates. Without misfit and atom it has a closed
        form; in general the folded distribution is inverted by bisection, to neighbouring floats.
        """
        X = _check_features(X)
        level, g, p = check_alpha(alpha).item(), predict(predictor, X), self.mass(X)
        misfit, scale = np.abs(self.mean(X) - g), self.scale(X)
        # Above the atom only the continuous part is left; below it, the atom counts in full.
        above = self._folded_isf(misfit, scale, level / (1.0 - p))
        if not p.any():
            return above
        below = self._folded_isf(misfit, scale, (level - p) / (1.0 - p))
        return np.where(p > 0, np.clip(np.abs(self.rule(X) - g), above, below), above)

    def _folded_sf(self, misfit: FloatArray, scale: FloatArray, z: FloatArray) -> FloatArray:
        """``P(|misfit + scale * noise| > z)`` for z >= 0."""
        return self.noise.sf((z - misfit) / scale) + self.noise.sf((z + misfit) / scale)

    def _folded_isf(self, misfit: FloatArray, scale: FloatArray, level: FloatArray) -> FloatArray:
        """Inverse of `_folded_sf`: 0 for levels from 1 up, inf from 0 down."""
        inside = np.clip(level, np.finfo(np.float64).tiny, 1.0)
        # One of the two terms is at least half of the sum, and at most all of it.
        low = np.maximum(misfit + scale * self.noise.isf(inside), 0.0)
        high = np.maximum(misfit + scale * self.noise.isf(inside / 2), 0.0)
        for _ in range(60):
            middle = low + (high - low) / 2
            reached = self._folded_sf(misfit, scale, middle) >= inside
            low, high = np.where(reached, middle, low), np.where(reached, high, middle)
        return np.where(level <= 0, np.inf, np.where(level >= 1, 0.0, high))


def _check_features(X: ArrayLike) -> FloatArray:
    values = np.asarray(X, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != N_FEATURES:
        raise ValueError(f"X must have shape (n, {N_FEATURES}); got {values.shape}.")
    return values


_NORMAL = Noise(
    sf=lambda u: ndtr(-u), isf=lambda level: -ndtri(level), draw=lambda rng, n: rng.normal(size=n)
)
_STUDENT = Noise(
    sf=lambda u: stdtr(3, -u),
    isf=lambda level: -stdtrit(3, level),
    draw=lambda rng, n: rng.standard_t(3, size=n),
)


def _smooth_mean(X: FloatArray) -> FloatArray:
    return 2.0 * X[:, 0] + X[:, 1] - X[:, 2]


def _misfit_line(X: FloatArray) -> FloatArray:
    return 0.125 + 0.25 * X[:, 1]  # the least-squares line of the mean


def _heavy_line(X: FloatArray) -> FloatArray:
    return 2.0 * X[:, 0] + X[:, 1] - 1.0 / 6.0  # the least-squares line of the mean


def _inflated_rule(X: FloatArray) -> FloatArray:
    return 1.0 + 2.0 * X[:, 0] + X[:, 1]


_ALL = (
    Generator(
        name="smooth",
        description="Normal errors whose size varies smoothly; the predictor is the true mean.",
        mean=_smooth_mean,
        scale=lambda X: 0.2 + 0.8 * X[:, 0] ** 2 + 0.5 * X[:, 1] * X[:, 2],
        predictor=_smooth_mean,
        noise=_NORMAL,
    ),
    Generator(
        name="misfit",
        description="A line through a curved mean: large losses where the variance is small, as "
        "in the paper's Figure 1.",
        mean=lambda X: (0.5 + X[:, 1]) * 20.0 * (X[:, 0] - 0.5) ** 4,
        # Quiet at both ends of the first feature, which is where the line misses most.
        scale=lambda X: 0.05 + 0.15 * (1.0 - np.abs(2.0 * X[:, 0] - 1.0)) * (0.5 + X[:, 2]),
        predictor=_misfit_line,
        noise=_NORMAL,
    ),
    Generator(
        name="heavy_tails",
        description="Student errors with 3 degrees of freedom and strongly varying size; the "
        "predictor is a line that misses little.",
        mean=lambda X: 2.0 * X[:, 0] + X[:, 1] ** 2,
        scale=lambda X: 0.1 * np.exp(2.0 * X[:, 0] * X[:, 1] + X[:, 2]),
        predictor=_heavy_line,
        noise=_STUDENT,
    ),
    Generator(
        name="zero_inflated",
        description="The target follows a known rule exactly in 10 to 80 % of cases, and the "
        "predictor is that rule, so its loss has an atom at zero. Any other predictor has the "
        "atom at its distance from the rule.",
        mean=lambda X: _inflated_rule(X) + 0.5 * X[:, 1],
        scale=lambda X: 0.2 + 0.8 * X[:, 0],
        predictor=_inflated_rule,
        noise=_NORMAL,
        mass=lambda X: 0.1 + 0.7 * X[:, 2],
        rule=_inflated_rule,
    ),
)

GENERATORS: dict[str, Generator] = {generator.name: generator for generator in _ALL}
