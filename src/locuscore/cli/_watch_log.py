"""``locuscore watch log`` and ``label``: files in, rows of the ledger out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from locuscore import Scorer
from locuscore._shared.arrow_tables import BATCH_ROWS, even_tables
from locuscore.cli import _options as options
from locuscore.cli._datasets import open_table
from locuscore.cli._option_values import ArchiveOptions, missing_columns
from locuscore.cli._options import option
from locuscore.cli._tables import Source
from locuscore.cli._terminal import Terminal, print_plain
from locuscore.cli._watch_options import Scored, Store, WatchOptions, check_ledger, opened_for

Id = Annotated[str, option("--id", "COLUMN", "Column of ids; an id is one decision.")]
TimeOfRow = Annotated[
    str | None, option("--time", "COLUMN", "Column of times; UTC if they have no zone.")
]
Group = Annotated[str | None, option("--group", "COLUMN", "Column of groups.")]
Cluster = Annotated[str | None, option("--cluster", "COLUMN", "Column of clusters, such as days.")]
ScorerFile = Annotated[Path, option("--scorer", "ARCHIVE", "The archive that scored the rows.")]
ScorerToo = Annotated[
    Path | None,
    option("--scorer", "ARCHIVE", "The archive that decided; works out losses from --y."),
]
True_ = Annotated[str | None, option("--y", "COLUMN", "Column of true values.")]
Loss = Annotated[str | None, option("--loss", "COLUMN", "Column of losses, instead of --y.")]
Origin = Annotated[str, option("--source", "TEXT", "Where these labels come from.")]


def log(
    *,
    scored: Scored,
    store: Store,
    scorer: ScorerFile,
    id_column: Id = "id",
    time: TimeOfRow = None,
    group: Group = None,
    cluster: Cluster = None,
    prefix: options.Prefix = "",
    settings: WatchOptions,
    reading: ArchiveOptions,
    terminal: Terminal,
) -> None:
    """Keep decisions that score, Spark or another job made.

    A file may be logged again, for instance after an interruption: known ids are left as they are.
    Settings are fixed by the first file.
    """
    from locuscore.watch import Watch  # noqa: PLC0415 - needs an extra

    used = reading.load(scorer, given=("groups", "weights"))
    named = {"ids": id_column, "times": time, "groups": group, "clusters": cluster}
    beside = {name: column for name, column in named.items() if column is not None}
    source = open_table(scored, _types(used, prefix, [id_column, group, cluster], time))
    wanted = [prefix + name for name in used.column_names]
    missing_columns(scored, [*wanted, *beside.values()], source.names)
    watch = Watch.open(store, used, **settings.given())
    if group is None and any(claim.group is not None for claim in watch.claims):
        raise typer.BadParameter(
            "this scorer makes promises for groups; name their column.", param_hint="--group"
        )
    counts = {"new": 0, "known": 0, "forgotten": 0}
    columns = list(dict.fromkeys([*wanted, *beside.values()]))
    for table in _tables(terminal, source, columns):
        scores = table.select(wanted).rename_columns(used.column_names)
        told = {name: _values(table.column(column), name) for name, column in beside.items()}
        found = watch.log(scores, **told)
        for name in counts:
            counts[name] += getattr(found, name)
    figures = {"rows": sum(counts.values()), **counts, "deployment": watch.digest}
    watch.close()
    text = f"Logged {figures['new']:,} decisions; {figures['known']:,} were known."
    if figures["forgotten"]:
        text += f" {figures['forgotten']:,} are older than what was forgotten."
    terminal.show(figures, lambda console: print_plain(console, text))


def label(
    *,
    data: options.Data,
    store: Store,
    id_column: Id = "id",
    y: True_ = None,
    losses: Loss = None,
    time: TimeOfRow = None,
    source: Origin = "label",
    scorer: ScorerToo = None,
    reading: ArchiveOptions,
    terminal: Terminal,
) -> None:
    """Add labels, true values or losses; rows where they are missing are left out.

    A label may come before its decision, twice, or again with a correction.
    """
    from locuscore.watch import Watch  # noqa: PLC0415 - needs an extra

    if (y is None) == (losses is None):
        raise typer.BadParameter("give either --y COLUMN or --loss COLUMN.")
    check_ledger(store)
    used = None if scorer is None else reading.load(scorer, given=("groups", "weights"))
    value = y if losses is None else losses
    assert value is not None
    is_number = losses is not None or (used is not None and used.locus.loss_.reads == "numbers")
    types: dict[str, Any] = {id_column: pa.string(), value: pa.float64() if is_number else None}
    rows = open_table(data, types | ({} if time is None else {time: None}))
    columns = [id_column, value, *([] if time is None else [time])]
    missing_columns(data, columns, rows.names)
    watch = Watch(store) if used is None else opened_for(store, used)
    new = known = without = 0
    for table in _tables(terminal, rows, list(dict.fromkeys(columns))):
        there = table.filter(_is_there(table.column(value)))
        without += table.num_rows - there.num_rows
        ids = _values(there.column(id_column), "ids")
        told = _values(there.column(value), "labels")
        times = None if time is None else _values(there.column(time), "times")
        given = {"y": told} if losses is None else {"losses": told}
        found = watch.label(ids, **given, times=times, source=source)
        new, known = new + found.new, known + found.known
    watch.close()
    figures = {"rows": new + known + without, "new": new, "known": known, "without": without}
    terminal.show(figures, lambda console: print_plain(console, _told(new, known, without)))
    if used is None and losses is None:
        terminal.note("Their losses are worked out by the next label or status with --scorer.")


def _told(new: int, known: int, without: int) -> str:
    text = f"Added {new:,} labels; {known:,} were known."
    return text + (f" {without:,} rows had none." if without else "")


def _types(
    scorer: Scorer, prefix: str, texts: list[str | None], time: str | None
) -> dict[str, Any]:
    """Arrow types of a CSV file's columns; None for those that are guessed."""
    is_number = scorer.locus.loss_.reads == "numbers"
    kinds = {
        "prediction": pa.float64() if is_number else None,
        "bound": pa.float64(),
        "score": pa.float64(),
        "flag": pa.bool_(),
    }
    found = {prefix + column.name: kinds[column.role] for column in scorer.columns}
    found |= {name: pa.string() for name in texts if name is not None}
    return found if time is None else {**found, time: None}


def _tables(terminal: Terminal, source: Source, columns: list[str]) -> Iterator[Any]:
    """Read a file in blocks, and show how far it is."""
    with terminal.progress(source.n_rows, 0) as advance:
        for table in even_tables(source.batches(columns), BATCH_ROWS):
            yield table
            advance(table.num_rows)


def _is_there(column: Any) -> Any:
    is_float = pa.types.is_floating(column.type)
    return (
        pc.and_(pc.is_valid(column), pc.invert(pc.is_nan(column)))
        if is_float
        else (pc.is_valid(column))
    )


def _values(column: Any, what: str) -> Any:
    """Values of a column: a list, or an array of times."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if what != "times":
        return column.to_pylist()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Arrow reads times without a zone as one type, and those with one as another.
        has_zone = pc.any(pc.match_substring_regex(column, r"(Z|[+-]\d\d:?\d\d)$")).as_py()
        column = column.cast(pa.timestamp("us", "UTC" if has_zone else None))
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise ValueError(f"--time names a column of {kind}; expected times or dates.")
    if column.null_count:
        raise ValueError(f"--time names a column with {column.null_count} missing times.")
    return column.cast(pa.timestamp("us")).to_numpy()
