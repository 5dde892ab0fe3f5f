"""The engine contract: rules that every model of the loss must obey, whoever wrote it."""

import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from locuscore._laws.calibration import conformal_rank, smallest_n
from locuscore._laws.distribution import LossDistribution
from locuscore._locus import Locus
from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.checks import LocusWarning
from locuscore._shared.seeds import seeded
from locuscore.testing._contract_names import (
    FREE_IDENTITY,
    HELD_OUT,
    LEVEL_ZERO,
    MISSING,
    MONOTONE,
    NO_RANDOMNESS,
    NOT_EARLY,
    PROTOCOL,
    ROUND_TRIP,
    ROUNDING,
    ROWS_INDEPENDENT,
    SCALE,
    SUPPORT,
    UPPER_INVERSE,
    require,
)
from locuscore.testing._draws_contract import check_overrides, column

N_ROWS, N_FIT = 300, 200  # rows made, and how many of them are D1
ALPHAS = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5, 0.7, 0.9])
TOO_SMALL = 0.001  # an alpha that D2 has too few rows for
LEVELS = (0.95, 0.9, 0.7, 0.5, 0.3, 0.1, 0.05, 0.01)
ROWS_RTOL = 1e-9  # batching may change results only by rounding
PLACE_RTOL = 1e-9  # an inverse may be off by this, relative to its size and the law's spread
SCALE_RTOL = 1e-6  # boosted trees keep gradients in single precision; see `_check_scale`


@dataclass(frozen=True)
class _Case:
    """Rows, losses, and what they are multiplied by to test scale; D1 comes first."""

    name: str
    S: FloatArray
    z: FloatArray
    factor: float = 2.0**10


@dataclass(frozen=True)
class _Fitted:
    """An engine, fitted on D1 of a case, and rows it has not seen."""

    engine: Any
    seed: int
    case: _Case

    @property
    def new_rows(self) -> FloatArray:
        return self.case.S[N_FIT::2]

    def draws(self, S: FloatArray | None = None) -> Any:
        return self.engine.predict_draws(self.new_rows if S is None else S)


def check_engine(engine: Any, *, random_state: int = 0) -> None:
    """Check an engine against its contract; raise AssertionError at the first rule it breaks.

    The data are made here: losses that are smooth, zero-inflated, constant, 0-1, and with one
    enormous outlier. The message names the rule and says what to do. It takes about 15 fits on 200
    rows.

    Parameters
    ----------
    engine
        An unfitted engine: `fit(S, z)`, `predict_draws(S)`, and `get_params` for `clone`.
    random_state
        Seed of the data, and of the engine where it has an unset `random_state`.

    Examples
    --------
    >>> from locuscore.engines import Forest
    >>> from locuscore.testing import check_engine
    >>> check_engine(Forest(n_trees=10))
    """
    cases = _make_cases(random_state)
    for name in ("smooth", "zero-inflated", "constant"):
        fitted = _fit_engine(engine, cases[name], random_state)
        for check in _ENGINE_CHECKS:
            check(fitted)
    _check_missing_values(engine, cases["smooth"], random_state)
    for name in ("zero-inflated", "constant", "surprise", "smooth"):
        locus = _fit_locus(engine, cases[name], random_state)
        for check_bound in _BOUND_CHECKS:
            check_bound(locus, cases[name])
    _check_round_trip(locus, cases["smooth"])
    _check_held_out(locus, cases["smooth"])
    _check_support(engine, cases["0-1"], {0.0, 1.0}, random_state)
    _check_support(engine, cases["smooth"], (0.0, 50.0), random_state)


def _make_cases(seed: int) -> dict[str, _Case]:
    rng = np.random.default_rng(seed)
    S = rng.uniform(size=(N_ROWS, 3))
    smooth = (0.2 + 2.0 * S[:, 0]) * np.abs(rng.normal(size=N_ROWS))
    inflated = np.where(rng.uniform(size=N_ROWS) < 0.4, 0.0, smooth)
    binary = (rng.uniform(size=N_ROWS) < 0.05 + 0.5 * S[:, 0] ** 2).astype(np.float64)
    surprise = smooth.copy()
    surprise[-1] = 1e6 * smooth.max()
    losses = {
        "smooth": smooth,
        "zero-inflated": inflated,
        "constant": np.full(N_ROWS, 2.5),
        "surprise": surprise,
        "0-1": binary,
    }
    cases = {name: _Case(name, S, z) for name, z in losses.items()}
    return {**cases, "zero-inflated": _Case("zero-inflated", S, inflated, 2.0**-10)}


