"""Where a report comes from: data, archive, versions, who approved it, and until when it holds."""

import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locuscore import Scorer, __version__, inspect_archive
from locuscore._shared.readable import day_text
from locuscore._shared.shown import Shown

CHECKED, UNCHECKED, UNSIGNED = "checked with its key", "present, not checked", "none"
PIECE = 1 << 20


@dataclass(frozen=True, repr=False)
class Provenance(Shown):
    """Names and digests of the files that a report is about, and who approved it.

    Examples
    --------
    >>> from locuscore.report import Provenance
    >>> Provenance.of_files(approved="A. Jensen, model risk").approved
    'A. Jensen, model risk'
    """

    data: str = ""
    data_digest: str = ""
    archive: str = ""
    archive_digest: str = ""
    signature: str = ""
    approved: str = ""

    @classmethod
    def of_files(
        cls,
        data: str | Path | None = None,
        archive: str | Path | None = None,
        *,
        key: bytes | None = None,
        approved: str = "",
    ) -> "Provenance":
        """Read the digests of a file or folder of rows, and of an archive.

        With a `key` the archive must be signed with it. `approved` is free text, such as a name.
        """
        found = {"approved": approved}
        if data is not None:
            found |= {"data": Path(data).name, "data_digest": digest_of(Path(data))}
        if archive is not None:
            is_signed = inspect_archive(archive, key=key)["is_signed"]
            signature = CHECKED if key is not None else UNCHECKED if is_signed else UNSIGNED
            found |= {"archive": Path(archive).name, "archive_digest": digest_of(Path(archive))}
            found["signature"] = signature
        return cls(**found)


def digest_of(path: Path) -> str:
    """SHA-256 of a file; of a folder, that of the names and digests of the files in it."""
    if path.is_dir():
        files = sorted(part for part in path.rglob("*") if part.is_file())
        lines = (f"{digest_of(part)}  {part.relative_to(path).as_posix()}\n" for part in files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def told(
    given: Provenance,
    scorer: Scorer,
    created: datetime.date,
    days: tuple[datetime.date, datetime.date] | None,
) -> dict[str, Any]:
    """The provenance as the summary has it; days in ISO format, unknown ones are None."""
    until = "" if scorer.rule is None else scorer.rule.valid_until
    last_day = datetime.date.fromisoformat(until) if until else None
    return {
        **vars(given),
        "scorer_digest": scorer.digest,
        "first_day": None if days is None else days[0].isoformat(),
        "last_day": None if days is None else days[1].isoformat(),
        "valid_until": until,
        "is_expired": last_day is not None and created > last_day,
        "versions": dict(scorer.manifest["written_by"]),
        "reported_by": __version__,
    }


def expiry_note(provenance: dict[str, Any]) -> str:
    """That the rule is no longer to be used; empty while it is."""
    if not provenance["is_expired"]:
        return ""
    last_day = datetime.date.fromisoformat(provenance["valid_until"])
    return f"The rule was valid until {day_text(last_day)} and has expired."
