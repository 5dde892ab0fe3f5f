"""Hands the audited rows of a ledger to a certificate that loosens while labels arrive."""

from datetime import timedelta
from typing import Any

import numpy as np

from locuscore import AnytimeCertificate, FlagRule, Scorer
from locuscore.watch._ledger import Deployment, Ledger
from locuscore.watch._settings import WatchSettings

AT_ONCE = 100_000  # rows that are read at a time
COLUMNS = ("seq", "score", "chance", "loss")


def scored_by(scorer: Scorer) -> dict[str, Any] | None:
    """Tells whether the scores of two deployments are the same function of a row.

    None for a scorer without a rule, or with one by groups, whose decisions keep no such score.
    """
    if not isinstance(scorer.rule, FlagRule):
        return None
    return {
        "score": scorer.rule.score.to_dict(),
        "calibration": scorer.locus.calibration_digest_,
        "loss": scorer.locus.loss_.name,
    }


def loosened(
    ledger: Ledger, certificate: AnytimeCertificate, by: dict[str, Any] | None
) -> AnytimeCertificate:
    """The certificate after the rows that have reached their age, each seen once.

    Rows are counted by their number in the ledger. All up to a number are read together, once each
    of them has the age of its deployment. So what is read never depends on a loss.
    """
    if by is None or by["score"] != certificate.of.to_dict():
        raise ValueError(
            f"the certificate is about the {certificate.of}, and decisions of this scorer keep "
            f"{'no score of one rule' if by is None else by['score']}; begin it with the score of "
            "the rule that decides."
        )
    alike = [d.deployment for d in ledger.deployments if d.deployment.card.get("scored_by") == by]
    settings = {one.digest: WatchSettings.from_dict(one.settings) for one in alike}
    if any(one.audit_flagged is None for one in settings.values()):
        raise ValueError(
            "a rule can only loosen by labels of flagged rows, and nobody knows with which chance "
            "these are labelled; open the watch with audit_flagged."
        )
    age = max((one.age for one in settings.values()), default=timedelta(0))
    written_before = ledger.now() - int(age / timedelta(microseconds=1)) + 1
    last = ledger.last_number(written_before, certificate.cursor)
    found = [
        rows
        for one in alike
        for rows in _drawn_rows(ledger, one, certificate.cursor, last, written_before)
    ]
    score, chance, loss = (
        np.concatenate([rows[name] for rows in found] or [np.empty(0)])
        for name in ("score", "chance", "loss")
    )
    if not len(score):
        return certificate
    return certificate.after(score, loss, chance, cursor=last)


def _drawn_rows(
    ledger: Ledger, deployment: Deployment, after: int, last: int, written_before: int
) -> list[dict[str, np.ndarray]]:
    """The drawn rows of a deployment with numbers up to the last, in pages."""
    pages: list[dict[str, np.ndarray]] = []
    while True:
        rows = ledger.matured(
            deployment.digest,
            after_seq=after,
            written_before=written_before,
            limit=AT_ONCE,
            only_drawn=True,
            columns=COLUMNS,
        )
        n = len(rows["seq"])
        wanted = rows["seq"] <= last
        pages.append({name: rows[name][wanted] for name in COLUMNS})
        if n < AT_ONCE or not wanted.all():
            return pages
        after = int(rows["seq"][-1])