def _fit_engine(engine: Any, case: _Case, seed: int) -> _Fitted:
    copy = seeded(engine, seed)
    S, z = case.S[:N_FIT].copy(), case.z[:N_FIT].copy()
    returned = copy.fit(S, z)
    require(returned is copy, PROTOCOL, f"fit returned {type(returned).__name__}, not itself")
    same = np.array_equal(S, case.S[:N_FIT]) and np.array_equal(z, case.z[:N_FIT])
    require(same, PROTOCOL, "fit changed the arrays it was given")
    return _Fitted(copy, seed, case)


def _check_protocol(fitted: _Fitted) -> None:
    draws = fitted.draws()
    kind, n = type(draws).__name__, len(fitted.new_rows)
    require(isinstance(draws, LossDraws), PROTOCOL, f"predict_draws returned {kind}")
    shape = draws.shape
    require(shape[0] == n and shape[1] >= 1, PROTOCOL, f"shape is {shape} for {n} rows")
    for name, value in (("sf", 1.0), ("isf", 0.5)):
        result = np.asarray(getattr(draws, name)(np.full((n, 1), value)))
        require(result.shape == shape, PROTOCOL, f"{name} has shape {result.shape}, not {shape}")
        require(np.isfinite(result), PROTOCOL, f"{name} is not finite on {fitted.case.name} losses")


def _check_no_randomness(fitted: _Fitted) -> None:
    first, second = (_describe(fitted.draws()) for _ in range(2))
    gap = _largest_gap(first, second)
    require(np.array_equal(first, second), NO_RANDOMNESS, f"two calls differ by {gap:.2g}")


def _check_rows_independent(fitted: _Fitted) -> None:
    S = fitted.new_rows
    together = _describe(fitted.draws(S))
    halves = [_describe(fitted.draws(part)) for part in np.array_split(S, 2)]
    alone = [_describe(fitted.draws(S[[i]])) for i in range(5)]
    regrouped = {
        "reversing the rows": _describe(fitted.draws(S[::-1]))[::-1],
        "predicting them in two halves": np.vstack(halves),
        "predicting the first five alone": np.vstack([*alone, together[5:]]),
    }
    for what, apart in regrouped.items():
        same = np.isclose(apart, together, rtol=ROWS_RTOL, atol=0.0)
        gap = _largest_gap(apart, together)
        require(same, ROWS_INDEPENDENT, f"{what} changes the laws by up to {gap:.2g}")


def _check_monotone_laws(fitted: _Fitted) -> None:
    draws = fitted.draws()
    survival = np.stack([draws.sf(column(draws, z)) for z in _z_grid(fitted.case)])
    inverse = np.stack([draws.isf(column(draws, level)) for level in LEVELS])
    require((survival >= 0) & (survival <= 1), MONOTONE, "sf leaves [0, 1]")
    rise = np.diff(survival, axis=0)
    require(rise <= 1e-12, MONOTONE, f"sf rises with z by up to {rise.max():.2g}")
    slack = PLACE_RTOL * (1.0 + np.abs(inverse[1:]))
    require(np.diff(inverse, axis=0) >= -slack, MONOTONE, "isf rises with the level")


def _check_upper_inverse(fitted: _Fitted) -> None:
    draws, losses = fitted.draws(), f"on the {fitted.case.name} losses"
    spread = draws.isf(column(draws, LEVELS[-1])) - draws.isf(column(draws, LEVELS[0]))
    # A flat shows only at the very level a law takes there.
    attained = [draws.sf(column(draws, z)) for z in _z_grid(fitted.case)]
    for wanted in [*(column(draws, level) for level in LEVELS), *attained]:
        level = np.where((wanted > 1e-6) & (wanted < 0.99), wanted, 0.5)
        place = draws.isf(level)
        nearby = PLACE_RTOL * (np.abs(place) + spread)
        after, before = draws.sf(place + nearby), draws.sf(place - nearby)
        require(after < level, UPPER_INVERSE, f"after isf(s) survival is still s, {losses}")
        enough = before >= level * (1.0 - PLACE_RTOL)
        require(enough, UPPER_INVERSE, f"before isf(s) survival is below s already, {losses}")


