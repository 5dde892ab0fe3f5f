"""Bodies of requests, of bounded size."""

from starlette.requests import Request

from locuscore.service._refusal import RefusalError


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, at most `limit` bytes of it in memory.

    Of a body that is too large as much again is read and thrown away: a client that is answered
    while it still sends often sees a broken connection instead of the answer.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
        elif size > 2 * limit:
            break
    if size > limit:
        headers = {"Connection": "close"}
        raise RefusalError(413, f"the body is too large; at most {limit} bytes are taken.", headers)
    return b"".join(parts)
