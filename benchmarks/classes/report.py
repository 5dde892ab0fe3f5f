"""RESULTS.md from the records; ``python -m benchmarks.classes.run --report``."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.classes.methods import METHODS, OURS, OWN
from benchmarks.classes.protocol import ACCEPTANCE, ALPHA, DATASETS, LOSSES
from benchmarks.classes.summary import LEVEL, Difference, Summary
from benchmarks.classes.tables import CLASSES, MOST_ROWS, load_table
from benchmarks.paper import records
from benchmarks.paper.summary import table

RESULTS = Path(__file__).with_name("RESULTS.md")
TARGET = 0.9  # our mean error over that of the best rival
LEARNED = ("former", "models", "second classifier", "opinion")
AGAINST = {
    "scores of g and of packages": LEARNED,
    "also models of the loss": ("second classifier", "opinion"),
    "also second classifiers": ("opinion",),
    "also those shown our opinion, ++": (),
}
UNITS = {
    "0-1": "Errors among the accepted, %.",
    "cost": "Mean cost of the accepted, in % of the dearest error.",
}
INTRODUCTION = """# Classification

Made by `python -m benchmarks.classes.run` from the records in `records/`; do not edit.

A classifier g is fixed, and the rows whose class it gets wrong should be flagged. 40 % of the rows
train g (a forest of 300 trees, boosting with its defaults, or logistic regression on standardised
features), 40 % are labelled rows that a method may learn from, 20 % judge it. Every score accepts
exactly 70 % of the test rows, ties in random order; what counts is the mean loss of the accepted.
AURC is its mean over all acceptances.

There are up to 30 random splits of each table, also of the small ones, so test rows recur. Standard
errors and tests are paired by split and corrected for the overlap (Nadeau and Bengio): the variance
of a mean over J splits is (1/J + 0.2/0.8) times that of one. Tables with more than 10,000 rows give
each split its own 10,000, which overlap less: there the correction is cautious.

`Locus` is the default, `Locus(g, loss=...)`. It learns from most of the labelled rows and
keeps the rest to calibrate its bound; the others, which promise nothing, learn from all. It ranks
by `Score.tail(0)` with a 0-1 loss. With costs it ranks by the mean of the law of the loss, the sum
of `Locus.probability` over the steps between costs. "+" means that a model sees all that g says
besides x; "++" means that it is shown the columns of our second opinion as well, and is not charged
for their fit. `boosted classes+` and `logistic classes+` are second classifiers on x and g's
probabilities; they rank by the expected loss of g's class, and so do the calibrated probabilities.
`largest probability` and `margin` are the orders of scikit-fallback's threshold, rate and ambiguity
rules. The sets of MAPIE rank by their dearest class, as a mean over levels of confidence.

