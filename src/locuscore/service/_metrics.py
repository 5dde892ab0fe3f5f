"""Counters for Prometheus, in a registry of their own: several apps may share a process."""

from collections.abc import Iterable, Mapping
from functools import partial
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
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self._requests = counter("locuscore_requests", "Requests answered.", ["path", "status"])
        self._seconds = histogram(
            "locuscore_request_seconds", "Time to the answer.", ["path"], buckets=SECONDS
        )
        self._rows = counter("locuscore_rows", "Rows scored.")
        self._accepted = counter("locuscore_accepted_rows", "Rows not flagged.")
        self._bounds = counter("locuscore_bounds", "Bounds computed.")
        self._infinite = counter("locuscore_infinite_bounds", "Infinite bounds.")
        self._acceptance = gauge(
            "locuscore_acceptance_rate", "Share of rows not flagged, since the start."
        )
        self._infinite_share = gauge(
            "locuscore_infinite_bound_share", "Share of infinite bounds, since the start."
        )
        self._unseen = counter(
            "locuscore_unseen_values", "Values that fit has not seen, by column.", ["column"]
        )
        self.batch_rows = histogram(
            "locuscore_batch_rows", "Rows scored in one call.", buckets=ROWS
        )
        self.under_way = gauge(
            "locuscore_score_requests_under_way", "Requests read, waiting or scored."
        )
        self.log_lines_lost = counter(
            "locuscore_log_lines_lost", "Lines of the log that could not be written."
        )
        self.reloads = counter("locuscore_reloads", "Loads of an archive.", ["is_ok"])
        self._totals = np.zeros(4)
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        # Looking a child up by its labels costs more than counting.
        known = self._children.get((path, status))
        if known is None:
            known = (self._requests.labels(path, str(status)), self._seconds.labels(path))
            self._children[path, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def scored(self, answer: Answer, n: int, columns: Iterable[Column]) -> None:
        """Count rows, accepted rows and infinite bounds of one batch."""
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
        return generate_latest(self.registry)
