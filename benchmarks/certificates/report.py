"""The page of the records: accepted shares, wrong certificates, and what the goals ask for."""

from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, norm

from benchmarks.certificates.methods import (
    DELTA,
    EARLIER,
    HINDSIGHT,
    MAPIE_HOLM,
    MAPIE_SEQUENCE,
    PAPER,
    PLANNED,
)
from benchmarks.certificates.procedures import FALLBACK, HOLM, ONE, SKIP, STEP_DOWN, WINDOW
from benchmarks.certificates.risks import CLAIMS, DRAWS, JUDGED, SIMULATED

PAGE = Path(__file__).with_name("RESULTS.md")
SMALLEST = 0.05  # a largest valid share below this is left out
ORDER = (PLANNED, EARLIER, HINDSIGHT, MAPIE_HOLM, MAPIE_SEQUENCE, PAPER)
TRIED = (ONE, FALLBACK, STEP_DOWN, WINDOW, SKIP, HOLM)
Cell = tuple[str, str, float]


class Results:
    """Mean relative share, its standard error, wrong ones and certificates of each cell."""

    def __init__(self, records: list[dict]) -> None:
        parts = defaultdict(list)
        largest = defaultdict(dict)
        for record in records:
            table, draw, quantile, eta, n, _ = record["key"]
            largest[table, quantile, eta][draw] = record["largest_valid"]
            for name, result in record["results"].items():
                parts[table, quantile, eta, n, name].append(result)
        self.largest = {cell: float(np.mean(list(of.values()))) for cell, of in largest.items()}
        self.found = {key: _pooled(results) for key, results in parts.items()}
        self.cells = sorted(cell for cell in self.largest if self.largest[cell] > SMALLEST)
        self.real = [cell for cell in self.cells if cell[0] in JUDGED]
        self.simulated = [cell for cell in self.cells if cell[0] in SIMULATED]
        self.rows = sorted({key[3] for key in self.found})

    def of(self, cell: Cell, n: int, name: str) -> tuple[float, float, int, int] | None:
        return self.found.get((*cell, n, name))

    def mean(self, cells: list[Cell], n: int, name: str) -> str:
        found = [self.of(cell, n, name) for cell in cells]
        if not cells or None in found:
            return ""
        share = np.mean([one[0] for one in found])
        error = np.sqrt(np.sum([one[1] ** 2 for one in found])) / len(found)
        wrong = sum(one[2] for one in found) / sum(one[3] for one in found)
        return f"{share:.3f} ± {error:.3f} ({wrong:.3f})"


def _pooled(results: list[list[float]]) -> tuple[float, float, int, int]:
    """Over the draws of D1: mean, standard error given these draws, wrong ones, certificates."""
    mean = float(np.mean([one[0] for one in results]))
    error = np.sqrt(np.sum([one[1] ** 2 / one[3] for one in results])) / len(results)
    return mean, float(error), sum(one[2] for one in results), sum(one[3] for one in results)


