"""The error that becomes an answer, and one-line versions of other errors."""

from starlette.exceptions import HTTPException

from locuscore._shared.readable import said

LONGEST_LINE = 500


class RefusalError(HTTPException):
    """A request that is not served: a status, one sentence for the client, maybe headers."""


def check_rows(n: int, limit: int) -> None:
    """Refuse a request of too many rows."""
    if n > limit:
        raise RefusalError(413, f"{n} rows are too many; at most {limit} are taken.")


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line of bounded length."""
    text = next(iter(said(error).strip().splitlines()), type(error).__name__)
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} ..."


def printable(text: str, longest: int = LONGEST_LINE) -> str:
    """Return what a client has sent as one printable line, which cannot pass for another one."""
    cut = text[:longest]
    shown = cut if cut.isprintable() else cut.encode("unicode_escape").decode()
    return shown if len(text) <= longest else f"{shown} ..."
