"""What happens after deployment: is the promise of a scorer still kept, and who finds out first?"""

from locuscore._shared.optional import require

require("sqlalchemy", extra="watch")

from locuscore.watch._actions import Action  # noqa: E402
from locuscore.watch._claims import Claim, claims_of  # noqa: E402
from locuscore.watch._ledger import LedgerDownError, LedgerError  # noqa: E402
from locuscore.watch._plan import AuditPlan, plan_audits  # noqa: E402
from locuscore.watch._recorder import Recorder  # noqa: E402
from locuscore.watch._settings import WatchSettings  # noqa: E402
from locuscore.watch._spool import SpoolError  # noqa: E402
from locuscore.watch._status import Status  # noqa: E402
from locuscore.watch._watch import Watch  # noqa: E402

__all__ = [
    "Action",
    "AuditPlan",
    "Claim",
    "LedgerDownError",
    "LedgerError",
    "Recorder",
    "SpoolError",
    "Status",
    "Watch",
    "WatchSettings",
    "claims_of",
    "plan_audits",
]
