"""What was deployed: fixed when it is first seen."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select

from locuscore.watch._ledger.connection import LedgerError, kept_json
from locuscore.watch._ledger.tables import DEPLOYMENTS, LONGEST_NAME


@dataclass(frozen=True)
class Deployment:
    """A deployed scorer: its digest, and what was fixed before its first decision.

    `alphas` are those of the columns of bounds and `tau` the loss above which a row is bad, or
    None. `claims`, `settings` and `card` are kept as JSON.
    """

    digest: str
    alphas: Sequence[float]
    tau: float | None = None
    claims: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)

    def fixed(self) -> dict[str, Any]:
        """Return what must not change, as the table keeps it."""
        return {
            "alphas": json.dumps([float(alpha) for alpha in self.alphas]),
            "tau": None if self.tau is None else float(self.tau),
            "claims": json.dumps(list(map(dict, self.claims)), sort_keys=True),
            "settings": json.dumps(dict(self.settings), sort_keys=True),
        }


@dataclass(frozen=True)
class Deployed:
    """A deployment as the ledger has it: with its number there."""

    number: int
    deployment: Deployment
    since: int


def deploy(connection: Connection, deployment: Deployment, now: int) -> tuple[Deployed, bool]:
    """Return the deployment as the ledger has it, and whether it is new there."""
    if not 0 < len(deployment.digest) <= LONGEST_NAME:
        raise ValueError(
            f"the digest of a deployment has 1 to {LONGEST_NAME} characters; "
            f"got {len(deployment.digest)}."
        )
    known = {d.deployment.digest: d for d in all_deployed(connection)}
    if deployment.digest in known:
        found = known[deployment.digest]
        _check_same(deployment, found.deployment)
        return found, False
    new = Deployed(1 + max((d.number for d in known.values()), default=0), deployment, now)
    row = {
        "number": new.number,
        "digest": deployment.digest,
        "since": now,
        "card": json.dumps(dict(deployment.card)),
        "last_seq": 0,
        "cursor": 0,
        "evidence_version": 0,
    }
    connection.execute(insert(DEPLOYMENTS).values(row | deployment.fixed()))
    return new, True


def all_deployed(connection: Connection, *where: ColumnElement[bool]) -> list[Deployed]:
    """Every deployment for which a condition holds, in order of its first decision."""
    table = DEPLOYMENTS.c
    wanted = [table.number, table.since, table.digest, table.tau]
    texts = [table.alphas, table.claims, table.settings, table.card]
    rows = connection.execute(select(*wanted, *texts).where(*where).order_by(table.number))
    return [
        Deployed(number, Deployment(digest, *_ordered(tau, parts)), since)
        for number, since, digest, tau, *parts in rows
    ]


def _ordered(tau: float | None, parts: Sequence[str]) -> tuple[Any, ...]:
    found = [kept_json(part, "table of deployments") for part in parts]
    if [type(one) for one in found] != [list, list, dict, dict]:
        raise LedgerError(
            "the ledger is damaged: its table of deployments has values of other types; restore "
            "it from a backup."
        )
    alphas, claims, settings, card = found
    return tuple(alphas), tau, tuple(claims), settings, card


def _check_same(given: Deployment, kept: Deployment) -> None:
    """Refuse what would change the rules of a test after its first row."""
    asked, known = _flat(given), _flat(kept)
    changed = sorted(name for name in asked | known if asked.get(name) != known.get(name))
    if changed:
        told = "; ".join(
            f"{name}: kept {known.get(name, 'nothing')}, given {asked.get(name, 'nothing')}"
            for name in changed
        )
        raise LedgerError(
            f"this scorer was first deployed with other settings ({told}). They are fixed at its "
            "first decision; open it with those, or deploy a scorer with another digest."
        )


def _flat(deployment: Deployment) -> dict[str, str]:
    settings = {name: json.dumps(v, sort_keys=True) for name, v in deployment.settings.items()}
    return settings | {n: str(v) for n, v in deployment.fixed().items() if n != "settings"}
