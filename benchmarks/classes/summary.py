"""Records by dataset and method on the seeds that methods share, and paired comparisons."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, t

from benchmarks.classes.methods import METHODS, OURS, OWN
from benchmarks.classes.protocol import DATASETS, LABELLED, TRAIN
from benchmarks.paper.comparisons import holm
from benchmarks.paper.records import Record

# Test rows over the others. Splits of one table share rows, so their mean varies more than that of
# independent ones (Nadeau and Bengio 2003).
OVERLAP = (1 - TRAIN - LABELLED) / (TRAIN + LABELLED)
LEVEL = 0.05
FEWEST_SEEDS = 3


@dataclass(frozen=True)
class Difference:
    """A rival's error minus ours on one dataset: below zero, the rival is better."""

    dataset: str
    rival: str
    ours: float
    mean: float
    standard_error: float
    p_value: float
    n_seeds: int
    holm: float = float("nan")


class Summary:
    """Records of one loss; a dataset counts with the seeds that all of its methods have.

    Methods of the groups `without` are left out.
    """

    def __init__(self, records: Iterable[Record], loss: str, without: tuple[str, ...] = ()) -> None:
        found: dict[str, dict[str, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
        for record in records:
            if record["dataset"] in DATASETS and DATASETS[record["dataset"]][-1] == loss:
                found[record["dataset"]][record["method"]][record["seed"]] = record
        self.loss = loss
        self.methods = [
            name
            for name, method in METHODS.items()
            if method.group not in without and found and all(name in by for by in found.values())
        ]
        self._found = found
        self.n_seeds: dict[str, int] = {}
        self._records: dict[tuple[str, str], list[Record]] = {}
        for dataset in (name for name in DATASETS if name in found and self.methods):
            by_method = found[dataset]
            seeds = sorted(set.intersection(*(set(by_method[name]) for name in self.methods)))
            if seeds:
                self.n_seeds[dataset] = len(seeds)
                for name in self.methods:
                    self._records[dataset, name] = [by_method[name][seed] for seed in seeds]
        self.datasets = list(self.n_seeds)

    @property
    def rivals(self) -> list[str]:
        """Methods that are not ours."""
        return [name for name in self.methods if METHODS[name].group not in OWN]

    def values(self, dataset: str, method: str, key: str) -> np.ndarray:
        """One value for each shared seed."""
        return np.array([record[key] for record in self._records[dataset, method]])

    def shares_left(self) -> dict[str, float]:
        """Mean loss at 70 % over that of all rows, mean over all datasets, by method.

        Every dataset weighs the same here, however often its classifier is wrong.
        """
        shares = self.means("error70") / self.means("mean_loss")
        return dict(zip(self.methods, shares.mean(axis=0).tolist(), strict=True))

    def means(self, key: str) -> np.ndarray:
        """Means over seeds, one row for each dataset and one column for each method."""
        return np.array(
            [
                [self.values(dataset, name, key).mean() for name in self.methods]
                for dataset in self.datasets
            ]
        )

    def mean_of_all(self, key: str) -> dict[str, float]:
        """Mean over all datasets, by method."""
        return dict(zip(self.methods, self.means(key).mean(axis=0).tolist(), strict=True))

    def mean_ranks(self, key: str) -> dict[str, float]:
        """Mean rank over all datasets, by method; 1 is best."""
        ranks = rankdata(np.round(self.means(key), 9), axis=1)
        return dict(zip(self.methods, ranks.mean(axis=0).tolist(), strict=True))

    def differences(self, key: str) -> list[Difference]:
        """Every rival against our default on every dataset, with Holm's correction over all.

        A pair is compared on all seeds that both have.
        """
        found = []
        for dataset in self.datasets:
            by_method = self._found[dataset]
            for rival in self.rivals:
                seeds = sorted(set(by_method[OURS]) & set(by_method[rival]))
                ours, theirs = (
                    np.array([by_method[name][seed][key] for seed in seeds])
                    for name in (OURS, rival)
                )
                error, p_value = corrected_test(theirs - ours)
                means = float(ours.mean()), float((theirs - ours).mean())
                found.append(Difference(dataset, rival, *means, error, p_value, len(seeds)))
        adjusted = holm(np.array([one.p_value for one in found]))
        return [
            Difference(**{**vars(one), "holm": float(value)})
            for one, value in zip(found, adjusted, strict=True)
        ]


def corrected_test(gap: np.ndarray) -> tuple[float, float]:
    """Standard error of a mean over splits that share rows, and two-sided p-value of "it is zero".

    The variance of the mean is ``(1/J + n_test/n_rest) s^2``.
    """
    n = len(gap)
    if n < FEWEST_SEEDS:
        return float("nan"), float("nan")
    error = float(np.std(gap, ddof=1) * np.sqrt(1 / n + OVERLAP))
    if error == 0:
        return 0.0, float(gap[0] == 0)
    return error, float(2 * t.sf(abs(gap.mean()) / error, n - 1))
