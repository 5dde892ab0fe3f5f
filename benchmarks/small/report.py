"""The page of the small samples, from the records."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from benchmarks.paper import records
from benchmarks.paper.summary import table
from benchmarks.small.methods import ALPHAS, METHODS, OURS, REFERENCE
from benchmarks.small.tables import DATASETS, N_LABELLED

PAGE = Path(__file__).with_name("RESULTS.md")
INTRODUCTION = """# Small samples

How good are bounds from 60 to 500 labelled rows? The predictor is a forest of 300 trees, trained
on at most 300 other rows of the same table, and the loss is absolute. Each cell is a mean over
tables, each of them a mean over {n_seeds} seeds. Pinball losses and bounds are in units of the
mean loss; the pinball loss judges width and coverage together, and the smallest is best. Ranks
are by the pinball loss at alpha = {alpha}, table by table. "tail" is the share of large losses
(the largest 30 % of the test losses) among the 70 % of the rows with the smallest bounds, in
percent. Seconds are processor time to fit and to score.

"constant bound" is one number, the conformal quantile of all labelled losses; MAPIE's split
conformal interval around g is the same. crepes divides the errors by the spread of g's trees,
which needs no labels. Both use all labelled rows to calibrate. MAPIE's CQR on the loss calibrates
on half of them. quantile-forest does not calibrate, and promises no coverage.

`python -m benchmarks.small.run` makes the records that are missing and writes this page.
"""


class Means:
    """Means over the seeds that all methods of a dataset share."""

    def __init__(self, found: Iterable[records.Record]) -> None:
        by_key = {records.key(record): record for record in found}
        present = {method for _, _, method in by_key}
        self.methods = [method for method in METHODS if method in present]
        seeds: dict[str, list[int]] = defaultdict(list)
        for name, seed in sorted({(name, seed) for name, seed, _ in by_key}):
            if all((name, seed, method) in by_key for method in self.methods):
                seeds[name].append(seed)
        self.seeds = {name: seeds[name] for name in DATASETS if name in seeds}
        self._records = by_key

    def values(self, dataset: str, method: str, key: str) -> np.ndarray:
        """One value per seed."""
        found = (self._records[dataset, seed, method][key] for seed in self.seeds[dataset])
        # Infinity is not in JSON, and an infinite bound has an infinite loss.
        return np.array([np.inf if value is None else value for value in found])

    def by_dataset(self, n: int, method: str, key: str) -> np.ndarray:
        """One mean per table with n labelled rows."""
        return np.array([self.values(name, method, key).mean() for name in self.datasets(n)])

    def datasets(self, n: int) -> list[str]:
        return [name for name in self.seeds if DATASETS[name][1] == n]


def write(folder: Path, page: Path = PAGE) -> None:
    """Write the page from the records of a folder."""
    means = Means(records.read(folder))
    if not means.seeds:
        print("no records yet")
        return
    counts = sorted({len(seeds) for seeds in means.seeds.values()})
    n_seeds = " to ".join(str(count) for count in dict.fromkeys([counts[0], counts[-1]]))
    lines = [INTRODUCTION.format(n_seeds=n_seeds, alpha=ALPHAS[0])]
    for n in N_LABELLED:
        if means.datasets(n):
            lines += [f"## {n} labelled rows", "", *_by_method(means, n), *_by_table(means, n)]
    page.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _by_method(means: Means, n: int) -> list[str]:
    """All methods, the smallest pinball loss first."""
    first, second = ALPHAS
    ranked = np.array([means.by_dataset(n, m, f"pinball_{first}") for m in means.methods])
    # Rounded, since equal bounds that are computed in two ways differ in their last bits.
    ranked = np.round(ranked, 9)
    ranks = dict(zip(means.methods, rankdata(ranked, axis=0).mean(axis=1), strict=True))
    head = ["method", "rank"]
    for alpha in ALPHAS:
        head += [f"pinball {alpha}", f"coverage {1 - alpha:g}", f"bound {alpha}"]
    rows = []
    for method in sorted(means.methods, key=lambda m: ranks[m]):
        cells = [method, f"{ranks[method]:.1f}"]
        for alpha in (first, second):
            for key, digits in (("pinball", 4), ("coverage", 3), ("bound", 2)):
                value = means.by_dataset(n, method, f"{key}_{alpha}").mean()
                cells.append(f"{value:.{digits}f}")
        tail = 100 * means.by_dataset(n, method, "tail70").mean()
        seconds = means.by_dataset(n, method, "seconds").mean()
        rows.append([*cells, f"{tail:.1f}", f"{seconds:.2f}"])
    return table([*head, "tail", "seconds"], rows)


def _by_table(means: Means, n: int) -> list[str]:
    """Each table's pinball loss relative to the constant bound's."""
    if REFERENCE not in means.methods:
        return []
    key = f"pinball_{ALPHAS[0]}"
    others = [method for method in means.methods if method != REFERENCE]
    rows = []
    for name in means.datasets(n):
        reference = means.values(name, REFERENCE, key)
        cells = [DATASETS[name][0]]
        for method in others:
            values = means.values(name, method, key)
            ratio = values.mean() / reference.mean()
            # Of the ratio of two means: seeds vary together, so their difference counts.
            error = np.std(values - ratio * reference) / np.sqrt(len(values)) / reference.mean()
            plain = f"{ratio:.3f}"
            cells.append(f"{plain} ± {error:.3f}" if method == OURS else plain)
        rows.append(cells)
    text = f"Pinball loss at alpha = {ALPHAS[0]}, relative to the constant bound's:"
    return [text, "", *table(["table", *others], rows)]