Costs: the distance between ordered classes, twice that where g's class is too high; for two
classes, five times as much for an overlooked row of the rarer one; for digits, whole numbers from 1
to 10 drawn once.
"""


def build(found: list[records.Record]) -> list[str]:
    """All lines of the page."""
    summaries = [summary for loss in LOSSES if (summary := Summary(found, loss)).datasets]
    lines = [*INTRODUCTION.splitlines(), "", *tables_section(summaries)]
    lines += ["## Target", "", *target(found, summaries), *missing(summaries)]
    for summary in summaries:
        few = Summary(found, summary.loss, LEARNED)
        lines += [f"## Loss: {summary.loss}", "", *overall(summary)]
        lines += [f"### Scores of g and of packages, {summary.loss}", "", *overall(few)]
        lines += [*by_dataset(summary, "error70", "Mean loss at 70 % accepted")]
        lines += [*by_dataset(summary, "aurc", "AURC")]
        lines += losses_to_rivals(summary)
    return [*lines, *coverage_section(summaries), *time_section(summaries)]


def tables_section(summaries: list[Summary]) -> list[str]:
    """What was classified, and how often g was wrong."""
    rows = []
    for name, classes in CLASSES.items():
        errors = [
            f"{100 * summary.values(dataset, OURS, 'mean_loss').mean():.1f}"
            for summary in summaries
            if summary.loss == "0-1" and OURS in summary.methods
            for dataset in summary.datasets
            if DATASETS[dataset][0] == name
        ]
        if errors:
            one = load_table(name)
            n = f"{min(len(one.y), MOST_ROWS):,}"
            n += f" of {len(one.y):,}" if len(one.y) > MOST_ROWS else ""
            rows.append([name, n, str(one.X.shape[1]), classes, str(one.n_classes), *errors])
    width = max((len(row) for row in rows), default=5)
    names = [f"g: {name}" for name in ("forest", "boosting", "logistic")][: width - 5]
    head = ["table", "rows", "features", "classes", "number", *names]
    return ["## Tables", "", "Errors of g on all test rows, %.", "", *table(head, rows)]


def target(found: list[records.Record], summaries: list[Summary]) -> list[str]:
    """Is our mean error at 70 % at least 10 % below the best rival's?"""
    rows = []
    for loss in (summary.loss for summary in summaries if OURS in summary.methods):
        for text, without in AGAINST.items():
            summary = Summary(found, loss, without)
            if not summary.rivals:
                continue
            measures = {"mean": summary.mean_of_all("error70"), "share left": summary.shares_left()}
            for kind, values in measures.items():
                best = min(summary.rivals, key=values.__getitem__)
                ours, theirs = values[OURS], values[best]
                gap = f"{100 * (ours / theirs - 1):+.1f} %" if theirs else ""
                met = "yes" if ours <= TARGET * theirs and theirs else "no"
                figures = f"{100 * ours:.3f}", best, f"{100 * theirs:.3f}"
                rows.append([loss, kind, text, _splits(summary), *figures, gap, met])
    text = (
        f"At {100 * ACCEPTANCE:.0f} % accepted, the mean over all tables and classifiers should be "
        f"at least {100 * (1 - TARGET):.0f} % below that of the best rival. Tables on which g errs "
        'often weigh most in it. "Share left" divides by the mean loss of all rows first, so that '
        "each weighs the same. Every line uses the splits that its methods share."
    )
    words = ["loss", "measure", "against", "splits"]
    head = [*words, OURS, "best rival", "its figure", "difference", "met"]
    return [text, "", *table(head, rows)]


def missing(summaries: list[Summary]) -> list[str]:
    """Datasets without records, or with fewer seeds than others."""
    n_seeds = {dataset: n for summary in summaries for dataset, n in summary.n_seeds.items()}
    most = max(n_seeds.values(), default=0)
    absent = [name for name in DATASETS if name not in n_seeds]
    fewer = [f"{name} ({n})" for name, n in n_seeds.items() if n < most]
    lines = [f"Splits that all methods have: at most {most}."]
    lines += [f"No records of {len(absent)}: {_few(absent)}."] if absent else []
    lines += [f"Fewer splits of {len(fewer)}: {_few(fewer)}."] if fewer else []
    return [*lines, ""]