def _check_rounding(fitted: _Fitted) -> None:
    draws, levels = fitted.draws(), np.array([LEVELS])
    laws = [LossDistribution(draws)]
    if draws.shape[1] > 1:
        gammas = (0.15, 0.5, 0.9)
        laws += [LossDistribution(draws, np.full(draws.shape[0], gamma)) for gamma in gammas]
    for dist in laws:
        below = dist.sf(dist.isf(levels)) < levels
        require(below, ROUNDING, "no loss near isf(s) has a survival below s")
    bounds = [dist.isf(levels) for dist in laws[1:]]
    for careful, bold in pairwise(bounds):
        require(careful >= bold, MONOTONE, "a smaller gamma lowers the bound")


def _check_tail(fitted: _Fitted) -> None:
    draws = fitted.draws()
    upper, middle = draws.isf(column(draws, 1e-3)), draws.isf(column(draws, 0.5))
    ended = np.mean(draws.sf(upper + 2.0 * (upper - middle)) <= 0)
    where = f"soon after their upper thousandth, on the {fitted.case.name} losses"
    require(ended == 0, NOT_EARLY, f"{ended:.0%} of the laws reach zero {where}")


def _check_overrides(fitted: _Fitted) -> None:
    check_overrides(fitted.draws(), _z_grid(fitted.case), np.array(LEVELS))


def _check_scale(fitted: _Fitted) -> None:
    """Powers of two leave every rounding as it was, except where logarithms are learned."""
    expected = _inverses(fitted.draws())
    size = np.abs(expected) + 1e-3 * np.abs(fitted.case.z).max()
    factor = fitted.case.factor
    case = _Case(fitted.case.name, fitted.case.S, factor * fitted.case.z)
    scaled = _inverses(_fit_engine(clone(fitted.engine), case, fitted.seed).draws())
    same = np.abs(scaled / factor - expected) <= SCALE_RTOL * size
    require(same, SCALE, f"{factor:g} times the losses do not give {factor:g} times the laws")


def _check_missing_values(engine: Any, case: _Case, seed: int) -> None:
    S = case.S.copy()
    S[::7, 1] = np.nan
    try:
        fitted = seeded(engine, seed).fit(S[:N_FIT], case.z[:N_FIT])
        values = _describe(fitted.predict_draws(S[N_FIT:]))
    except ValueError:
        return  # a clear refusal is an answer
    require(np.isfinite(values), MISSING, "rows with NaN give laws that are not numbers")


def _first_signal(X: FloatArray) -> FloatArray:
    return X[:, 0]


def _fit_locus(engine: Any, case: _Case, seed: int, support: Any = None) -> Locus:
    locus = Locus(
        _first_signal,
        engine=engine,
        signals="x",
        support=support,
        calibration_size=np.arange(N_FIT, N_ROWS),
        random_state=seed,
    )
    try:
        return locus.fit_losses(case.S, case.z)
    except RuntimeError as error:
        problem = f"on the {case.name} losses, {error}"
        raise AssertionError(f"{FREE_IDENTITY}: {problem}") from error


def _check_level_zero(locus: Locus, case: _Case) -> None:
    bound = _with_too_few_rows(locus, case.S[:20])
    problem = f"with too few rows the bound is {np.min(bound):g}"
    require(np.isposinf(bound), LEVEL_ZERO, problem)


