"""Options of ``locuscore watch``: the ledger, the settings of a deployment, times."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from locuscore import Scorer
from locuscore.cli._option_values import check_file
from locuscore.cli._options import option

if TYPE_CHECKING:
    from locuscore.watch import Watch

STORE = "LOCUSCORE_STORE"
WATCH = "The watch"
URL_TEXT = "Ledger: a SQLite file, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME."
UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms])")
SQLITE = "sqlite:///"


def _store(panel: str | None = None) -> Any:
    # From the environment, so that a password need not stand on the command line.
    return typer.Option(
        "--store",
        metavar="URL",
        envvar=STORE,
        help=URL_TEXT,
        rich_help_panel=panel,
        show_default=False,
    )


Store = Annotated[str, _store()]
OptionalStore = Annotated[str | None, _store(WATCH)]
Scored = Annotated[Path, typer.Argument(metavar="SCORED", show_default=False, help="Scored rows.")]
Audit = Annotated[
    float | None,
    option(
        "--audit", "X", "Chance that an accepted row is drawn for its label. \\[default: 1]", WATCH
    ),
]
AuditFlagged = Annotated[
    float | None,
    option(
        "--audit-flagged",
        "X",
        "The same for flagged rows; without it unknown, unless --audit is 1.",
        WATCH,
    ),
]
Age = Annotated[
    str | None,
    option(
        "--age", "TIME", "Age at which a row is tested, such as 7d or 12h. \\[default: 7d]", WATCH
    ),
]
Delta = Annotated[
    float | None,
    option("--delta", "X", "Chance of ever alarming while all is well. \\[default: 0.05]", WATCH),
]


@dataclass(frozen=True)
class WatchOptions:
    """Settings that are fixed at the first decision; those left out are as the ledger has them."""

    audit: Audit = None
    audit_flagged: AuditFlagged = None
    age: Age = None
    delta: Delta = None

    def given(self) -> dict[str, Any]:
        """Return the settings that are given."""
        age = None if self.age is None else chosen_age(self.age)
        all_of_them = {
            "audit": self.audit,
            "audit_flagged": self.audit_flagged,
            "age": age,
            "delta": self.delta,
        }
        return {name: value for name, value in all_of_them.items() if value is not None}


def chosen_age(text: str) -> timedelta:
    """Return a time such as 7d, 12h, 30m or 90s."""
    found = AGE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"expected a number and a unit, such as 7d, 12h, 30m or 0s; got {text!r}.",
            param_hint="--age",
        )
    try:
        return timedelta(**{UNITS[found[2]]: float(found[1])})
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long a time.", param_hint="--age") from None


def chosen_time(text: str) -> datetime:
    """Return a day, which begins in UTC, or a time with its zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    has_zone = found is not None and found.tzinfo is not None
    if found is None or not (has_zone or re.fullmatch(r"[\d-]+", text)):
        raise typer.BadParameter(
            f"expected a day such as 2027-01-31, or a time with its zone such as "
            f"2027-01-31T12:00Z; got {text!r}.",
            param_hint="--before",
        )
    return found if has_zone else found.replace(tzinfo=UTC)


def check_ledger(store: str) -> None:
    """Raise if a ledger in a file is not there: opening it would make an empty one."""
    if re.match(r"\w*:?/*postgres|.*password=", store, re.IGNORECASE):
        return  # opening it says what is wrong without telling the password
    if "://" not in store:
        check_file(Path(store))
    elif store.startswith(SQLITE):
        check_file(Path(store.removeprefix(SQLITE).partition("?")[0]))


def opened_for(store: str, scorer: Scorer) -> "Watch":
    """Open a ledger that has decisions of a scorer.

    Another one would become the latest deployment, and nobody would be told the alarm of the one
    that decides.
    """
    from locuscore.watch import Watch  # noqa: PLC0415 - needs an extra

    watch = Watch(store)
    known = [one.deployment.digest for one in watch.ledger.deployments]
    watch.close()
    if scorer.digest not in known:
        raise ValueError(
            f"the ledger has no deployment {scorer.digest}; the archive is not one that decided. "
            f"It knows {', '.join(known[-3:])}; watch log makes another one known."
        )
    return Watch.open(store, scorer)