def _few(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def overall(summary: Summary) -> list[str]:
    """Means over everything and mean ranks, best first."""
    percent, rank = "{:.3f}", "{:.2f}"
    columns = [
        ("at 70 %", summary.mean_of_all("error70"), percent),
        ("share left", summary.shares_left(), percent),
        ("mean rank", summary.mean_ranks("error70"), rank),
        ("AURC", summary.mean_of_all("aurc"), percent),
        ("mean rank of AURC", summary.mean_ranks("aurc"), rank),
    ]
    order = sorted(summary.methods, key=lambda name: columns[0][1][name])
    cells = [
        _best_bold([values[name] * (100 if form == percent else 1) for name in order], form)
        for _, values, form in columns
    ]
    rows = [
        [name, METHODS[name].group, *(column[i] for column in cells)]
        for i, name in enumerate(order)
    ]
    head = ["method", "group", *(title for title, _, _ in columns)]
    n = len(summary.datasets)
    text = f"{UNITS[summary.loss]} Means over {n} pairs of table and g, {_splits(summary)} splits."
    return [text, "", *table(head, rows)]


def _splits(summary: Summary) -> str:
    fewest, most = min(summary.n_seeds.values()), max(summary.n_seeds.values())
    return str(most) if fewest == most else f"{fewest} to {most}"


def by_dataset(summary: Summary, key: str, title: str) -> list[str]:
    """One line for each table and classifier; the best is bold."""
    rows = [
        [*DATASETS[dataset][:2], *_best_bold(100 * line, "{:.2f}")]
        for dataset, line in zip(summary.datasets, summary.means(key), strict=True)
    ]
    text = f"### {title}, {summary.loss}"
    return [text, "", *table(["table", "g", *summary.methods], rows)]


def _best_bold(values: Iterable[float], form: str) -> list[str]:
    texts = [form.format(value) for value in values]
    best = min(texts, key=float)  # what prints the same is equally good
    return [f"**{text}**" if text == best else text for text in texts]


def losses_to_rivals(summary: Summary) -> list[str]:
    """Where a rival is significantly better than our default, and how often it is the reverse."""
    lines = [f"### Where another method is better, {summary.loss}", ""]
    if OURS not in summary.methods:
        return lines
    found = summary.differences("error70")
    sure = [one for one in found if one.p_value < LEVEL]
    worse = sorted((one for one in sure if one.mean < 0), key=lambda one: one.p_value)
    better = [one for one in sure if one.mean > 0]
    lines += [
        f"Mean loss at {100 * ACCEPTANCE:.0f} % accepted, paired by the splits that both methods "
        f"have, two-sided at {100 * LEVEL:.0f} %. Of {len(found)} comparisons, another method is "
        f"better in {_twice(worse)} and {OURS} in {_twice(better)}.",
        "",
    ]
    rows = [
        [
            *DATASETS[one.dataset][:2],
            one.rival,
            str(one.n_seeds),
            f"{100 * one.ours:.2f}",
            f"{100 * (one.ours + one.mean):.2f}",
            f"{100 * one.mean:+.2f} ± {100 * one.standard_error:.2f}",
            f"{one.p_value:.2g}",
            "yes" if one.holm < LEVEL else "no",
        ]
        for one in worse
    ]
    words = ["table", "g", "method", "splits"]
    head = [*words, OURS, "its", "difference ± se", "p", "also after Holm"]
    return [*lines, *(table(head, rows) if rows else ["None.", ""])]


def _twice(found: list[Difference]) -> str:
    return f"{len(found)} ({sum(one.holm < LEVEL for one in found)} after Holm)"


def coverage_section(summaries: list[Summary]) -> list[str]:
    """Share of the test losses within the bound, by loss and method."""
    rows = []
    for summary in summaries:
        for name in (name for name in summary.methods if METHODS[name].group in OWN):
            means = [summary.values(d, name, "coverage").mean() for d in summary.datasets]
            bounds = [summary.values(d, name, "mean_bound").mean() for d in summary.datasets]
            lowest = int(np.argmin(means))
            rows.append(
                [
                    summary.loss,
                    name,
                    f"{np.mean(means):.3f}",
                    f"{means[lowest]:.3f} ({summary.datasets[lowest]})",
                    f"{np.mean(bounds):.3f}",
                ]
            )
    text = (
        f"Share of test losses within the bound at alpha = {ALPHA}, mean over splits; at least "
        f"{1 - ALPHA} is promised. Where g errs less often than alpha, 0 is a valid bound and the "
        "share is above that."
    )
    head = ["loss", "method", "mean", "lowest mean of a dataset", "mean bound"]
    return ["## Coverage", "", text, "", *table(head, rows)]


def time_section(summaries: list[Summary]) -> list[str]:
    """Processor seconds, mean over all datasets."""
    keys = ("fit_seconds", "score_seconds")
    means = [summary.mean_of_all(key) for summary in summaries for key in keys]
    rows = [
        [name, *(f"{values[name]:.2f}" if name in values else "" for values in means)]
        for name in METHODS
        if any(name in values for values in means)
    ]
    text = (
        "Processor seconds, one thread, mean over tables and classifiers. Locus, the calibrated "
        "probabilities and MAPIE ask g themselves, which is counted; the other methods are given "
        "its answers."
    )
    titles = [f"{word}, {summary.loss}" for summary in summaries for word in ("fit", "score")]
    return ["## Time", "", text, "", *table(["method", *titles], rows)]


def write(folder: Path, out: Path = RESULTS) -> None:
    found = records.read(folder)
    if not found:
        raise SystemExit(f"no records in {folder}; run `python -m benchmarks.classes.run` first.")
    out.write_text("\n".join(build(found)).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {out.name}")
