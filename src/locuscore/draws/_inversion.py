"""Upper inverses of survival functions, exact at jumps and guarded against rounding."""

from collections.abc import Callable

import numpy as np

from locuscore._protocols import FloatArray, IntArray

SAME_PLACE = 1e-11  # relative width at which a bracket counts as closed
NEGLIGIBLE_PLACE = 1e-15  # the same, relative to the first bracket: for roots close to zero
FIRST_GUESS = 12  # smooth laws are inverted by then; what is left has jumps
SAME_LEVEL = 1e-7  # relative drop of a survival function inside it that is no jump
LARGEST_BELOW_ONE = float(np.nextafter(1.0, 0.0))
SMALLEST_FLOAT = float(np.nextafter(0.0, 1.0))

Survival = Callable[[FloatArray], FloatArray]


def kth_largest(values: FloatArray, k: IntArray) -> FloatArray:
    """Return the k-th largest value of each row (k counts from 1, one per row), as a column."""
    ordered = np.sort(values, axis=1)
    return np.take_along_axis(ordered, (values.shape[1] - k)[:, None], axis=1)


def raise_until_below(sf: Survival, level: FloatArray, value: FloatArray) -> FloatArray:
    """Raise each value by ulps, more of them each time, until ``sf(value) < level``.

    A rounded inverse may stop short of its level; the calibration row that set the level would then
    be missed. Levels that no value can fall below are left alone.
    """
    value = value.copy()
    step = np.spacing(np.abs(value))
    for attempt in range(300):  # 2 ** (8 * 270) crosses the whole range of a float
        short = (sf(value) >= level) & np.isfinite(value) & (level > 0)
        if not short.any():
            break
        value = np.where(short, value + step, value)
        # Rounding needs a few ulps. Who needs more than 2 ** 30 has a law that is flat for long.
        step = np.where(short, step * (2.0 if attempt < 30 else 2.0**8), step)
    return value


def invert(
    sf: Survival,
    level: FloatArray,
    low: FloatArray,
    high: FloatArray,
    next_jump: Survival | None = None,
) -> FloatArray:
    """Smallest z in each bracket with ``sf(z) < level``, from its upper side.

    Chandrupatla's method (inverse quadratic steps, halving where they cannot be trusted) on all
    rows at once. The right end of the final bracket is returned, so the result never undershoots.
    Where `sf` jumps inside a closed bracket, halving goes on until the ends are neighbouring
    floats. `next_jump`, if given, guesses the first jump after a place; a good guess saves most of
    that halving, a bad one costs a step.
    """
    low, high = _split_at_zero(sf, level, low, high)
    # A root at zero has no relative width. Infinite ends are left to `done` below.
    with np.errstate(invalid="ignore"):
        negligible = np.nan_to_num(NEGLIGIBLE_PLACE * (high - low), posinf=0.0)
    # a is the latest trial, b the end on the other side of the root, c the one that a replaced.
    b, fb = low, sf(low) - level
    a, fa = high, sf(high) - level
    # Without a change of sign the bracket's own end is the answer; see `raise_until_below`.
    done = (fb < 0) | (fa >= 0) | ~np.isfinite(a) | ~np.isfinite(b)
    answer = np.where(fb < 0, b, a)
    c, fc = a, fa
    share = np.full(np.shape(a), 0.5)
    for step in range(200):
        right, left = np.where(fa < 0, a, b), np.where(fa < 0, b, a)
        answer = np.where(done, answer, right)
        with np.errstate(invalid="ignore"):
            width = right - left
        drop = np.abs(fa - fb)
        place = np.maximum(SAME_PLACE * np.maximum(np.abs(left), np.abs(right)), negligible)
        # A narrow bracket over which survival still drops holds a jump: its very float is wanted.
        closed = (width <= place) & (drop <= SAME_LEVEL * level)
        done = done | closed | (np.nextafter(left, np.inf) >= right)
        if done.all():
            break
        trial = a + share * (b - a)
        if next_jump is not None and step >= FIRST_GUESS and step % 4 < 2:
            # First just beyond the jump, then just before it: the guess may be off by an ulp.
            ulp = np.spacing(np.abs(right))
            guess = next_jump(left) + 2 * ulp if step % 4 == 0 else right - 4 * ulp
            trial = np.where((guess > left) & (guess < right), guess, trial)
        trial = np.where(done, answer, trial)
        ft = sf(trial) - level
        same = (ft < 0) == (fa < 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = trial, ft
        share = _next_share(a, fa, b, fb, c, fc)
    return answer


def _split_at_zero(
    sf: Survival, level: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Keep the side of zero that holds the answer, or zero itself.

    Zero is where losses have their atom, and halving would take a thousand steps to reach it.
    """
    around = (low < 0) & (high >= 0)
    if not around.any():
        return low, high
    just_below = np.nextafter(np.where(around, 0.0, low), -np.inf)
    negative, positive = sf(just_below) < level, sf(np.where(around, 0.0, low)) >= level
    # Neither: survival falls through the level between the two floats, so zero is the answer.
    high = np.where(around & ~positive, np.where(negative, just_below, 0.0), high)
    low = np.where(around & ~negative, 0.0, low)
    return low, high


def _next_share(
    a: FloatArray, fa: FloatArray, b: FloatArray, fb: FloatArray, c: FloatArray, fc: FloatArray
) -> FloatArray:
    """How far from a to b the next trial lies (Chandrupatla 1997, eq. 1 to 3)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        xi = (a - b) / (c - b)
        phi = (fa - fb) / (fc - fb)
        # Only then is the parabola through the three points monotone between a and b.
        trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        quadratic = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
            fc - fb
        )
        # Half a tolerance away from the ends: a trial on an end would narrow nothing.
        edge = 0.5 * SAME_PLACE * np.abs(a) / np.abs(b - a)
    share = np.where(trusted & np.isfinite(quadratic), quadratic, 0.5)
    edge = np.clip(np.nan_to_num(edge, nan=0.5, posinf=0.5), 0.0, 0.5)
    return np.clip(share, edge, 1 - edge)


def decreasing_in_level(value: FloatArray, level: FloatArray) -> FloatArray:
    """Raise the values (n, m) so that a smaller level has no smaller one, and equal levels agree.

    Found by iteration, inverses at close levels may be in the wrong order by their tolerance.
    `level` is (m,), shared by all rows, or (n, m).
    """
    levels = np.atleast_2d(level)
    order = np.argsort(-levels, axis=1, kind="stable")  # shared levels are sorted once
    levels, raised = (np.take_along_axis(part, order, axis=1) for part in (levels, value))
    tied = levels[:, :-1] == levels[:, 1:]
    if not tied.any() and np.all(raised[:, 1:] >= raised[:, :-1]):
        return value
    raised = np.maximum.accumulate(raised, axis=1)
    # From the smallest level up, so that each run of ties takes its largest value.
    for j in np.flatnonzero(tied.any(axis=0))[::-1]:
        raised[:, j] = np.where(tied[:, j], raised[:, j + 1], raised[:, j])
    out = np.empty(value.shape)
    np.put_along_axis(out, order, raised, axis=1)
    return out