def _with_too_few_rows(locus: Locus, S: FloatArray) -> FloatArray:
    """Return the bound at an alpha that needs more rows, which must be said in one warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bound = locus.loss_bound(S, TOO_SMALL)
    texts = [str(w.message) for w in caught if issubclass(w.category, LocusWarning)]
    named = len(texts) == 1 and str(smallest_n(TOO_SMALL)) in texts[0]
    require(named, LEVEL_ZERO, f"no single warning names the rows needed, got {texts}")
    return np.asarray(bound)


def _check_surprise(locus: Locus, case: _Case) -> None:
    bound = locus.loss_bound(case.S, ALPHAS)
    require(np.isfinite(bound), NOT_EARLY, f"some bounds are infinite on {case.name} losses")


def _check_monotone_bound(locus: Locus, case: _Case) -> None:
    bound = locus.loss_bound(case.S[N_FIT:], np.sort(ALPHAS))
    require(np.diff(bound, axis=1) <= 0, MONOTONE, "the bound rises with alpha")


def _check_round_trip(locus: Locus, case: _Case) -> None:
    expected = locus.loss_bound(case.S, ALPHAS)
    remade = {
        "pickle": pickle.loads(pickle.dumps(locus)),
        "clone and fit": clone(locus).fit_losses(case.S, case.z),
    }
    for what, copy in remade.items():
        same = np.isclose(copy.loss_bound(case.S, ALPHAS), expected, rtol=ROWS_RTOL, atol=0.0)
        require(same, ROUND_TRIP, f"{what} changes the bounds of the {case.name} losses")


def _check_free_identity(locus: Locus, case: _Case) -> None:
    S, z = case.S[N_FIT:], case.z[N_FIT:]
    n = len(z)
    alphas = np.unique(np.append(ALPHAS, np.arange(1, n + 1, 3) / (n + 1)))
    covered = np.count_nonzero(z[:, None] <= locus.loss_bound(S, alphas), axis=0)
    ranks = np.array([conformal_rank(n, alpha) for alpha in alphas])
    problem = f"fewer than k calibration rows lie below their own bound, {case.name} losses"
    require(covered >= ranks, FREE_IDENTITY, problem)


def _check_held_out(locus: Locus, case: _Case) -> None:
    S, z = case.S.copy(), case.z.copy()
    S[N_FIT:], z[N_FIT:] = S[N_FIT:][::-1] * 3.0 - 1.0, 100.0 * z[N_FIT:]
    other = clone(locus).fit_losses(S, z)
    first, second = (_inverses(fitted.loss_dist(case.S[:50]).draws) for fitted in (locus, other))
    require(np.array_equal(first, second), HELD_OUT, "the laws change with the calibration rows")


def _check_support(engine: Any, case: _Case, support: Any, seed: int) -> None:
    locus = _fit_locus(engine, case, seed, support)
    S, low, high = case.S[N_FIT:], min(support), max(support)
    bound = locus.loss_bound(S, ALPHAS)
    inside = (bound >= low) & (bound <= high)
    if isinstance(support, set):
        inside &= np.isin(bound, list(support))
    require(inside, SUPPORT, f"bounds leave the support {support}")
    top = _with_too_few_rows(locus, S) == high
    require(top, LEVEL_ZERO, f"with too few rows the bound is not the top of {support}")
    for tau in np.unique(np.append(0.0, np.quantile(case.z, [0.3, 0.7, 0.9]))):
        same = (bound <= tau) == (locus.exceedance(S, tau)[:, None] <= ALPHAS)
        require(same, SUPPORT, f"bound and exceedance disagree at tau = {tau:g}")


_ENGINE_CHECKS: tuple[Callable[[_Fitted], None], ...] = (
    _check_protocol,
    _check_no_randomness,
    _check_rows_independent,
    _check_monotone_laws,
    _check_upper_inverse,
    _check_rounding,
    _check_tail,
    _check_overrides,
    _check_scale,
)
_BOUND_CHECKS: tuple[Callable[[Locus, _Case], None], ...] = (
    _check_level_zero,
    _check_surprise,
    _check_monotone_bound,
    _check_free_identity,
)


def _z_grid(case: _Case) -> FloatArray:
    """Losses across, below and beyond the range of a case, some of them its own."""
    low, high = case.z[:N_FIT].min(), case.z[:N_FIT].max()
    width = (high - low) or abs(high) or 1.0
    own = np.quantile(case.z[:N_FIT], np.linspace(0, 1, 13), method="nearest")
    return np.sort(np.concatenate([np.linspace(low - width, high + 2 * width, 28), own]))


def _inverses(draws: Any) -> FloatArray:
    return np.hstack([draws.isf(column(draws, level)) for level in LEVELS])


def _describe(draws: Any) -> FloatArray:
    """Some inverses and survivals of all laws, side by side."""
    survival = [draws.sf(column(draws, z)) for z in (0.0, 0.5, 2.5)]
    return np.hstack([_inverses(draws), *survival])


def _largest_gap(first: FloatArray, second: FloatArray) -> float:
    return float(np.max(np.abs(first - second)))
