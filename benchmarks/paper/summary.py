"""Records, by dataset and method: what the tables and pictures read."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import DATASETS, PAPER, STAND_INS
from benchmarks.paper.methods import METHODS

PAPER_FILE = Path(__file__).with_name("paper.json")
OURS = "Locus"
LOCUS_COLUMNS = ["LOCUS BART", "LOCUS BART gamma", "LOCUS MDN", "LOCUS MDN gamma"]
RIVAL_GROUPS = ("baselines", "peers")
NOT_OURS = (*RIVAL_GROUPS, "same rows", "opinion")
NOT_RIVALS = ("IFlag reversed",)  # printed for the paper's sake; the right sign counts


def paper() -> dict[str, Any]:
    return json.loads(PAPER_FILE.read_text())


class Summary:
    """All records, with quantiles over seeds."""

    def __init__(self, there: Iterable[dict[str, Any]]) -> None:
        self._records: dict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
        for record in there:
            self._records[record["dataset"], record["method"]][record["seed"]] = record
        self.datasets = [
            name
            for name in [*PAPER, *STAND_INS]
            if name in DATASETS and any(dataset == name for dataset, _ in self._records)
        ]
        self.methods = [
            name for name in METHODS if any(method == name for _, method in self._records)
        ]

    def records(self, dataset: str, method: str) -> dict[int, dict[str, Any]]:
        """Records by seed; empty if there are none."""
        return self._records.get((dataset, method), {})

    def values(self, dataset: str, method: str, key: str) -> dict[int, float]:
        """Value of every seed that has one."""
        found = self.records(dataset, method)
        return {
            seed: found[seed][key] for seed in sorted(found) if found[seed].get(key) is not None
        }

    def quantiles(self, dataset: str, method: str, key: str) -> list[float] | None:
        """Median, 5 % and 95 % quantile over seeds, in percent."""
        values = list(self.values(dataset, method, key).values())
        if not values:
            return None
        return [100 * float(q) for q in np.quantile(values, [0.5, 0.05, 0.95])]

    def mean(self, dataset: str, method: str, key: str) -> float:
        """Mean over seeds, NaN without any."""
        values = list(self.values(dataset, method, key).values())
        return float(np.mean(values)) if values else float("nan")

    def kind(self, method: str) -> str:
        """Which score of a method is compared: "alpha" ranks by exceedance, "lambda" by bound.

        Ours ranks by exceedance. Every rival is given the better of its two, chosen on the test
        parts, in its favour.
        """
        if not any(self.values(name, method, "alpha_rate") for name in self.datasets):
            return "lambda"
        if METHODS[method].group not in NOT_OURS:
            return "alpha"
        means = {
            kind: np.nanmean([self.mean(name, method, f"{kind}_rate") for name in self.datasets])
            for kind in ("alpha", "lambda")
        }
        return min(means, key=lambda kind: means[kind])

    def shared(self, methods: Iterable[str]) -> "Summary":
        """The records of these methods on the seeds that all of them have, dataset by dataset.

        A method that lacks datasets which others have is left out: it would be judged on other
        ground than the rest.
        """
        n_datasets = {
            name: sum(bool(self.records(dataset, name)) for dataset in self.datasets)
            for name in methods
        }
        return self.common([n for n, k in n_datasets.items() if k == max(n_datasets.values())])

    def common(self, methods: list[str]) -> "Summary":
        """The same with none left out: datasets that one of the methods lacks drop out instead."""
        kept = []
        for dataset in self.datasets:
            seeds = set.intersection(*(set(self.records(dataset, name)) for name in methods))
            kept += [self.records(dataset, m)[seed] for m in methods for seed in sorted(seeds)]
        return Summary(kept)

    @property
    def rivals(self) -> list[str]:
        """Baselines and peers that our default is compared with."""
        return [
            name
            for name in self.methods
            if METHODS[name].group in RIVAL_GROUPS and name not in NOT_RIVALS
        ]


def cell(quantiles: list[float | None] | None) -> str:
    """Median and quantiles as the paper prints them."""
    if quantiles is None:
        return ""
    if quantiles[0] is None:
        return "-- (--; --)"
    return "{:.1f} ({:.1f}; {:.1f})".format(*quantiles)


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]
