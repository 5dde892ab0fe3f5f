"""Which engine wins where: all engines on the same seeds, relative to `Forest`."""

import numpy as np

from benchmarks.paper.summary import Summary

NAMES = (
    *("Forest", "QuantileGrid", "Scale", "Gaussian", "FlexCode", "Ensemble", "Bagged Scale"),
    *("BART", "MDN", "BayesianMDN", "Flow", "VariationalGP"),
)
REFERENCE = "Forest"


def method_of(name: str, end: str) -> str:
    """The record's name of an engine; the paper's engines on x alone have one of their own."""
    return f"LOCUS {name}" if name in ("BART", "MDN") and not end else name + end


def common_seeds(summary: Summary, dataset: str, end: str) -> list[int]:
    """Seeds that every engine has on a dataset."""
    found = [set(summary.records(dataset, method_of(name, end))) for name in NAMES]
    return sorted(set.intersection(*found))


def ratios(summary: Summary, end: str) -> tuple[list[str], np.ndarray]:
    """Pinball loss of each engine (rows) over that of the reference, by dataset (columns)."""
    datasets = [name for name in summary.datasets if common_seeds(summary, name, end)]
    means = np.array(
        [
            [
                np.mean(
                    [
                        summary.records(dataset, method_of(name, end))[seed]["pinball"]
                        for seed in common_seeds(summary, dataset, end)
                    ]
                )
                for dataset in datasets
            ]
            for name in NAMES
        ]
    )
    return datasets, means / means[NAMES.index(REFERENCE)]


def engine_lines(summary: Summary) -> list[str]:
    """The section of the report."""
    lines = [
        "## Engines",
        "",
        f"Pinball loss of the bound at alpha = 0.1, relative to `{REFERENCE}` on the same seeds (3 "
        "on tables of up to 11,000 rows, 1 above); the smallest of each table is bold. No engine "
        "has the second opinion here.",
    ]
    for end, sees in (("", "x alone"), ("+", "x, g(x) and the spread of g's trees")):
        datasets, found = ratios(summary, end)
        if not datasets:
            continue
        lines += ["", f"The engine sees {sees}:", ""]
        lines.append("| engine | " + " | ".join(datasets) + " | geometric mean |")
        lines.append("|---|" + "---:|" * (len(datasets) + 1))
        best = found.argmin(axis=0)
        for i, name in enumerate(NAMES):
            cells = [
                f"**{value:.3f}**" if best[j] == i else f"{value:.3f}"
                for j, value in enumerate(found[i])
            ]
            mean = np.exp(np.log(found[i]).mean())
            lines.append(f"| {name} | " + " | ".join(cells) + f" | {mean:.3f} |")
    return [*lines, ""]
