"""Streams on which alarms are compared: simulated, flights and bike hires in the order of time.

A stream of the coverage claim is D2's tails and those of new rows; a row is a miss if its tail is
below the level that D2 gives. A stream of the claim about accepted rows is bits, bad or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.choices.flights_in_time import FEATURES, FIT, LABELLED, flights
from benchmarks.datasets import load
from benchmarks.watch.compiled import counts_before
from locuscore import Locus
from locuscore._laws.calibration import conformal_rank

CACHE = Path(__file__).parents[2] / "build" / "watch"  # of fitted streams; not kept
ALPHA, ETA = 0.1, 0.1  # promised: misses, and bad among accepted, in simulated streams
HORIZON, CHANGE, GROWTH, WINDOW = 10_000, 2_000, 4_000, 500  # rows
N2, FACTORS = (500, 2_000), (1.25, 1.5, 2.0, 3.0)
SHAPES = ("all tails", "tails below alpha")
REAL_ETA, REAL_DELTA, TAU = 0.2, 0.05, {"flights": 30.0, "bike": 60.0}
MONTHS_WATCHED, MOST_LABELLED = (4, 5), 12_500


@dataclass(frozen=True)
class Setting:
    """What a stream promises, and how it breaks the promise."""

    claim: str  # "coverage" or "accepted"
    n2: int = 0
    factor: float = 1.0  # of the promised rate, in the end
    change: int = 0  # rows before it
    course: str = "jump"  # or "drift": grows for GROWTH rows
    shape: str = ""  # of the changed tails
    horizon: int = HORIZON
    promised: float = ALPHA
    windows: tuple[int, ...] = ()  # rows of each window of the binomial tests

    @property
    def name(self) -> str:
        parts = [self.claim, f"n2 {self.n2}" if self.n2 else "", self.shape]
        if self.factor != 1:
            parts += [self.course, f"at {self.change}", f"x{self.factor:g}"]
        return ", ".join(part for part in parts if part)

    @property
    def null(self) -> "Setting":
        """The same stream, if the promise were kept."""
        return replace(self, factor=1.0, change=0, course="jump", shape="")

    def factors(self) -> np.ndarray:
        """The rate of each row in units of the promised one."""
        age = np.arange(self.horizon) - self.change
        grown = np.clip(age / GROWTH, 0, 1) if self.course == "drift" else 1.0 * (age >= 0)
        return np.asarray(1 + (self.factor - 1) * grown)


@dataclass(frozen=True)
class Streams:
    """Some streams of one setting, one in each row."""

    setting: Setting
    bits: np.ndarray  # misses, or bad accepted rows
    reference: np.ndarray | None = None  # D2's tails
    tails: np.ndarray | None = None
    seed: int = 0

    @cached_property
    def p_values(self) -> np.ndarray:
        """Smoothed conformal p-values of D2 and then of new rows, each given the rows before it."""
        assert self.reference is not None
        assert self.tails is not None
        both = np.concatenate([self.reference, self.tails], axis=1)
        ties = np.random.default_rng([self.seed, 1]).uniform(size=both.shape)
        less, equal = np.stack([counts_before(row) for row in both], axis=1)
        return np.asarray((less + ties * (equal + 1)) / np.arange(1, both.shape[1] + 1))

    @property
    def new_p_values(self) -> np.ndarray:
        return self.p_values[:, self.setting.n2 :]

    def part(self, n: int, rows: int) -> "Streams":
        """The first rows of the first n streams."""
        cut = Streams(self.setting, self.bits[:n, :rows], seed=self.seed)
        if self.reference is None or self.tails is None:
            return cut
        cut = replace(cut, reference=self.reference[:n], tails=self.tails[:n, :rows])
        # All p-values are made once: their ties are broken at random.
        cut.__dict__["p_values"] = self.p_values[:n, : self.setting.n2 + rows]
        return cut


def simulated(setting: Setting, n_streams: int, seed: int) -> Streams:
    """Streams of known rates; D2 is drawn anew for each."""
    rng = np.random.default_rng(seed)
    factors = setting.factors()
    u = rng.uniform(size=(n_streams, setting.horizon))
    if setting.claim == "accepted":
        return Streams(setting, u < setting.promised * factors, seed=seed)
    alpha = setting.promised
    if setting.shape == "tails below alpha":
        miss = rng.uniform(size=u.shape) < alpha * factors
        tails = np.where(miss, alpha * u, alpha + (1 - alpha) * u)
    else:
        # P(tail < u) = u^c, so that P(tail < alpha) = factor * alpha; the others shrink with it.
        tails = u ** (1 / (1 + np.log(factors) / np.log(alpha)))
    reference = rng.uniform(size=(n_streams, setting.n2))
    rank = conformal_rank(setting.n2, alpha)
    level = -np.sort(-reference, axis=1)[:, [rank - 1]]
    return Streams(setting, tails < level, reference, tails, seed)


def jumps_and_drifts() -> Iterator[Setting]:
    """All simulated settings that break their promise."""
    for course in ("jump", "drift"):
        for change in (0, CHANGE):
            for factor in FACTORS:
                broken: dict[str, Any] = {"factor": factor, "change": change, "course": course}
                yield Setting("accepted", promised=ETA, **broken)
                for n2 in N2:
                    yield Setting("coverage", n2=n2, shape=SHAPES[0], **broken)
                    if course == "jump" and n2 == N2[0]:
                        yield Setting("coverage", n2=n2, shape=SHAPES[1], **broken)


@lru_cache(maxsize=1)
def _flights() -> tuple[np.ndarray, ...]:
    table = flights(share=1.0)
    X, y = table[FEATURES].to_numpy(dtype=np.float64), table["arr_delay"].to_numpy(dtype=float)
    month, day = table["month"].to_numpy(), table["date"].dt.dayofyear.to_numpy()
    first, labelled = np.isin(month, FIT), np.isin(month, LABELLED)
    return X, y, day // 7, first, labelled, np.isin(month, MONTHS_WATCHED)


@lru_cache(maxsize=1)
def _bike() -> tuple[np.ndarray, ...]:
    X, y = load("bike")  # hour, weekday, month and year come last
    month, hour = 12 * (X[:, -1] - 2011) + X[:, -2], X[:, -4]
    day = np.cumsum(np.diff(hour, prepend=24) < 0)
    return X[:, :-1], y, day // 7, month <= 4, (month > 4) & (month <= 9), month > 9


def real(name: str, seed: int) -> dict[str, Streams]:
    """Both claims of one split: coverage, and the share of bad among the accepted rows.

    g is the same for all seeds; of February and March 12,500 random flights are labelled.
    """
    kept = CACHE / f"{name}-{seed}.npz"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **_fitted(name, seed))
    with np.load(kept) as found:
        part = dict(found)
    accepted = part["accepted"]
    covers = Setting(
        "coverage", len(part["reference"]), horizon=len(accepted), shape=name,
        windows=_sizes(part["week"]),
    )  # fmt: skip
    accepts = Setting(
        "accepted", horizon=int(accepted.sum()), shape=name, promised=REAL_ETA,
        windows=_sizes(part["week"][accepted]),
    )  # fmt: skip
    reference, tails = part["reference"][None], part["tails"][None]
    level = -np.sort(-reference)[:, [conformal_rank(reference.size, ALPHA) - 1]]
    return {
        "coverage": Streams(covers, tails < level, reference, tails, seed),
        "accepted": Streams(accepts, part["bad"][None, accepted], seed=seed),
    }


def _sizes(weeks: np.ndarray) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unique(weeks, return_counts=True)[1])


def _fitted(name: str, seed: int) -> dict[str, np.ndarray]:
    """Tails of D2 and of new rows, which of these are accepted, and which are bad."""
    X, y, week, first, labelled, new = {"flights": _flights, "bike": _bike}[name]()
    rng = np.random.default_rng(seed)
    labelled = rng.permutation(np.flatnonzero(labelled))[:MOST_LABELLED]
    g = HistGradientBoostingRegressor(random_state=0).fit(X[first], y[first])
    locus = Locus(g, loss="absolute", random_state=seed).fit(X[labelled], y[labelled])
    rule = locus.certify(TAU[name], REAL_ETA, REAL_DELTA)
    S, z = locus.row_signals(X[new]), np.asarray(locus.losses(X[new], y[new]))
    model = locus.loss_model_
    return {
        "tails": model.tails(S, z),
        "reference": model.tails(locus.calibration_signals_, locus.calibration_losses_),
        "accepted": np.asarray(locus.accepts(X[new], rule), dtype=bool),
        "bad": z > TAU[name],
        "week": week[new],
    }
