"""``locuscore report``: what an archive does on labelled rows, as one page."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import typer
from rich.console import Console

from locuscore import Scorer
from locuscore._shared.arrow_tables import BATCH_ROWS, even_tables
from locuscore.cli import _options as options
from locuscore.cli._calibration import check_no_target
from locuscore.cli._datasets import open_table
from locuscore.cli._exit_codes import BROKEN
from locuscore.cli._fit import check_target, known_target
from locuscore.cli._option_values import ArchiveOptions, check_output, missing_columns
from locuscore.cli._options import OUTPUT, option, switch
from locuscore.cli._sample import sample_rows
from locuscore.cli._stream import csv_types, feature_columns
from locuscore.cli._tables import Source
from locuscore.cli._terminal import Terminal, print_plain, size_text
from locuscore.report import (
    PILOT_ROWS,
    Batch,
    Costs,
    Provenance,
    Report,
    report_batches,
)

COSTS = "Costs"
UNTESTED = "not tested"  # the verdict on a claim, as the summary has it
Page = Annotated[Path, option("--output -o", "FILE", "HTML file to write.")]
Losses = Annotated[str | None, option("--losses", "COLUMN", "Column of losses, if no target.")]
Groups = Annotated[
    list[str] | None,
    option("--groups", "COLUMN", "Show what is promised by this column, too. Repeatable."),
]
Time = Annotated[str | None, option("--time", "COLUMN", "Dates of the rows: show it over time.")]
Tau = Annotated[
    float | None, option("--tau", "NUMBER", "Count at this tolerance, besides that of the rule.")
]
Weights = Annotated[
    str | None,
    option(
        "--weights",
        "COLUMN",
        "Weights of these rows, if fit was given them as an array.",
        options.CALIBRATION,
    ),
]
Title = Annotated[str, option("--title", "TEXT", "Title.")]
Unit = Annotated[
    str, option("--unit", "TEXT", "What losses are measured in, such as dollars; as in fit.")
]
Noun = Annotated[str, option("--noun", "TEXT", "What the rows are, in the plural, such as homes.")]
Approved = Annotated[str, option("--approved-by", "TEXT", "Who approved the report; free text.")]
ReviewCost = Annotated[
    float | None, option("--review-cost", "NUMBER", "Cost of reviewing one flagged row.", COSTS)
]
BadCost = Annotated[
    float | None,
    option("--bad-cost", "NUMBER", "Cost of one accepted row with a loss above tau.", COSTS),
]
LossCost = Annotated[
    float | None, option("--loss-cost", "NUMBER", "Or: cost of one unit of loss.", COSTS)
]
CostUnit = Annotated[
    str, option("--cost-unit", "TEXT", "Currency of the costs; by default the unit.", COSTS)
]
FailIfBroken = Annotated[
    bool,
    switch(
        "--fail-if-broken",
        "Exit with code 4 if the rows contradict a claim or were used to fit, or if none of the "
        "claims can be tested.",
        OUTPUT,
    ),
]
Figures = Annotated[
    Path | None, option("--summary", "FILE", "Write all figures as JSON, too.", OUTPUT)
]


@dataclass(frozen=True)
class CostOptions:
    """Unit costs, of which some belong together."""

    review_cost: ReviewCost = None
    bad_cost: BadCost = None
    loss_cost: LossCost = None
    cost_unit: CostUnit = ""

    def chosen(self) -> Costs | None:
        """The costs, or None if none are given."""
        if self.review_cost is None:
            if self.bad_cost is not None or self.loss_cost is not None or self.cost_unit:
                raise typer.BadParameter("costs need --review-cost NUMBER as well.")
            return None
        try:
            return Costs(self.review_cost, self.bad_cost, self.loss_cost, self.cost_unit)
        except ValueError as error:
            raise typer.BadParameter(f"--review-cost, --bad-cost, --loss-cost: {error}") from None


def report(
    *,
    archive: options.Archive,
    data: options.Data,
    output: Page,
    target: options.TargetAgain = None,
    losses: Losses = None,
    groups: Groups = None,
    time: Time = None,
    tau: Tau = None,
    clusters: options.ClustersAgain = None,
    weights: Weights = None,
    title: Title = "Locus report",
    unit: Unit = "",
    noun: Noun = "rows",
    approved_by: Approved = "",
    costs: CostOptions,
    reading: ArchiveOptions,
    allow_rows_used_in_fit: options.AllowUsedRows = False,
    loss: options.LossAgain = None,
    seed: options.Seed = 0,
    summary: Figures = None,
    fail_if_broken: FailIfBroken = False,
    terminal: Terminal,
) -> None:
    """Report how a scorer does on labelled rows, in one page that needs no network.

    The rows must be unseen by fit; those of fit judge nothing. Files of any size are read with
    constant memory. Each claim of the scorer is tested, and the verdict is the first line.
    """
    if target is not None and losses is not None:
        raise typer.BadParameter("give either --target COLUMN or --losses COLUMN.")
    inputs = (data, archive, reading.predictor, reading.key_file)
    check_output(output, *inputs)
    if summary is not None:
        check_output(summary, output, *inputs)
    costs_chosen = costs.chosen()
    named = list(dict.fromkeys(groups or ()))
    first = named[0] if named else None
    beside = Beside(first, clusters, weights, time, tuple(named[1:]))
    given = [name for name in ("groups", "clusters", "weights") if getattr(beside, name)]
    scorer = reading.load(archive, loss, given)
    label = known_target(scorer, target) if losses is None else losses
    rows = LabelledRows.open(scorer, data, label, losses is not None, beside)
    started = perf_counter()
    with terminal.working("sampling"):
        pilot = rows.pilot(seed)
        origin = Provenance.of_files(data, archive, key=reading.key, approved=approved_by)
    with terminal.progress(rows.source.n_rows, 0) as advance:
        found = report_batches(
            scorer,
            rows.batches(advance),
            pilot=[pilot],
            group_name=first or "group",
            time_name=time or "time",
            tau=tau,
            title=title,
            unit=unit,
            noun=noun,
            archive=archive.name,
            costs=costs_chosen,
            provenance=origin,
            random_state=seed,
            allow_rows_used_in_fit=allow_rows_used_in_fit,
        )
    found.write(output)
    if summary is not None:
        found.write_json(summary)
    figures = {
        "output": str(output),
        "summary": None if summary is None else str(summary),
        "rows": found.summary["n_rows"],
        "verdict": found.summary["verdict"],
        "coverage": found.summary["coverage"],
        "seconds": round(perf_counter() - started, 3),
    }
    terminal.show(figures, lambda console: _draw(console, found, figures, output))
    if fail_if_broken and found.is_broken:
        raise typer.Exit(BROKEN)
    claims = found.summary["verdict"]["claims"]
    if fail_if_broken and all(claim["verdict"] == UNTESTED for claim in claims):
        terminal.error(
            f"no claim of {archive} could be tested, so --fail-if-broken fails; {output} says why."
        )
        raise typer.Exit(BROKEN)


class Beside(NamedTuple):
    """Columns of groups, clusters, weights and dates, which need not be features."""

    groups: str | None
    clusters: str | None
    weights: str | None
    time: str | None
    further: tuple[str, ...]  # groups besides the first

    @property
    def named(self) -> list[str]:
        """Those that are given."""
        return [name for name in (*self[:4], *self.further) if name is not None]


@dataclass(frozen=True)
class LabelledRows:
    """A file of rows with a target or losses, read as often as one likes."""

    path: Path
    source: Source
    features: list[str]
    label: str
    is_loss: bool
    beside: Beside

    @classmethod
    def open(
        cls, scorer: Scorer, path: Path, label: str, is_loss: bool, beside: Beside
    ) -> "LabelledRows":
        """Find the columns."""
        check_no_target(beside.clusters, label)
        types = csv_types(scorer)
        if types is not None:
            is_number = is_loss or scorer.locus.loss_.reads == "numbers"
            types = {**types, label: pa.float64() if is_number else None}
            if beside.weights is not None:
                types.setdefault(beside.weights, pa.float64())
        source = open_table(path, types)
        labels = [label, *beside.named]
        missing_columns(path, labels, source.names)
        others = set(labels) if scorer.schema.kind == "array" else {label}
        features = feature_columns(scorer, path, [n for n in source.names if n not in others])
        return cls(path, source, features, label, is_loss, beside)

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([*self.features, self.label, *self.beside.named]))

    def pilot(self, seed: int) -> Batch:
        """A uniform sample of the whole file."""
        sample = sample_rows(self.source.batches(self.columns), PILOT_ROWS, seed)
        if not sample.n_read:
            raise ValueError(f"{self.path} has no rows.")
        return self._batch(sample.rows)

    def batches(self, advance: Callable[[int], None]) -> Iterator[Batch]:
        """All rows, in tables of even size."""
        for table in even_tables(self.source.batches(self.columns), BATCH_ROWS):
            yield self._batch(table)
            advance(table.num_rows)

    def _batch(self, table: Any) -> Batch:
        check_target(table.column(self.label), self.label)

        def read(name: str | None) -> Any:
            return None if name is None else table.column(name).to_pandas().to_numpy()

        values = read(self.label)
        y, losses = (None, values) if self.is_loss else (values, None)
        groups, clusters, weights, time = (read(name) for name in self.beside[:4])
        by = {name: read(name) for name in self.beside.further} or None
        X = table.select(self.features)
        return Batch(X, y, losses, groups, clusters, weights, by, time)


def _draw(console: Console, found: Report, figures: Mapping[str, Any], output: Path) -> None:
    for line in found.verdict_lines:
        print_plain(console, line)
    size, rows = size_text(output.stat().st_size), figures["rows"]
    print_plain(console, f"Wrote {output} ({size}): {rows:,} rows in {figures['seconds']:.1f} s.")
    if figures["summary"] is not None:
        print_plain(console, f"Wrote {figures['summary']}.")
