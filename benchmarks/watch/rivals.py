"""Alarms of other packages as statistics of many streams at once: one value per row, as a log.

Each is the package's own recursion on the same p-values or bits, written for many streams at once
(tests/benchmarks compares them with the packages' classes row by row). An alarm is raised at the
first row where the statistic reaches a threshold; `nominal` is the threshold of the package at
the given delta.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mapie.exchangeability_testing.bounds import GammaExponentialMixtureBound, hoeffding_bound
from scipy.special import gammainc, gammaln
from scipy.stats import binom

from benchmarks.watch.compiled import drifter, jumper, plugin, stayer
from benchmarks.watch.streams import WINDOW, Setting, Streams

DELTA = 0.05


@dataclass(frozen=True)
class Method:
    """A statistic of streams, its threshold by its own theory, and what it can watch."""

    path: Callable[[Streams], np.ndarray]
    nominal: Callable[[Setting], float]
    claims: tuple[str, ...] = ("coverage",)
    share: float = 1.0  # of the streams: slow methods see the first ones only


def ville(_: Setting) -> float:
    return float(np.log(1 / DELTA))


# -- MAPIE: RiskMonitoring ------------------------------------------------------------------------


def risk_monitoring(limit: Callable[[Streams], np.ndarray]) -> Callable[[Streams], np.ndarray]:
    """Log of MAPIE's supermartingale: its lower bound exceeds `limit` where this exceeds a level.

    An empirical Bernstein bound, mixed over gamma distributions, as `RiskMonitoring` has it.
    """

    def path(streams: Streams) -> np.ndarray:
        mixture = GammaExponentialMixtureBound(v_opt=1, c=1, alpha_opt=DELTA / 4)
        risk = streams.bits.astype(np.float64)
        t = np.arange(1, risk.shape[1] + 1)
        total = np.cumsum(risk, axis=1)
        before = np.hstack([np.full((len(risk), 1), 0.5), (total / t)[:, :-1]])
        v = np.cumsum((risk - before) ** 2, axis=1)
        s = total - t * limit(streams)[:, None]
        out = np.full(risk.shape, -np.inf)
        up = s > 0
        x, a = (s + v + mixture.rho)[up], (v + mixture.rho)[up]
        out[up] = mixture.leading_constant + gammaln(a) + np.log(gammainc(a, x)) - a * np.log(x)
        out[up] += (s + v)[up]
        return out

    return path


def promised(streams: Streams) -> np.ndarray:
    """The limit that was promised."""
    return np.full(len(streams.bits), streams.setting.promised)


def measured(streams: Streams) -> np.ndarray:
    """The upper bound of the risk on D2, without tolerance."""
    assert streams.reference is not None
    m = int(np.floor(streams.setting.promised * (streams.setting.n2 + 1))) - 1  # misses in D2
    misses = np.arange(streams.setting.n2) < m
    return np.full(len(streams.bits), hoeffding_bound(misses, DELTA / 2, "upper"))


# -- martingales on p-values ----------------------------------------------------------------------


def mapie_jumper(streams: Streams) -> np.ndarray:
    """MAPIE's jumper: it also bets on the reference rows, from the first one on."""
    epsilons = np.array([-1.0, 0.0, 1.0])
    return _after_reference(_each(jumper, streams.p_values, epsilons, True), streams)


def mapie_plugin(streams: Streams) -> np.ndarray:
    """MAPIE's plug-in martingale: it bets by a kernel density of the p-values so far."""
    return _after_reference(_each(plugin, streams.p_values), streams)


def crepes(wealth: Callable[..., np.ndarray], *settings: Any) -> Callable[[Streams], np.ndarray]:
    """A martingale of crepes on the p-values of new rows."""
    return lambda streams: _each(wealth, streams.new_p_values, *settings)


def _each(wealth: Callable[..., np.ndarray], p: np.ndarray, *settings: Any) -> np.ndarray:
    return np.stack([wealth(np.ascontiguousarray(row), *settings) for row in p])


def _after_reference(path: np.ndarray, streams: Streams) -> np.ndarray:
    """An alarm among the reference rows is one at the first new row."""
    n = streams.setting.n2
    path[:, n] = path[:, : n + 1].max(axis=1)
    return path[:, n:]


# -- windows --------------------------------------------------------------------------------------


def windows_of(setting: Setting) -> np.ndarray:
    """The rows of each window: weeks, or 500 rows."""
    if setting.windows:
        return np.array(setting.windows)
    return np.full(setting.horizon // WINDOW, WINDOW)


def windows(streams: Streams) -> np.ndarray:
    """Minus the log p-value of a binomial test of each window, known at its last row."""
    sizes = windows_of(streams.setting)
    ends = np.cumsum(sizes)
    sizes, ends = (part[ends <= streams.bits.shape[1]] for part in (sizes, ends))
    total = np.cumsum(streams.bits, axis=1)[:, ends - 1]
    counts = np.diff(total, axis=1, prepend=0)
    out = np.zeros(streams.bits.shape)
    out[:, ends - 1] = -binom.logsf(counts - 1, sizes, streams.setting.promised)
    return out


def bonferroni(setting: Setting) -> float:
    """All windows of the horizon share delta."""
    return float(np.log(len(windows_of(setting)) / DELTA))


def _mapie_level(_: Setting) -> float:
    return float(np.log(4 / DELTA))  # half for the reference, and a bound for two sides


RIVALS = {
    "MAPIE RiskMonitoring": Method(
        risk_monitoring(promised), _mapie_level, ("coverage", "accepted")
    ),
    "MAPIE RiskMonitoring, reference": Method(risk_monitoring(measured), _mapie_level),
    "MAPIE jumper": Method(mapie_jumper, ville),
    "MAPIE plug-in": Method(mapie_plugin, ville, share=0.1),
    "crepes SimpleJumper": Method(crepes(jumper, np.linspace(-1, 1, 5), False), ville),
    "crepes SleeperStayer": Method(crepes(stayer), ville),
    "crepes SleeperDrifter": Method(crepes(drifter), ville, share=0.1),
    "binomial windows": Method(windows, bonferroni, ("coverage", "accepted")),
}
