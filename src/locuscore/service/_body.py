"""Bodies of requests, of known kinds and of bounded size."""

from collections.abc import Sequence

from starlette.types import Receive, Scope

from locuscore.service._refusal import RefusalError

CONTENT = frozenset((b"content-type", b"content-encoding"))


def content_kind(scope: Scope, known: Sequence[str]) -> str:
    """Return the content type of a request; refuse others, and bodies that are encoded."""
    given = {name: value for name, value in scope["headers"] if name in CONTENT}
    kind = given.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    if kind not in known:
        raise RefusalError(415, f"the content type must be {' or '.join(known)}.")
    if given.get(b"content-encoding", b"identity").lower() != b"identity":
        raise RefusalError(415, "send the body without content encoding.")
    return kind


async def read_body(receive: Receive, limit: int) -> bytes:
    """Return the body, at most `limit` bytes of it in memory.

    Of a body that is too large as much again is read and thrown away: a client that is answered
    while it still sends often sees a broken connection instead of the answer.
    """
    parts: list[bytes] = []
    size, is_more = 0, True
    while is_more and size <= 2 * limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusalError(408, "the request was not sent to its end.")
        part, is_more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size <= limit:
            parts.append(part)
    if size > limit:
        headers = {"Connection": "close"}
        raise RefusalError(413, f"the body is too large; at most {limit} bytes are taken.", headers)
    return b"".join(parts)
