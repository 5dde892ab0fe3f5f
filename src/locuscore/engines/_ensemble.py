"""Ensemble: a weighted mixture of engines."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._laws.signed_errors import SignedErrors, fit_engine
from locuscore._protocols import FloatArray, IntArray, LossEngine
from locuscore._shared.checks import check_methods
from locuscore._shared.kept import Kept
from locuscore._shared.progress import tracked
from locuscore._shared.seeds import seeded, spawn_seeds
from locuscore.draws import WeightedDraws
from locuscore.engines._folds import Law, fold_laws

NEGLIGIBLE_WEIGHT = 1e-4  # such a member costs its time and changes nothing
FEWEST_ROWS = 10  # with fewer, stacked weights would be noise, and are equal
N_LEVELS = 40  # knots per law in the integral of the CRPS


@dataclass(eq=False, repr=False)
class Ensemble(BaseEstimator):
    """A weighted mixture of several engines: ``P(Z > z) = sum_j w_j P_j(Z > z)``.

    Which engine is best changes from one dataset to the next; the mixture is seldom far from the
    best. Draw s of the mixture is made of draw s of each member. Members with fewer draws start
    over, so a member with one draw takes part in all. So `gamma` works as soon as one member has
    several draws. The average is the weighted mean of the members' averages.

    Stacked weights minimise the CRPS of the mixture of out-of-fold distributions inside D1. It is a
    quadratic form in the weights, so the minimum on the simplex is unique up to equal members.

    Parameters
    ----------
    engines
        The members.
    weights
        ``"equal"``, ``"stacked"``, or one number per member, not negative; they are made to sum
        to 1.
    cv
        Number of folds for stacked weights; each costs one more fit of every member.
    random_state
        Seed of the members and the folds.

    Attributes
    ----------
    engines_
        The fitted members, those of weight zero included.
    weights_
        Their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import Ensemble, Gaussian, Scale
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = Ensemble([Scale(), Gaussian()], random_state=0).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 1)
    """

    ARCHIVE = Kept("Ensemble", fields=("engines_", "weights_"))

    engines: Sequence[LossEngine]
    _: KW_ONLY
    weights: str | Sequence[float] = "equal"
    cv: int = 5
    random_state: Any = None

    def fit(
        self,
        S: FloatArray,
        z: FloatArray,
        errors: SignedErrors | None = None,
        clusters: IntArray | None = None,
    ) -> Self:
        """Find the weights, then fit every member on all rows; errors are told who takes them."""
        members = _check_members(self.engines)
        given = _check_weights(self.weights, len(members))
        fold_seed, *seeds = spawn_seeds(self.random_state, 1 + len(members))
        ready = [seeded(engine, seed) for engine, seed in zip(members, seeds, strict=True)]
        if given is None:
            self.weights_ = _stacked_weights(ready, S, z, self.cv, fold_seed, errors, clusters)
        else:
            self.weights_ = given
        self.engines_ = [
            fit_engine(engine, S, z, errors, clusters=clusters)
            for engine in tracked(ready, "engines")
        ]
        return self

    def predict_draws(self, S: FloatArray) -> WeightedDraws:
        """Return the mixtures of the members' draws."""
        check_is_fitted(self)
        used = np.flatnonzero(self.weights_)
        parts = [self.engines_[j].predict_draws(S) for j in used]
        return WeightedDraws(parts, self.weights_[used])


def _check_members(engines: Any) -> list[Any]:
    if isinstance(engines, str | dict) or not isinstance(engines, Sequence) or not len(engines):
        raise ValueError(f"engines must be a non-empty list of engines; got {engines!r}.")
    for j, engine in enumerate(engines):
        check_methods(engine, ["fit", "predict_draws"], f"engines[{j}]")
    return list(engines)


def _check_weights(weights: Any, n_members: int) -> FloatArray | None:
    """Return the weights, summing to 1; None if they are to be learned."""
    if isinstance(weights, str):
        if weights not in ("equal", "stacked"):
            raise ValueError(
                f"weights must be 'equal', 'stacked' or one number per engine; got {weights!r}."
            )
        return np.full(n_members, 1.0 / n_members) if weights == "equal" else None
    values = np.asarray(weights, dtype=np.float64)
    usable = values.shape == (n_members,) and np.isfinite(values).all() and values.min() >= 0
    if not usable or values.sum() <= 0:
        raise ValueError(
            f"weights must hold {n_members} numbers, one per engine, none negative and not all "
            f"zero; got {weights!r}."
        )
    return values / values.sum()


def _stacked_weights(
    engines: list[Any],
    S: FloatArray,
    z: FloatArray,
    cv: int,
    seed: int,
    errors: SignedErrors | None,
    clusters: IntArray | None,
) -> FloatArray:
    """Weights on the simplex with the smallest CRPS of the mixture, out of fold."""
    if len(z) < FEWEST_ROWS:
        return np.full(len(engines), 1.0 / len(engines))
    total = np.zeros((len(engines), len(engines)))
    by_engine = [fold_laws(engine, S, z, cv, seed, errors, clusters) for engine in engines]
    for folds in zip(*by_engine, strict=True):
        rows = folds[0].rows
        total += _crps_matrix([fold.law for fold in folds], z[rows])
    return _smallest_on_simplex(total)


def _crps_matrix(laws: list[Law], z: FloatArray) -> FloatArray:
    """Sum over rows of ``integral of (F_j - 1{z <= t})(F_k - 1{z <= t}) dt`` for members j, k.

    As in `metrics.crps`, survival functions are taken as straight between knots, which lie at
    quantiles of all members.
    """
    levels = (np.arange(N_LEVELS) + 0.5)[None, :] / N_LEVELS
    knots = np.sort(np.column_stack([*(law.isf(levels) for law in laws), z]), axis=1)
    above = knots[:, :-1] >= z[:, None]
    left, right = [], []
    for law in laws:
        # From the value at one knot to the limit just below the next: a law may jump at a knot.
        start, stop = law.sf(knots)[:, :-1], law.sf(np.nextafter(knots, -np.inf))[:, 1:]
        left.append(np.where(above, start, start - 1.0))
        right.append(np.where(above, stop, stop - 1.0))
    # The product of two straight lines integrates to (2 aa' + 2 bb' + ab' + ba') * width / 6.
    a, b, width = np.stack(left), np.stack(right), np.diff(knots, axis=1) / 6.0
    same = np.einsum("jnm,knm,nm->jk", a, a, width) + np.einsum("jnm,knm,nm->jk", b, b, width)
    cross = np.einsum("jnm,knm,nm->jk", a, b, width)
    return 2.0 * same + cross + cross.T


def _smallest_on_simplex(matrix: FloatArray) -> FloatArray:
    """Weights w >= 0 with sum 1 that minimise ``w' M w``."""
    n = len(matrix)
    # Divided by its trace, so that `ftol` means the same in every unit of the loss.
    scaled = matrix / (np.trace(matrix) or 1.0)
    found = minimize(
        lambda w: w @ scaled @ w,
        np.full(n, 1.0 / n),
        jac=lambda w: 2.0 * scaled @ w,
        bounds=[(0.0, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    weights = np.where(found.x < NEGLIGIBLE_WEIGHT, 0.0, found.x)
    return weights / weights.sum()
