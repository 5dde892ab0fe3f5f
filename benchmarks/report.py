"""RESULTS.md and its pictures from the committed records; ``make bench-report``."""

import argparse
from collections import Counter
from pathlib import Path

import figures
import homes
import records
from datasets import DATASETS, NOT_AVAILABLE
from methods import METHODS, USUAL
from run import n_seeds
from summary import LOCUS_COLUMNS, OURS, Summary, paper
from tables import (
    better_than_paper,
    better_than_rivals,
    coverage_table,
    fidelity_table,
    own_tables,
    paper_table,
    per_dataset,
    tau_source_table,
    time_table,
)

RESULTS = Path(__file__).with_name("RESULTS.md")
NOTES = Path(__file__).with_name("NOTES.md")  # written by hand: reasons and what was tried
INTRODUCTION = """# Results

Made by `make bench-report` from the records in `records/`; do not edit. The protocol is the
paper's (Appendix A): 40 % of the rows for g, a random forest with 300 trees; 40 % for D1 and D2;
10 % to choose thresholds; 10 % to judge. Absolute loss on the standardised target, alpha = 0.1,
tau the 0.7 quantile of the test losses. Percent; median (5 %; 95 %) over seeds. The LOCUS columns
see x alone, as in the paper; "+" means that a model sees g(x) and the spread of g's trees too;
"Locus" is our default, `Locus(g)`.
"""


def missing(summary: Summary) -> list[str]:
    """What the grid still lacks, in a few lines."""
    lacking = Counter[str]()
    absent = [name for name in DATASETS if name not in summary.datasets]
    for dataset in summary.datasets:
        for method in USUAL:
            wanted = {s for s in range(n_seeds(dataset)) if METHODS[method].wants(dataset, s)}
            seeds = wanted - set(summary.records(dataset, method))
            lacking[dataset] += len(seeds)
    slow = [name for name, method in METHODS.items() if method.group == "slow"]
    lines = [f"- {name}: data not available ({NOT_AVAILABLE[name]})" for name in NOT_AVAILABLE]
    lines += [f"- {name}: no records yet" for name in absent]
    lines += [f"- {name}: {n} records missing" for name, n in lacking.items() if n]
    lines += [f"- {name}: no records yet" for name in slow if name not in summary.methods]
    return ["## What is missing", "", *lines, ""]


def build(summary: Summary, pictures: list[str]) -> list[str]:
    """All lines of the report."""
    lines = [*INTRODUCTION.splitlines(), "", "![overview](figures/overview.png)", ""]
    lines += missing(summary)
    lines += ["## Better than the paper", "", *better_than_paper(summary)]
    lines += ["## Better than every rival", ""]
    lines += better_than_rivals(summary, "rate", "Tuned conditional rate")
    lines += better_than_rivals(summary, "tail70", "Rate at exactly 70 % of the test rows")
    lines += own_tables(
        summary,
        [OURS, *LOCUS_COLUMNS, *summary.rivals],
        "Our default beside the rivals and the paper's engines. Methods without calibration "
        "(forest mean loss, LightGBM, quantile-forest) learn from D1 and D2, the others from D1.",
    )
    lines += own_tables(
        summary,
        [OURS, *(name for name in summary.methods if METHODS[name].group == "same rows")],
        "Our default beside the best of these when they learn from D1 alone, as its engine does: "
        "what the rows of D2, the price of a guarantee, are worth to them.",
    )
    own = [name for name in summary.methods if METHODS[name].group in ("ours", "engines", "more")]
    lines += own_tables(summary, own, "Our default beside our other engines.")
    lines += ["## Fidelity", "", *fidelity_table(summary), *coverage_table(summary)]
    lines += tau_source_table(summary)
    if NOTES.exists():
        lines += [*NOTES.read_text().splitlines(), ""]
    lines += ["## The paper's tables", ""]
    for key in paper()["tables"]:
        lines += paper_table(summary, key)
        lines += [f"![{key}](figures/{key}.png)", ""]
    lines += homes.section()
    lines += ["## All methods", ""]
    lines += per_dataset(summary, "rate", "Tuned conditional rate, %, mean over seeds:")
    lines += per_dataset(summary, "tail70", "Rate at exactly 70 % of the test rows, %:")
    lines += per_dataset(summary, "area", "Area under the exceedance-acceptance curve, %:")
    lines += per_dataset(summary, "pinball", "Pinball loss of the bound at alpha = 0.1:")
    lines += time_table(summary)
    lines += [f"![{Path(name).stem}](figures/{name})" for name in pictures]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=records.FOLDER)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    summary = Summary(records.read(options.folder))
    if not summary.datasets:
        raise SystemExit(f"no records in {options.folder}; run `make bench` first.")
    pictures = figures.draw(summary, options.out.with_name("figures"))
    text = "\n".join(build(summary, pictures)).rstrip() + "\n"
    options.out.write_text(text)
    print(f"wrote {options.out.name} and {len(pictures)} more pictures")


if __name__ == "__main__":
    main()
