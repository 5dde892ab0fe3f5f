"""Bisection over whole numbers."""

from collections.abc import Callable


def first_between(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Smallest whole number above `low` at which a condition begins to hold; it holds at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def first_above(holds: Callable[[int], bool], low: int, high: int) -> int:
    """As `first_between`, from a first guess `high` that is doubled until the condition holds."""
    while not holds(high):
        low, high = high, 2 * high
    return first_between(holds, low, high)
