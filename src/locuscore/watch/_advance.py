"""Hands the rows of a ledger to the tests of a deployment, each once, when they reach their age."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np

from locuscore.watch._claim_test import ClaimTest
from locuscore.watch._claims import Claim
from locuscore.watch._ledger import (
    Deployment,
    Ledger,
    LedgerDownError,
    LedgerError,
    StaleEvidenceError,
)
from locuscore.watch._settings import WatchSettings

LOG = logging.getLogger("locuscore.watch")
AT_ONCE = 100_000  # rows that are tested before the state is saved
MOST_TRIES = 20
Tests = dict[str, ClaimTest]


def advance(ledger: Ledger, deployment: Deployment) -> Tests:
    """Hand matured rows to the tests, and save these; two calls at once never repeat a row."""
    for _ in range(MOST_TRIES):
        try:
            return _advance_once(ledger, deployment)
        except StaleEvidenceError:
            continue
    raise RuntimeError("the evidence is saved by others all the time; try again.")


def advance_others(ledger: Ledger, digest: str) -> None:
    """Test the rows of other deployments too: many reach their age after a newer one decides.

    What fails there, such as evidence that is damaged, holds up nobody here.
    """
    for other in ledger.untested(but=digest):
        try:
            advance(ledger, other)
        except LedgerDownError:
            raise
        except (LedgerError, LookupError, TypeError, ValueError) as error:
            LOG.warning("rows of the deployment %s are not tested: %s", other.digest[:12], error)


def _advance_once(ledger: Ledger, deployment: Deployment) -> Tests:
    settings = WatchSettings.from_dict(deployment.settings)
    saved = ledger.evidence(deployment.digest)
    tests = _restored(deployment, settings, saved.states, ledger.secret)
    written_before = ledger.now() - int(settings.age / timedelta(microseconds=1)) + 1
    cursor, version = saved.cursor, saved.version
    all_rows = any(test.claim.unit == "cluster" for test in tests.values())
    while True:
        rows = ledger.matured(
            deployment.digest,
            after_seq=cursor,
            written_before=written_before,
            limit=AT_ONCE,
            only_drawn=not all_rows,
        )
        n = len(rows["seq"])
        if n:
            events = _see(tests, rows, tuple(deployment.alphas))
            cursor = int(rows["seq"][-1])
            states = {name: test.to_state() for name, test in tests.items()}
            ledger.save_evidence(
                deployment.digest, states, cursor=cursor, expected_version=version, events=events
            )
            version += 1
        if n < AT_ONCE:
            return tests


def _restored(
    deployment: Deployment, settings: WatchSettings, states: Mapping[str, Any], secret: bytes
) -> Tests:
    tests = {}
    for claim in map(Claim.from_dict, deployment.claims):
        if claim.is_tested:
            tests[claim.name] = ClaimTest(claim, settings, secret)
            if claim.name in states:
                try:
                    tests[claim.name].restore(states[claim.name])
                except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
                    raise LedgerError(
                        f"the ledger is damaged: its evidence of {claim.name!r} is not what a "
                        "watch has saved; restore it from a backup."
                    ) from None
    return tests


def _see(
    tests: Tests, rows: Mapping[str, np.ndarray], alphas: tuple[float, ...]
) -> list[tuple[str, dict[str, Any]]]:
    """Test rows; the alarms that are new."""
    events = []
    for name, test in tests.items():
        had = test.alarm_time
        test.see(rows, alphas)
        is_sound = test.cluster.trouble is None
        if test.alarm_time is not None and had is None and is_sound:
            events.append(("alarm", {"claim": name, "row_decided": test.alarm_time}))
    return events
