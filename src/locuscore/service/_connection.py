"""Limits on a connection while its request arrives: the size of the head, and the time it takes.

uvicorn parses HTTP but limits neither. Without this module headers pile up in memory without end,
and a client that sends half a request holds its connection for ever, all before any key is checked.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from locuscore.service._settings import Settings

TOO_LARGE = (
    "431 Request Header Fields Too Large",
    "the headers are too large; at most {0.max_header_bytes} bytes and {0.max_headers} are taken.",
)
TOO_SLOW = (
    "408 Request Timeout",
    "the request was not sent within {0.receive_seconds:g} seconds.",
)


MOST_JOINED = 2**16  # bytes; larger parts are sent as they come, and not copied
MOST_PARTS = 8  # of a longer answer, so that a slow client holds up whoever writes it


class _Joined:
    """A transport that sends the parts of an answer together.

    uvicorn writes the head and the body of an answer one after the other. Sent separately, each
    costs the system as much as both together, and wakes the client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send with what else is written before the loop goes on."""
        if len(data) > MOST_JOINED:
            self.flush()
            self._transport.write(data)
            return
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        if len(self._parts) > MOST_PARTS:
            self.flush()

    def flush(self) -> None:
        """Send what was written."""
        if self._parts and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts = []

    def close(self) -> None:
        """Close once everything is sent."""
        self.flush()
        self._transport.close()


class TooLargeError(Exception):
    """Stops the parser."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP with a limit on the head, in bytes and in number, and on the time a request takes.

    A request has `receive_seconds`, and a second more for every `min_bytes_per_second` of it that
    have arrived. Bytes that are not yet a whole header or part of a body count too, so that no
    single long header is kept beyond the limit. A client has as long to read an answer as it has to
    send a request of that size.
    """

    settings: ClassVar[Settings] = Settings()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None  # runs while an answer waits to be read
        self._started = 0.0
        self._received = 0  # bytes of the request
        self._unparsed = 0  # bytes since the last header or part of a body
        self._head_bytes = 0
        self._is_too_large = False
        self._is_head = True

    # uvicorn narrows the type of the transport in the same way.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request from now on."""
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]  # like one
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._arrived()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads its answer more slowly than we send it."""
        super().pause_writing()
        n_bytes = self.transport.get_write_buffer_size()
        seconds = self.settings.receive_seconds + n_bytes / self.settings.min_bytes_per_second
        # Not `close`, which would keep the answer until the client has read it.
        self._taking = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read nearly all of it."""
        self._taken()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse more of a request."""
        self._expect()
        self._received += len(data)
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > self.settings.max_header_bytes and not self.transport.is_closing():
            self._refuse(*TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed, or whose head is too large."""
        if self._is_too_large:
            self._refuse(*TOO_LARGE)
        else:
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        """The first byte of a request, perhaps in one packet with the request before."""
        self._expect()
        self._head_bytes, self._is_head = 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the first line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one of the trailers after a body."""
        self._unparsed = 0
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole, and the request goes to the application."""
        self._unparsed, self._is_head = 0, False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete; the client is not to blame for the time the answer takes."""
        self._unparsed = 0
        self._arrived()
        super().on_message_complete()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # Answered before its body arrived, and the body stopped uvicorn's timer for idle
            # connections.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _count(self, n: int) -> None:
        self._head_bytes += n
        is_long = self._head_bytes > self.settings.max_header_bytes
        if is_long or len(self.headers) >= self.settings.max_headers:
            self._is_too_large = True
            raise TooLargeError

    def _expect(self) -> None:
        """Start the clock, unless it runs."""
        if self._timer is None:
            self._started, self._received = self.loop.time(), 0
            self._timer = self.loop.call_later(self.settings.receive_seconds, self._is_late)

    def _arrived(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _taken(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _is_late(self) -> None:
        """Hang up, unless the client has been quick enough so far, or waits for our answer."""
        self._timer = None
        if self.transport.is_closing():
            return
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering and not self.cycle.more_body:
            return  # the request is complete, and what follows it can wait
        allowed = self.settings.receive_seconds
        if is_answering:
            allowed += self._received / self.settings.min_bytes_per_second
        left = self._started + allowed - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._is_late)
        elif self._is_head and self._received:
            self._refuse(*TOO_SLOW)
        else:
            self.transport.close()  # an application that reads the body sees a disconnect

    def _refuse(self, status: str, sentence: str) -> None:
        content = f'{{"error": "{sentence.format(self.settings)}"}}'
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self.transport.write((head + content).encode())
        self.transport.close()


def protocol_with(limits: Settings) -> type[asyncio.Protocol]:
    """Return the protocol with the limits of a service."""

    class Limited(LimitedProtocol):
        settings = limits

    return Limited
