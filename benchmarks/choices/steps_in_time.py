"""How fast adaptive bounds should adapt: the default `step` and `window` of `Locus.adapt`.

Simulated losses whose size jumps, grows, swings or differs from day to day, and bike hires in the
order of time; labels come before the next batch. Flights are not read here, but their results were
known when the defaults were chosen, so `flights_in_time.py` is no independent judge of them.
``make choices-steps-in-time`` (twenty minutes) writes the section of `RESULTS.md`: how far the
coverage of a period is from the promise (root mean square), the largest share of infinite bounds on
any stream, and the pinball loss of finite bounds, relative to fixed ones (geometric mean).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore import Locus
from locuscore.engines import Forest
from locuscore.metrics import PeriodScores, adapted_bounds, rolling_origin, same_bounds

PAGE = Path(__file__).with_name("RESULTS.md")
ALPHA, N_FIT, N_NEW = 0.1, 2_000, 8_000
STEPS = (0.03, 0.1, 0.3)  # divided by the rows of a batch, and at most LARGEST
LARGEST = 0.005
WINDOWS = (0, 500, 1_000, 2_000, 5_000)

SIZES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "steady": lambda t, _: np.ones_like(t),
    "jump": lambda t, _: np.where((t > 1 / 3) & (t < 2 / 3), 2.0, 1.0),
    "growth": lambda t, _: 1.0 + 1.5 * t,
    "waves": lambda t, _: 1.0 + 0.6 * np.sin(8 * np.pi * t),
    "days": lambda t, rng: np.exp(0.35 * rng.normal(size=41)[np.floor(40 * t).astype(int)]),
}


@dataclass(frozen=True)
class Stream:
    """A fitted Locus, and labelled rows that come after those of the fit."""

    name: str
    locus: Locus
    X: np.ndarray
    losses: np.ndarray
    batches: np.ndarray
    periods: np.ndarray

    @property
    def rows_per_batch(self) -> float:
        return len(self.losses) / len(np.unique(self.batches))

    def replay(self, **settings: float) -> list[PeriodScores]:
        adapts = adapted_bounds(self.locus, ALPHA, **settings)
        policy = adapts if settings else same_bounds(self.locus, ALPHA)
        return rolling_origin(
            policy, self.X, self.losses, batches=self.batches, periods=self.periods, alpha=ALPHA
        )


def simulated(kind: str, rows_per_batch: int, seed: int = 0) -> Stream:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N_FIT + N_NEW, 3))
    size = SIZES[kind](np.linspace(0, 1, N_NEW), rng)
    y = X[:, 0] + (0.3 + X[:, 1]) * rng.normal(size=len(X)) * np.append(np.ones(N_FIT), size)
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=40), random_state=0)
    locus.fit(X[:N_FIT], y[:N_FIT])
    losses, at = locus.losses(X, y)[N_FIT:], np.arange(N_NEW)
    name = f"{kind}, batches of {rows_per_batch}"
    return Stream(name, locus, X[N_FIT:], losses, at // rows_per_batch, at // 1_000)


def bike() -> Stream:
    X, y = load("bike")  # hour, weekday, month and year come last
    month, hour = 12 * (X[:, -1] - 2011) + X[:, -2], X[:, -4]
    day = np.cumsum(np.diff(hour, prepend=24) < 0)
    first, labelled, new = month <= 4, (month > 4) & (month <= 9), month > 9
    X = X[:, :-1]
    g = HistGradientBoostingRegressor(random_state=0).fit(X[first], y[first])
    locus = Locus(g, engine=Forest(n_trees=40), random_state=0).fit(X[labelled], y[labelled])
    return Stream("bike", locus, X[new], locus.losses(X, y)[new], day[new], month[new])


def streams() -> Iterator[Stream]:
    yield bike()
    for kind in SIZES:
        for rows_per_batch in (20, 200):
            yield simulated(kind, rows_per_batch)


def judged(periods: list[PeriodScores]) -> tuple[float, float, float]:
    """Error of coverage, share of infinite bounds, and pinball loss of the others."""
    n = np.array([one.n_rows for one in periods])
    covered, infinite = (
        np.array([getattr(one, part) for one in periods]) for part in ("coverage", "infinite")
    )
    pinball = np.nan_to_num([one.pinball for one in periods])
    error = float(np.sqrt(np.mean((covered - 1 + ALPHA) ** 2)))
    finite = n * (1 - infinite)
    return error, float(1 - finite.sum() / n.sum()), float(np.average(pinball, weights=finite))


def main() -> None:
    settings: dict[str, tuple[float, int | None]] = {
        f"{step:g} / n, window {window:,}": (step, window) for step in STEPS for window in WINDOWS
    }
    settings["as by default"] = (0.1, None)
    found: dict[str, list[tuple[float, float, float]]] = {"fixed": []}
    for stream in streams():
        found["fixed"].append(judged(stream.replay()))
        for name, (step, window) in settings.items():
            speed = min(LARGEST, step / stream.rows_per_batch)
            how = {"step": speed} | ({} if window is None else {"window": window})
            found.setdefault(name, []).append(judged(stream.replay(**how)))
        print(f"{stream.name}: fixed {found['fixed'][-1]}, default {found['as by default'][-1]}")
    write_section(PAGE, page_lines(found))


def page_lines(found: dict[str, list[tuple[float, float, float]]]) -> list[str]:
    base = np.array(found["fixed"])[:, 2]
    rows = []
    for name, values in found.items():
        error, infinite, pinball = np.array(values).T
        ratio = np.exp(np.mean(np.log(pinball / base)))
        rows.append(f"| {name} | {error.mean():.4f} | {infinite.max():.3f} | {ratio:.3f} |")
    return [
        "## Adapting to a stream",
        "",
        f"Bounds of `Locus.adapt` at alpha = {ALPHA:g} on {len(base)} streams (bike hires by date; "
        "simulated losses whose size stays, jumps, grows, swings or differs from day to day, in "
        "batches of 20 and 200 rows). Error of the coverage of a period (root mean square, mean "
        "over streams), the largest share of infinite bounds on any stream, and the pinball loss "
        "of finite bounds relative to fixed ones (geometric mean). A step is divided by the n rows "
        f"of a batch and at most {LARGEST:g}. Made by `make choices-steps-in-time`.",
        "",
        "| step and window | error of coverage | most infinite | pinball |",
        "|---|---:|---:|---:|",
        *rows,
    ]


if __name__ == "__main__":
    main()
