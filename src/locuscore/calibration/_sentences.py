"""Parts of sentences that calibrations by group share."""

import math
from collections.abc import Sequence

from locuscore.calibration._row_labels import Groups

MOST_SHOWN = 5  # groups named in a sentence


def bounds_are(top: float | None) -> str:
    """What bounds are where no level can be had; `top` is that of the support, where known."""
    if top is None:
        return "bounds are infinite, or the top of the loss's support where it has one,"
    if math.isinf(top):
        return "bounds are infinite"
    return f"bounds are the top of the support, {top:g},"


def shown_list(found: Sequence[str]) -> str:
    """A list in a sentence: a few, and how many others."""
    more = len(found) - MOST_SHOWN
    return ", ".join(found[:MOST_SHOWN]) + (f" and {more} others" if more > 0 else "")


def pool_sentence(groups: Groups, n: int, by: str = "") -> str:
    """What is promised of the pool."""
    if not groups.n_pooled:
        return f"No group{by} is in the pool; labels that D1 lacks have its {n} calibration rows."
    several = "group" if groups.n_pooled == 1 else f"{groups.n_pooled} groups"
    return (
        f"The {several}{by} with fewer than {groups.pool_below} rows in D1, and "
        f"labels that D1 lacks, share one pool of {n} calibration rows: there the share is that of "
        "the pool as a whole, not of each of its groups."
    )
