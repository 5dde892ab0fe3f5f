"""Scoring a stream of rows with constant memory, in blocks that a later run need not repeat."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from locuscore import Scorer
from locuscore._shared.arrow_tables import even_tables
from locuscore._shared.checks import BadRowsError
from locuscore.arrow import TableScorer
from locuscore.cli._option_values import missing_columns
from locuscore.cli._resumable import ResumableOutput
from locuscore.cli._tables import Source

N_BAD = b"bad_rows"  # in the metadata of a part
# By the kind of a column in `fit`; others are guessed.
CSV_TYPES = {
    **dict.fromkeys(("float", "integer", "decimal"), pa.float64()),
    **dict.fromkeys(("text", "category", "object"), pa.string()),
    "truth": pa.bool_(),
}


def feature_columns(scorer: Scorer, path: object, found: list[str]) -> list[str]:
    """Names, in a file, of the columns the scorer needs, in its order."""
    schema = scorer.schema
    if schema.kind != "array":
        names = [str(name) for name in schema.names]
        missing_columns(path, names, found)
        return names
    if len(found) != len(schema.names):
        raise ValueError(
            f"the archive was fitted on an array, whose columns have no names, so {path} must "
            f"have its {len(schema.names)} columns and no others; it has {', '.join(found)}."
        )
    return found


def csv_types(scorer: Scorer) -> dict[str, Any] | None:
    """Arrow types of the features, for a CSV file; None for those that are to be guessed."""
    if scorer.schema.kind == "array":
        return None
    return {
        str(name): CSV_TYPES.get(kind.value)
        for name, kind in zip(scorer.schema.names, scorer.schema.kinds, strict=True)
    }


@dataclass
class Counts:
    """What a run did, counted over all parts, those of an earlier run included."""

    bounds: Sequence[str]
    flags: Sequence[str]
    rows: int = 0
    flagged: int | None = None
    infinite: dict[str, int] = field(default_factory=dict)
    bad: int = 0

    @classmethod
    def of(cls, scorer: Scorer, prefix: str) -> "Counts":
        """Start to count what a scorer gives, under names with a prefix."""
        named = [(column.role, prefix + column.name) for column in scorer.columns]
        bounds = [name for role, name in named if role == "bound"]
        return cls(bounds, [name for role, name in named if role == "flag"])

    def add(self, table: Any) -> None:
        """Count the rows of a part."""
        self.rows += table.num_rows
        self.bad += int(table.schema.metadata[N_BAD])
        for name in self.bounds:
            found = int(np.isinf(table.column(name).to_numpy()).sum())
            self.infinite[name] = self.infinite.get(name, 0) + found
        for name in self.flags:
            flags = pc.sum(table.column(name)).as_py()
            self.flagged = (self.flagged or 0) + int(flags or 0)


def score_blocks(
    source: Source,
    score: TableScorer,
    parts: ResumableOutput,
    size: int,
    advance: Callable[[int], None],
) -> int:
    """Score the blocks that are not done yet; return how many rows an earlier run had done."""
    first = parts.n_done
    batches = source.batches(score.columns, first * size)
    for table in even_tables(batches, size):
        try:
            parts.append(_part(score, table))
        except BadRowsError as error:
            error.move(parts.n_done * size)
            raise
        advance(table.num_rows)
    if not parts.n_done:
        parts.append(_part(score, pa.Table.from_batches([next(source.batches(score.columns))])))
    return first * size


def _part(score: TableScorer, table: Any) -> Any:
    scored, n_bad = score(table)
    return scored.replace_schema_metadata({N_BAD: str(n_bad)})


def figures_of(
    counts: Counts, output: object, resumed: int, seconds: float, unseen: Mapping[Any, int]
) -> Mapping[str, Any]:
    """Return what a run has to report; `unseen` are counts over the rows of this run."""
    resumed = min(resumed, counts.rows)
    return {
        "output": str(output),
        "rows": counts.rows,
        "rows_done_before": resumed,
        "flagged": counts.flagged,
        "bad_rows": counts.bad,
        "infinite_bounds": counts.infinite,
        "unseen_values": {str(name): n for name, n in unseen.items()},
        "seconds": round(seconds, 3),
        "rows_per_second": round((counts.rows - resumed) / seconds) if seconds else None,
    }
