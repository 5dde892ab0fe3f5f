"""The pictures of a report, as numbers: from a sample of rows, and with the library's measures."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.impute import SimpleImputer

from locuscore import operating_curve
from locuscore._protocols import FloatArray
from locuscore.metrics import exceedance_area, exceedance_curve, local_coverage, pit_uniformity
from locuscore.report._words import LEVEL, pit_sentence, smallest_p

MOST_POINTS = 2_000
CURVE_POINTS = 200
N_DECILES = 10
N_BINS = 40
PIT_BINS = 20
PIT_ROWS = 10_000  # of more rows the test would find what is too small to matter


def bound_against_loss(
    alpha: float, bound: FloatArray, loss: FloatArray, points: FloatArray, n_infinite: int
) -> dict[str, Any]:
    """A cloud of points (bound, loss), finite ones only, and how far the axes should reach."""
    shown = points[np.isfinite(points[:, 0])]
    finite = bound[np.isfinite(bound)]
    ends = [np.quantile(v, 0.995) if len(v) else None for v in (finite, loss)]
    return {
        "alpha": alpha,
        "points": [[_short(u), _short(z)] for u, z in shown.tolist()],
        "n_points": len(shown),
        "n_infinite": n_infinite,
        "axis_max": [None if end is None else float(end) for end in ends],
    }


def deciles(bound: FloatArray, loss: FloatArray) -> list[dict[str, Any]]:
    """Coverage in tenths of the rows by their bound; equal bounds stay together."""
    found = local_coverage(loss, bound, bound, N_DECILES, 1 - LEVEL)
    order = np.argsort(bound, kind="stable")
    first = np.append(0, np.cumsum(found.n_rows)[:-1])
    means = np.add.reduceat(loss[order], first) / found.n_rows
    columns = {
        "low": bound[order][first],
        "high": found.group,
        "n": found.n_rows,
        "covered": np.rint(found.coverage * found.n_rows).astype(np.int64),
        "rate": found.coverage,
        "ci_low": found.low,
        "ci_high": found.high,
        "mean_loss": means,
    }
    lists = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def pit(counts: np.ndarray, sample: FloatArray) -> dict[str, Any]:
    """Histogram over all rows, and a test of uniformity on a sample of them."""
    p_value = smallest_p(pit_uniformity(sample).p_value)
    bars = counts.tolist()
    return {"counts": bars, "p_value": p_value, "sentence": pit_sentence(p_value, bars)}


def curves(
    tau: float, loss: FloatArray, scores: Mapping[str, FloatArray], seed: int
) -> dict[str, Any]:
    """Exceedance among the accepted against acceptance, by score; the first one with its band."""
    series: list[dict[str, Any]] = []
    for name, score in scores.items():
        part: dict[str, Any] = {"name": name}
        banded = None if series else operating_curve(score, loss, tau, 1 - LEVEL, seed)
        curve = exceedance_curve(score, loss, tau) if banded is None else banded
        shown = _spread(curve.acceptance)
        for key in ("low", "high", "acceptance", "exceedance"):
            values = getattr(curve, key, None)
            part[key] = None if values is None else [_short(v) for v in values[shown].tolist()]
        series.append(part | {"area": exceedance_area(score, loss, tau)})
    return {"tau": tau, "series": series, "band_level": LEVEL, "n_rows": len(loss)}


def bounds(alpha: float, bound: FloatArray) -> dict[str, Any]:
    """Distribution of the finite bounds; the longest half per cent is counted, not drawn."""
    finite = bound[np.isfinite(bound)]
    edges, counts, quantiles, n_above = np.empty(0), np.empty(0, dtype=np.int64), {}, 0
    if len(finite):
        levels = (0.1, 0.5, 0.9)
        found = np.quantile(finite, levels)
        quantiles = {f"{q:g}": float(v) for q, v in zip(levels, found, strict=True)}
        low, high = float(finite.min()), float(np.quantile(finite, 0.995))
        drawn = finite[finite <= high]
        counts, edges = np.histogram(drawn, N_BINS if high > low else 1, (low, high))
        n_above = len(finite) - len(drawn)
    return {
        "alpha": alpha,
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "n_infinite": len(bound) - len(finite),
        "n_above": n_above,
        "quantiles": quantiles,
    }


def outlier_score(features: FloatArray, seed: int) -> FloatArray:
    """How unusual each row is, by an isolation forest on the same rows; gaps take the median."""
    imputer = SimpleImputer(strategy="median", keep_empty_features=True)
    # The forest keeps single precision.
    filled = imputer.fit_transform(np.clip(features, -1e30, 1e30))
    return np.asarray(-IsolationForest(random_state=seed).fit(filled).score_samples(filled))


def _spread(acceptance: FloatArray) -> np.ndarray:
    """Positions of at most so many points, evenly spread over the acceptance."""
    wanted = np.linspace(0, 1, CURVE_POINTS)
    return np.unique(np.minimum(np.searchsorted(acceptance, wanted), len(acceptance) - 1))


def _short(value: float) -> float:
    """Six digits are more than a picture shows."""
    return float(f"{value:.6g}")
