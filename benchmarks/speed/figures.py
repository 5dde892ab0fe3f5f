"""A figure of the page on speed, how it is timed, and how it is kept."""

import ctypes
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

RECORDS = Path(__file__).with_name("records")
MEGABYTE = 2**20
Clock = Callable[[], float]


@dataclass(frozen=True)
class Figure:
    """One measured number: a value per round, and what is asked of their median.

    Attributes
    ----------
    what
        What was measured.
    values
        One value per round, in `unit`.
    beside
        What each value is a multiple of, measured in the same round; empty for plain numbers.
    most, least
        The target; a figure without one is told for comparison.
    """

    what: str
    values: tuple[float, ...]
    beside: str = ""
    most: float | None = None
    least: float | None = None
    unit: str = "x"

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def is_kept(self) -> bool | None:
        """Whether the median keeps its target; None without one."""
        if self.most is None and self.least is None:
            return None
        above = self.least is None or self.median >= self.least
        return above and (self.most is None or self.median <= self.most)

    @property
    def target(self) -> str:
        given = {"at most": self.most, "at least": self.least}
        return ", ".join(f"{how} {value:g}" for how, value in given.items() if value is not None)

    def row(self) -> str:
        """Return its line of a table."""
        unit = "x" if self.unit == "x" else f" {self.unit}"
        low, high = min(self.values), max(self.values)
        met = {None: "", True: "yes", False: "**no**"}[self.is_kept]
        cells = [
            self.what,
            self.beside,
            f"{short(self.median)}{unit}",
            f"{short(low)} to {short(high)}" if len(self.values) > 1 else "",
            self.target,
            met,
        ]
        return "| " + " | ".join(cells) + " |"


def short(value: float) -> str:
    """Three significant digits, and no power of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def ratios(
    what: str, ours: list[float], theirs: list[float], beside: str, **target: float | None
) -> Figure:
    """Return our times as multiples of theirs, round by round."""
    values = tuple(a / b for a, b in zip(ours, theirs, strict=True))
    return Figure(what, values, beside, **target)


def seconds(function: Callable[[], object], clock: Clock = time.process_time) -> float:
    """Time of one call; that of the processor unless told, which other work disturbs least."""
    start = clock()
    function()
    return clock() - start


def in_turns(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    calls: int = 1,
    clock: Clock = time.process_time,
) -> dict[str, list[float]]:
    """Median seconds of a call of each function in each round; the first round is not counted.

    The functions take turns within a round, in both directions alternately, so that what else the
    machine does meets all of them.
    """
    found: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds + 1):
        names = list(functions) if number % 2 else list(functions)[::-1]
        for name in names:
            times = [seconds(functions[name], clock) for _ in range(calls)]
            if number:
                found[name].append(median(times))
    return found


_HALVES: list[Any] = []  # what the two processes below are given, by being copies of this one


def _half(number: int) -> None:
    function, halves = _HALVES
    function(halves[number])


@contextmanager
def two_processes(function: Callable[[Any], object], halves: tuple[Any, Any]) -> Iterator[Any]:
    """A call that has the halves worked on by two processes, which share nothing.

    Two cores of a virtual machine may be one real one, and share its caches and memory anyway.
    """
    _HALVES[:] = [function, halves]
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        list(pool.map(_half, range(2)))  # warm up
        yield lambda: list(pool.map(_half, range(2)))
    _HALVES.clear()


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Bytes the process grew by while inside, at its largest, sampled every few milliseconds."""
    page = 4096
    statm = Path("/proc/self/statm")
    # Free pages that the allocator keeps would hide what the call needs.
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)

    def resident() -> int:
        return int(statm.read_text().split()[1]) * page

    start, peak, stop = resident(), [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.003):
            peak[0] = max(peak[0], resident() - start)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def keep(section: str, figures: list[Figure]) -> None:
    """Write the figures of a section, one line each, in place of those there are."""
    RECORDS.mkdir(exist_ok=True)
    lines = [json.dumps(asdict(figure)) for figure in figures]
    (RECORDS / f"{section}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def kept(section: str) -> list[Figure]:
    """Read the figures of a section; none if it was never run."""
    path = RECORDS / f"{section}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return [Figure(**(each | {"values": tuple(each["values"])})) for each in found]