def write_page(records: list[dict]) -> None:
    """Write the page from all records."""
    results = Results(records)
    lines = [
        "# Certificates on risks with known truth",
        "",
        "Made by `make certificates`. Accepted share relative to the largest valid one, its",
        "standard error, and in brackets the share of certificates that are wrong (allowed:",
        f"{DELTA:g}). Real risks: the tables {', '.join(JUDGED)}, a forest as g, a default `Locus`",
        "with 1,500 rows in D1; claims (quantile of the losses that is tau, eta) =",
        f"{', '.join(f'({q:g}, {e:g})' for q, e in CLAIMS)}; the {len(results.real)} cells whose",
        f"largest valid share is above {SMALLEST:g}. {DRAWS} draws of D1 for each cell, 300",
        "certificates (MAPIE 60), rows drawn from all other rows of the table. The planned start",
        "is what `Locus.certify` does; the fixed starts are those of `certify_threshold` without",
        "a labelled reference, and were its only ones before. MAPIE and the paper's bound have 20",
        "thresholds, quantiles of D1's tails. `score-select` bounds an expected loss of one batch",
        "and says nothing with confidence about a rule, so it is not on this page.",
        "",
        *_table("Real risks", results, results.real, ORDER),
        *_table("Simulated risks", results, results.simulated, ORDER),
        "The two simulated shapes are those that the fixed starts were chosen on.",
        "",
        *_checks(results),
        *_by_cell(results),
        *_table("Beyond one sequence", results, results.real, TRIED),
        "All are planned on the same samples of the pilot, at 250 ranks at most, with ties broken",
        "by position; 50 certificates a cell and draw. [Rules](../../docs/rules.md) has what they",
        "are and why none of them ships.",
    ]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(title: str, results: Results, cells: list[Cell], names: tuple[str, ...]) -> list[str]:
    head = "| certificate | " + " | ".join(f"N = {n:,}" for n in results.rows) + " |"
    lines = [f"## {title}", "", head, "|---|" + "---|" * len(results.rows)]
    for name in names:
        shown = [results.mean(cells, n, name) for n in results.rows]
        if any(shown):
            lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return [*lines, ""]


def _checks(results: Results) -> list[str]:
    """What a plan must not do: be wrong too often, accept less than before, or less with more."""
    wrong, losses, falls = [], [], []
    for cell in results.real:
        for n, more in zip(results.rows, [*results.rows[1:], None], strict=True):
            new, old = results.of(cell, n, PLANNED), results.of(cell, n, EARLIER)
            if new is None or old is None:
                continue
            p = binomtest(new[2], new[3], DELTA, "greater").pvalue
            wrong.append((p, new[2] / new[3], cell, n))
            error = float(np.hypot(new[1], old[1]))
            losses.append((new[0] - old[0], error, cell, n))
            larger = None if more is None else results.of(cell, more, PLANNED)
            if larger is not None:
                error = float(np.hypot(new[1], larger[1])) or 1e-9
                falls.append(((larger[0] - new[0]) / error, larger[0] - new[0], cell, n, more))
    if not wrong:
        return []
    p, share, cell, n = min(wrong)
    at_most = min(1.0, p * len(wrong))
    change, error, lost_at, lost_n = min(losses)
    z, fall, fell_at, few, many = min(falls)
    fell = norm.cdf(z) * len(falls)
    return [
        "## Checks of the planned start",
        "",
        f"* Wrong most often: {share:.3f} of the certificates ({_name(cell)}, N = {n:,}); the",
        f"  exact test of `delta` has p = {p:.2g}, and {at_most:.2g} after Bonferroni.",
        f"* Below the fixed starts: at worst {change:+.3f} ± {error:.3f} ({_name(lost_at)}, N = "
        f"{lost_n:,}).",
        f"* Fewer accepted with more rows: at worst {fall:+.3f} from N = {few:,} to {many:,} "
        f"({_name(fell_at)}),",
        f"  z = {z:.1f}, p = {min(fell, 1.0):.2g} after Bonferroni over {len(falls)} steps.",
        "",
    ]


def _by_cell(results: Results) -> list[str]:
    lines = ["## By cell", "", "Planned start, fixed starts, and the best start in hindsight.", ""]
    lines += ["| risk | largest valid | " + " | ".join(f"N = {n:,}" for n in results.rows) + " |"]
    lines += ["|---|---|" + "---|" * len(results.rows)]
    for cell in [*results.real, *results.simulated]:
        shown = []
        for n in results.rows:
            found = [results.of(cell, n, name) for name in (PLANNED, EARLIER, HINDSIGHT)]
            shown.append(" / ".join("" if one is None else f"{one[0]:.2f}" for one in found))
        largest = results.largest[cell]
        lines.append(f"| {_name(cell)} | {largest:.3f} | " + " | ".join(shown) + " |")
    return [*lines, ""]


def _name(cell: Cell) -> str:
    table, quantile, eta = cell
    return table if quantile == "nan" else f"{table}, {quantile}, {eta:g}"
