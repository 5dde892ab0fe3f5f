"""The ledger: decisions, labels and evidence in a database; no statistics."""

from locuscore.watch._ledger.connection import LedgerDownError, LedgerError
from locuscore.watch._ledger.deployments import Deployed, Deployment
from locuscore.watch._ledger.evidence import StaleEvidenceError
from locuscore.watch._ledger.ledger import Appended, Labelled, Ledger

__all__ = [
    "Appended",
    "Deployed",
    "Deployment",
    "Labelled",
    "Ledger",
    "LedgerDownError",
    "LedgerError",
    "StaleEvidenceError",
]
