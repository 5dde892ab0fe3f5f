"""``locuscore score``: any number of rows in, rows with bounds and flags out."""

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from locuscore import __version__, collected_unseen
from locuscore.cli import _options as options
from locuscore.cli._option_values import ArchiveOptions, check_output, missing_columns
from locuscore.cli._options import BadRows
from locuscore.cli._resumable import ResumableOutput, digest, file_identity
from locuscore.cli._stream import (
    BlockScorer,
    Counts,
    csv_types,
    feature_columns,
    figures_of,
    score_blocks,
)
from locuscore.cli._tables import BATCH_ROWS, file_format, open_table
from locuscore.cli._terminal import Terminal, print_plain


def score(
    *,
    archive: options.Archive,
    data: options.Data,
    output: options.Scored,
    keep: options.Keep = None,
    keep_all: options.KeepAll = False,
    prefix: options.Prefix = "",
    bad_rows: options.BadRowsChoice = BadRows.FAIL,
    block_rows: options.BlockRows = BATCH_ROWS,
    reading: ArchiveOptions,
    terminal: Terminal,
) -> None:
    """Score a file of any size; a run that was killed resumes where it stopped.

    Gives prediction, bounds, score and flag, after the columns that are kept.
    """
    kind = file_format(output)
    if output.name.lower().endswith(".gz"):
        raise typer.BadParameter("the output cannot be compressed; leave out .gz.")
    check_output(output, data, archive, reading.predictor, reading.key_file)
    scorer = reading.load(archive)
    source = open_table(data, csv_types(scorer))
    kept = source.names if keep_all else list(dict.fromkeys(keep or []))
    missing_columns(data, kept, source.names)
    features = feature_columns(scorer, data, source.names)
    block = BlockScorer(scorer, features, kept, prefix, bad_rows is BadRows.FLAG)
    facts = [kept, prefix, bad_rows, block_rows, reading.classes, __version__]
    key = digest(_content(archive), file_identity(data), _predictor_facts(reading.predictor), facts)
    started, counts = time.perf_counter(), Counts.of(scorer, prefix)
    with ResumableOutput.of(output, key, data) as parts:
        progress = terminal.progress(source.n_rows, parts.n_done * block_rows)
        with progress as advance, collected_unseen() as unseen:
            resumed = score_blocks(source, block, parts, block_rows, advance)
        parts.merge(kind, counts.add)
    if unseen.warning is not None:
        terminal.note(f"Warning: {unseen.warning}")
    figures = figures_of(counts, output, resumed, time.perf_counter() - started, unseen.counts)
    terminal.show(figures, lambda console: _draw(console, figures))


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _predictor_facts(predictor: str | None) -> Any:
    """What tells two predictors apart: the content of a file, the name of an object."""
    if predictor is None or not Path(predictor).is_file():
        return predictor
    return _content(Path(predictor))


def _draw(console: Console, figures: Mapping[str, Any]) -> None:
    rows, before = figures["rows"], figures["rows_done_before"]
    resumed = f" ({before:,} of them in an earlier run)" if before else ""
    speed = f"{figures['seconds']:.1f} s, {figures['rows_per_second']:,} rows/s"
    print_plain(console, f"Scored {rows:,} rows{resumed} in {speed}.")
    if figures["flagged"] is not None and rows:
        share = figures["flagged"] / rows
        print_plain(console, f"Flagged {figures['flagged']:,} ({share:.1%}).")
    bad = figures["bad_rows"]
    if bad:
        print_plain(console, f"Bad rows: {bad:,}, without a prediction and with infinite bounds.")
    for name, n in figures["infinite_bounds"].items():
        if n > bad:
            print_plain(console, f"{name} is infinite in {_infinite_rows(n - bad)}")
    print_plain(console, f"Wrote {figures['output']}.")


def _infinite_rows(n: int) -> str:
    """How many rows have no finite bound, and why that may be, whatever the calibration."""
    why = "there are too few calibration rows for"
    if n == 1:
        return f"1 row: {why} it, or its group is unknown."
    return f"{n:,} rows: {why} them, or their groups are unknown."
