"""Ledger: the one door to the database; its writing half."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sqlalchemy import Connection, insert, select, update

from locuscore._shared.optional import require
from locuscore.watch._ledger import evidence, labels, read, retention
from locuscore.watch._ledger.columns import arrays, decision_columns
from locuscore.watch._ledger.connection import LedgerError
from locuscore.watch._ledger.decisions import insert_new
from locuscore.watch._ledger.deployments import Deployed, Deployment, all_deployed, deploy
from locuscore.watch._ledger.reader import LedgerReader
from locuscore.watch._ledger.sums import add, decision_measures
from locuscore.watch._ledger.tables import DECISIONS, DEPLOYMENTS, EVENTS, LABELS, LEDGER, VERSION

AT_ONCE = 20_000  # rows in one transaction


@dataclass(frozen=True)
class Appended:
    """What became of decisions: written, known by their id, or older than what was forgotten."""

    new: int
    known: int
    forgotten: int


@dataclass(frozen=True)
class Labelled:
    """What became of some labels: new ones, and those sent before."""

    new: int
    known: int


@dataclass(frozen=True)
class Turn:
    """A writer's turn: no other writes meanwhile, so numbers are given in order of commits."""

    connection: Connection
    last_seq: int
    last_label: int
    now: int
    forgotten_before: int


