"""``locuscore score``: any number of rows in, rows with bounds and flags out."""

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from locuscore import __version__, collected_unseen
from locuscore._shared.arrow_tables import BATCH_ROWS
from locuscore.arrow import TableScorer
from locuscore.cli import _options as options
from locuscore.cli._datasets import open_table
from locuscore.cli._option_values import ArchiveOptions, check_output, missing_columns
from locuscore.cli._options import BadRows
from locuscore.cli._places import LocalPlace, Place, check_apart, identity, place_of
from locuscore.cli._resumable import ResumableOutput, digest
from locuscore.cli._stream import Counts, csv_types, feature_columns, figures_of, score_blocks
from locuscore.cli._tables import file_format
from locuscore.cli._terminal import Terminal, print_plain


def score(
    *,
    archive: options.Archive,
    data: options.Rows,
    output: options.Scored,
    keep: options.Keep = None,
    keep_all: options.KeepAll = False,
    partition_by: options.PartitionBy = None,
    prefix: options.Prefix = "",
    bad_rows: options.BadRowsChoice = BadRows.FAIL,
    block_rows: options.BlockRows = BATCH_ROWS,
    reading: ArchiveOptions,
    terminal: Terminal,
) -> None:
    """Score a file or folder of any size; a run that was killed resumes where it stopped.

    Gives prediction, bounds, score and flag, after the columns that are kept. Rows and result may
    be in an object store: s3://bucket/rows, gs://bucket/rows.
    """
    rows, target = place_of(data), place_of(output)
    by = list(dict.fromkeys(partition_by or []))
    kind = _output_kind(target, by)
    _check_target(target, kind, rows, archive, reading)
    scorer = reading.load(archive)
    source = open_table(rows, csv_types(scorer))
    new = {prefix + name for name in scorer.column_names}
    told = [*(keep or []), *(name for name in by if name not in new)]
    missing_columns(rows, told, source.names)
    kept = source.names if keep_all else list(dict.fromkeys(told))
    features = feature_columns(scorer, rows, source.names)
    block = TableScorer(scorer, features, kept, prefix, bad_rows is BadRows.FLAG)
    facts = [kept, by, prefix, bad_rows, block_rows, reading.classes, __version__]
    key = digest(_content(archive), identity(rows), _predictor_facts(reading.predictor), facts)
    started, counts = time.perf_counter(), Counts.of(scorer, prefix)
    with ResumableOutput.of(target, key, rows) as parts:
        if kind is None:
            target.check_new_folder(parts.folder)
        progress = terminal.progress(source.n_rows, parts.n_done * block_rows)
        with progress as advance, collected_unseen() as unseen:
            resumed = score_blocks(source, block, parts, block_rows, advance)
        parts.merge(kind, counts.add, by)
    if unseen.warning is not None:
        terminal.note(f"Warning: {unseen.warning}")
    figures = figures_of(counts, target, resumed, time.perf_counter() - started, unseen.counts)
    terminal.show(figures, lambda console: _draw(console, figures))


def _output_kind(target: Place, by: list[str]) -> str | None:
    """Return the format of the output file; None for a folder, whose name has no ending."""
    if not isinstance(target, LocalPlace) and "/" not in target.path.strip("/"):
        raise typer.BadParameter(f"{target} is a whole bucket; name a file or folder in it.")
    if target.name.lower().endswith(".gz"):
        raise typer.BadParameter("the output cannot be compressed; leave out .gz.")
    if "." not in target.name:
        return None
    kind = file_format(target)
    if by:
        raise typer.BadParameter(
            f"--partition-by makes a folder, so the output needs a name without an ending; got "
            f"{target}."
        )
    return kind


def _check_target(
    target: Place, kind: str | None, rows: Place, archive: Path, reading: ArchiveOptions
) -> None:
    """Raise, before any work is done, if the output cannot be written or is an input as well."""
    inputs = [archive, reading.predictor, reading.key_file]
    if isinstance(target, LocalPlace) and kind is not None:
        local = [rows.local] if isinstance(rows, LocalPlace) else []
        check_output(target.local, *local, *inputs)
    check_apart(target, [rows])
    if isinstance(target, LocalPlace) and kind is None:
        target.check_new_folder(target)


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
