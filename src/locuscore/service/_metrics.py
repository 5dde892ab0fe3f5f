"""Counters for Prometheus, in a registry of their own: several apps may share a process."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from locuscore import Column
from locuscore.service._model import Answer

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 10_000, 100_000)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = Counter(
            "locuscore_requests", "Requests answered.", ["path", "status"], registry=own
        )
        self._seconds = Histogram(
            "locuscore_request_seconds",
            "Time to the answer.",
            ["path"],
            buckets=SECONDS,
            registry=own,
        )
        self._rows = Counter("locuscore_rows", "Rows scored.", registry=own)
        self._accepted = Counter("locuscore_accepted_rows", "Rows not flagged.", registry=own)
        self._bounds = Counter("locuscore_bounds", "Bounds computed.", registry=own)
        self._infinite = Counter("locuscore_infinite_bounds", "Infinite bounds.", registry=own)
        self._acceptance = Gauge(
            "locuscore_acceptance_rate", "Share of rows not flagged, since the start.", registry=own
        )
        self._infinite_share = Gauge(
            "locuscore_infinite_bound_share", "Share of infinite bounds, since the start.",
            registry=own,
        )  # fmt: skip
        self._unseen = Counter(
            "locuscore_unseen_values",
            "Values that fit has not seen, by column.",
            ["column"],
            registry=own,
        )
        self.batch_rows = Histogram(
            "locuscore_batch_rows", "Rows scored in one call.", buckets=ROWS, registry=own
        )
        self.under_way = Gauge(
            "locuscore_score_requests_under_way", "Requests read, waiting or scored.", registry=own
        )
        self.reloads = Counter("locuscore_reloads", "Loads of an archive.", ["is_ok"], registry=own)
        self._totals = np.zeros(4)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def scored(self, answer: Answer, n: int, columns: Iterable[Column]) -> None:
        """Count rows, accepted rows and infinite bounds of one request."""
        roles = [(column.role, answer[column.name]) for column in columns]
        bounds = [values for role, values in roles if role == "bound"]
        accepted = n - sum(int(np.sum(values)) for role, values in roles if role == "flag")
        infinite = sum(int(np.isinf(values).sum()) for values in bounds)
        found = (n, accepted, n * len(bounds), infinite)
        counters = (self._rows, self._accepted, self._bounds, self._infinite)
        for counter, value in zip(counters, found, strict=True):
            counter.inc(value)
        self._totals += found
        rows, accepted_rows, all_bounds, infinite_bounds = self._totals
        if rows:
            self._acceptance.set(accepted_rows / rows)
        if all_bounds:
            self._infinite_share.set(infinite_bounds / all_bounds)

    def unseen(self, counts: Mapping[Any, int]) -> None:
        """Count values that fit has not seen."""
        for name, n in counts.items():
            self._unseen.labels(str(name)).inc(n)

    def text(self) -> bytes:
        """Return everything in Prometheus' format."""
        return generate_latest(self._registry)