class Ledger(LedgerReader):
    """Decisions, labels and the state of the evidence in SQLite or PostgreSQL.

    Rows are numbered (`seq`) in the order in which they were committed, and their time of writing
    never decreases with the number: if the clock jumps back, it stands still until it has caught
    up. So rows mature in order, each once. All writes are idempotent: an id is one decision.

    Parameters
    ----------
    url
        ``sqlite:///decisions.db`` or ``postgresql://user:password@host/name``. Tables are made, or
        brought to the present version, when it is opened.
    clock
        Microseconds since 1970, instead of the clock of the database.
    """

    def deploy(self, deployment: Deployment) -> Deployed:
        """Make a deployment known; again is nothing new, other settings are refused."""
        with self._turn() as turn:
            found, is_new = deploy(turn.connection, deployment, turn.now)
            if is_new:
                self._note(turn, found.number, "deploy", {"digest": deployment.digest})
        self._deployed[deployment.digest] = found
        return found

    def append_decisions(self, digest: str, columns: Mapping[str, Any]) -> Appended:
        """Write decisions; those whose id is known stay as they are.

        `columns` has ``id`` and may have ``time`` (microseconds or datetime64, UTC),
        ``prediction``, ``bounds`` of shape (n, alphas), ``score``, ``probability``,
        ``flagged``, ``group_name``, ``cluster``, ``chance``, ``drawn`` and ``signals`` of shape
        (n, any). Written in portions,
        each of them whole or not at all; after an error send all of them again.
        """
        deployed = self._known(digest)
        if not len(columns.get("id", "?")):
            return Appended(0, 0, 0)
        now = self.now() if columns.get("time") is None else None
        checked = decision_columns(columns, len(deployed.deployment.alphas), now)
        n, new, forgotten = len(checked["id"]), 0, 0
        for start in range(0, n, AT_ONCE):
            part = {name: v[start : start + AT_ONCE] for name, v in checked.items()}
            with self._turn() as turn:
                if turn.forgotten_before and min(part["time"]) < turn.forgotten_before:
                    kept = [t >= turn.forgotten_before for t in part["time"]]
                    part = {name: _where(v, kept) for name, v in part.items()}
                    forgotten += kept.count(False)
                new += self._append(turn, deployed, part)
        return Appended(new, n - new - forgotten, forgotten)

    def append_labels(
        self,
        ids: ArrayLike | Sequence[str],
        *,
        y: Any = None,
        losses: ArrayLike | None = None,
        times: Any = None,
        source: str = "label",
    ) -> Labelled:
        """Write labels: y, or losses, or both; those sent before are not written again.

        A label before its decision waits for it. One that has y alone waits until `write_losses`
        gives its loss. Without `times` it is that of writing.
        """
        rows = labels.label_columns(ids, y, losses, times, source, self.now())
        new = 0
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            with self._turn() as turn:
                base = turn.last_label
                new += labels.insert_labels(turn.connection, part, base)
                labels.join_decisions(turn.connection, LABELS.c.number > base)
                labels.check_waiting(turn.connection, base)
                labels.refresh(turn.connection, LABELS.c.number > base, self._by_number(turn))
                self._end(turn, last_label=base + len(part))
        return Labelled(new, len(rows) - new)

    def write_losses(self, numbers: Sequence[int], losses: ArrayLike) -> None:
        """Give labels that have y alone (see `unpriced`) their losses."""
        values = np.asarray(losses, dtype=float)
        if values.shape != (len(numbers),) or not np.isfinite(values).all():
            raise ValueError(f"write_losses needs {len(numbers)} finite losses, one per label.")
        given = [int(number) for number in numbers]
        with self._turn() as turn:
            known = self._by_number(turn)
            labels.write_losses(turn.connection, given, values.tolist(), known)

    def save_evidence(
        self,
        digest: str,
        states: Mapping[str, Any],
        *,
        cursor: int,
        expected_version: int,
        events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> None:
        """Save the states of all claims, their cursor and what happened, in one transaction.

        Raises `StaleEvidenceError` if somebody else saved since `expected_version` was read.
        """
        number = self._known(digest).number
        with self._turn() as turn:
            evidence.save(turn.connection, number, states, cursor, expected_version)
            for kind, detail in events:
                self._note(turn, number, kind, detail)

    def add_event(self, kind: str, detail: Mapping[str, Any], digest: str | None = None) -> None:
        """Note what happened: a reload, a recalibration, an alarm."""
        with self._turn() as turn:
            self._note(turn, None if digest is None else self._known(digest).number, kind, detail)

    def forget(self, before: int, *, untested_too: bool = False) -> int:
        """Delete decisions made before a time, with their labels; how many decisions.

        Sums, evidence and events stay. Rows that the evidence has not seen stay unless
        `untested_too`. Decisions from before that time are not taken any more.
        """
        if before > self.now():
            raise ValueError(
                "the time before which all is forgotten lies in the future; decisions made until "
                "then would not be kept. Give the present or a time before it."
            )
        gone = 0
        for part in retention.portions(self._database, before, untested_too):
            with self._turn() as turn:
                retention.delete_rows(turn.connection, part)
            gone += len(part)
        with self._turn() as turn:
            waited = retention.forget_waiting(turn.connection, before)
            detail = {"before": before, "decisions": gone, "waiting_labels": waited}
            self._note(turn, None, "forget", detail)
        if not self._database.is_postgres:  # what was deleted leaves the log of changes too
            with self._database.reading() as connection:
                connection.connection.driver_connection.execute(  # type: ignore[union-attr]
                    "PRAGMA wal_checkpoint(TRUNCATE)"
                )
        return gone

    def correct_clock(self) -> int:
        """Stamp rows that a wrong clock dated into the future with the present; how many.

        They would otherwise mature too late. Their order stays, so none is tested twice.
        """
        with self._turn() as turn:
            now = self._database.now(turn.connection)
            first = read.last_written(turn.connection, 0, now + 1)
            ahead = update(DECISIONS).where(DECISIONS.c.seq > first).values(written_at=now)
            n = turn.connection.execute(ahead).rowcount
            turn.connection.execute(update(LEDGER).values(last_written_at=now))
            self._note(turn, None, "clock", {"rows": n, "ahead_by": turn.now - now})
        return n

    def export(self, folder: str | Path) -> list[Path]:
        """Write everything as Parquet, one file of decisions per deployment; the files."""
        require("pyarrow", extra="watch")
        # Imported here: a service that never exports starts without pyarrow.
        module = import_module("locuscore.watch._ledger.export")
        return list(module.export(self._database, Path(folder)))

    # A writer's turn

    @contextmanager
    def _turn(self) -> Iterator[Turn]:
        with self._database.writing() as connection:
            row = connection.execute(select(LEDGER).with_for_update()).one()
            if row.version != VERSION:
                raise LedgerError(
                    f"the ledger was brought to version {row.version} by another process, and "
                    f"this one writes version {VERSION}; restart it with the new locuscore."
                )
            now = max(self._database.now(connection), row.last_written_at)
            limit = row.forgotten_before or 0
            yield Turn(connection, row.last_seq, row.last_label, now, limit)

    def _append(self, turn: Turn, deployed: Deployed, part: dict[str, Any]) -> int:
        n, connection, base = len(part["id"]), turn.connection, turn.last_seq
        if n == 0:
            return 0
        part = part | {"deployment": [deployed.number] * n, "written_at": [turn.now] * n}
        new = insert_new(connection, part, base)
        names = ("deployment", "time", "group_name", "flagged", "drawn", "chance", "probability")
        rows = arrays([*zip(*(part[name] for name in names), strict=True)], names, None)
        rows = {name: values[new] for name, values in rows.items()}
        add(connection, rows, decision_measures(rows), np.ones(len(new)))
        if read.any_waiting(connection):
            fresh = select(DECISIONS.c.id).where(DECISIONS.c.seq > base)
            labels.join_decisions(connection, LABELS.c.id.in_(fresh))
            labels.refresh(connection, LABELS.c.seq > base, self._by_number(turn))
        mine = update(DEPLOYMENTS).where(DEPLOYMENTS.c.number == deployed.number)
        connection.execute(mine.values(last_seq=base + n))
        self._end(turn, last_seq=base + n)
        return len(new)

    def _end(self, turn: Turn, **changed: int) -> None:
        values = {"last_written_at": turn.now} | changed
        turn.connection.execute(update(LEDGER).values(values))

    def _note(self, turn: Turn, number: int | None, kind: str, detail: Mapping[str, Any]) -> None:
        row = {"deployment": number, "time": turn.now, "kind": kind, "detail": json.dumps(detail)}
        turn.connection.execute(insert(EVENTS).values(row))

    def _by_number(self, turn: Turn) -> dict[int, Deployment]:
        return {d.number: d.deployment for d in all_deployed(turn.connection)}


def _where(values: Sequence[Any], kept: Sequence[bool]) -> list[Any]:
    return [value for value, is_kept in zip(values, kept, strict=True) if is_kept]
