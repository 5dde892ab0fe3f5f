"""Rows that are scored and kept: the answer has their ids, and whose label is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from locuscore.service._arrow_rows import with_columns
from locuscore.service._json_rows import Columns
from locuscore.service._model import JsonRows, Model, columns_of
from locuscore.watch import Recorder, SpoolError

Ids = list[str]


@dataclass(frozen=True, eq=False)
class Decisions:
    """A model whose decisions are kept; a part is the rows of a request and their ids.

    A part that was scored and could not be kept has an error for its answer. It is not raised: the
    batch would be scored again by halves, to no avail.
    """

    model: Model
    recorder: Recorder

    def score_json(self, parts: Sequence[tuple[Columns, Ids]]) -> list[JsonRows | SpoolError]:
        """Score and keep the rows of several requests as one batch."""
        rows = self.model.together([columns for columns, _ in parts])
        found = self.model.columns(rows)
        ids = [one for _, part in parts for one in part]
        try:
            kept = self.recorder.keep(self.model.digest, rows, found, ids)
        except SpoolError as error:
            return [error] * len(parts)
        return list(self.model.json_rows({**kept, **found}, [len(part) for _, part in parts]))

    def score_arrow(self, parts: Sequence[tuple[pa.Table, Ids]]) -> list[pa.Table | SpoolError]:
        """Score and keep Arrow tables, one call for each."""
        return [self._table(table, ids) for table, ids in parts]

    def _table(self, table: pa.Table, ids: Ids) -> pa.Table | SpoolError:
        scored = self.model.table(table)
        try:
            kept = self.recorder.keep(self.model.digest, table, columns_of(scored), ids)
        except SpoolError as error:
            return error
        return with_columns(scored, kept)
