"""State of the evidence: saved for all claims at once, by whoever read it last."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite

from locuscore.watch._ledger.connection import LedgerError, kept_json
from locuscore.watch._ledger.tables import DEPLOYMENTS, EVIDENCE


class StaleEvidenceError(LedgerError):
    """Somebody else saved evidence since it was read; read it again."""


@dataclass(frozen=True)
class SavedEvidence:
    """States by claim, the last row they have seen, and how often they were saved."""

    states: Mapping[str, Any]
    cursor: int
    version: int


def load(connection: Connection, number: int) -> SavedEvidence:
    """Read the states of a deployment's claims."""
    table = DEPLOYMENTS.c
    query = select(table.cursor, table.evidence_version).where(table.number == number)
    cursor, version = connection.execute(query).one()
    kept = select(EVIDENCE.c.claim, EVIDENCE.c.state).where(EVIDENCE.c.deployment == number)
    states = {
        claim: kept_json(state, f"evidence of {claim!r}")
        for claim, state in connection.execute(kept)
    }
    return SavedEvidence(states, cursor, version)


def save(
    connection: Connection,
    number: int,
    states: Mapping[str, Any],
    cursor: int,
    expected_version: int,
) -> None:
    """Replace states and cursor if nobody did so since version `expected_version` was read."""
    table = DEPLOYMENTS.c
    done = connection.execute(
        update(DEPLOYMENTS)
        .where(
            table.number == number,
            table.evidence_version == expected_version,
            table.cursor <= cursor,
        )
        .values(cursor=cursor, evidence_version=expected_version + 1)
    )
    if done.rowcount != 1:
        raise StaleEvidenceError(
            "the evidence was saved by somebody else since it was read; read it again and go on "
            "from there, so that no row counts twice."
        )
    if states:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        statement = dialect.insert(EVIDENCE)
        rows = [
            {"deployment": number, "claim": claim, "state": json.dumps(state)}
            for claim, state in states.items()
        ]
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["deployment", "claim"], set_={"state": statement.excluded.state}
            ),
            rows,
        )
