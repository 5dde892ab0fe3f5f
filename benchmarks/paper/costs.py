"""How long a task takes: from the records so far, else from rough costs measured once."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.datasets import DATASETS
from benchmarks.paper.methods import METHODS

if TYPE_CHECKING:
    from benchmarks.paper.run import Job

# Seconds of one core for g and its predictions, with 1,000 rows to train on and 10 features.
G_SECONDS = 1.0
FEWEST_ROWS = 300  # below, costs no longer shrink with the rows


class Costs:
    """Seconds per method and dataset; records of the dataset itself count most."""

    def __init__(self, there: list[dict[str, Any]]) -> None:
        seconds, g, unit = defaultdict(list), defaultdict(list), defaultdict(list)
        for record in there:
            name, dataset = record["method"], record["dataset"]
            spent = record.get("total_seconds")
            if spent is None:
                continue
            seconds[name, dataset].append(spent)
            g[dataset].append(record["g_seconds"])
            unit[name].append(spent / _size(record["n"], record["p"], METHODS[name].power))
        self._seconds = {key: float(np.median(values)) for key, values in seconds.items()}
        self._g = {key: 1.3 * float(np.median(values)) for key, values in g.items()}
        self._unit = {key: float(np.median(values)) for key, values in unit.items()}

    def method(self, name: str, dataset: str) -> float:
        """Seconds to fit and score one method."""
        if (name, dataset) in self._seconds:
            return self._seconds[name, dataset]
        method = METHODS[name]
        unit = self._unit.get(name, method.seconds)
        return unit * _size(*DATASETS[dataset].shape, method.power)

    def g(self, dataset: str) -> float:
        """Seconds to load, to fit g and to predict with it."""
        rows, features = DATASETS[dataset].shape
        thousands = 0.4 * rows / 1000
        return self._g.get(dataset, 0.3 + G_SECONDS * thousands**1.1 * (features / 10) ** 0.7)

    def job(self, job: "Job") -> float:
        return self.g(job.dataset) + sum(self.method(name, job.dataset) for name in job.methods)


def _size(rows: int, features: int, power: float) -> float:
    """Size of a task beside one with 1,000 rows in D1 and few features."""
    in_d1 = max(0.2 * rows, FEWEST_ROWS)
    return (in_d1 / 1000) ** power * max(1.0, features / 12) ** 0.3
