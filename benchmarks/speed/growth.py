"""Time and memory of one call as its rows grow from a thousand to ten million."""

from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LinearRegression

from benchmarks.speed.figures import MEGABYTE, Figure, peak_memory, seconds
from benchmarks.speed.memory import sample
from benchmarks.speed.subjects import ALPHA
from locuscore import Locus

TITLE = "Growth"
ABOUT = (
    "`loss_bound` at one alpha in one call, default engine, 10,000 labelled rows of nine features, "
    "linear g. Linear time is a time per row that stays the same; the first line of rows is the "
    "unit. The peak is what the process grew by during the call, without the bounds it returns."
)
SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
FEW = 100_000  # a call on fewer rows is repeated until it has scored that many
MOST_MEMORY, MOST_GROWTH = 300, 1.3


def figures() -> Iterator[Figure]:
    g = LinearRegression().fit(*sample(1000, seed=0))
    locus = Locus(g, random_state=0).fit(*sample(10_000, seed=1))
    block = sample(1_000_000, seed=2)[0]
    locus.loss_bound(block[:FEW], ALPHA)  # warm up
    first: tuple[float, ...] = ()
    for n in SIZES:
        X = np.tile(block, (n // len(block), 1)) if n > len(block) else block[:n]
        times = []
        with peak_memory() as peak:
            for _ in range(max(3, FEW // n) if n <= FEW else 1):
                times.append(seconds(lambda: locus.loss_bound(X, ALPHA)) / n)  # noqa: B023 - now
        first = first or (float(np.median(times)),)
        of_first = tuple(each / first[0] for each in times)
        growth = {} if n == SIZES[0] else {"most": MOST_GROWTH}
        yield Figure(f"{n:,} rows, time per row", of_first, f"that of {SIZES[0]:,} rows", **growth)
        grown = (peak[0] - 8 * n) / MEGABYTE
        yield Figure(
            f"{n:,} rows, peak above input and output", (grown,), most=MOST_MEMORY, unit="MB"
        )
    yield Figure(f"{SIZES[0]:,} rows, time per row", (1e6 * first[0],), unit="us")
