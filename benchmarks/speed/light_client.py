"""A client that costs little: raw sockets, requests made beforehand, answers counted, not parsed.

``python light_client.py <port> <bodies> <clients> <seconds>`` prints one JSON object. The file
of bodies has one JSON body in each line. Client and service share the processor, so what a usual
client spends on each request would be counted as time of the service.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

HEAD = (
    b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)


class Client(asyncio.Protocol):
    """One connection: sends the next request when the last is answered."""

    def __init__(self, requests: list[bytes], first: int, end: float) -> None:
        self.requests, self.next, self.end = requests, first, end
        self.seconds: list[float] = []
        self.failed = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.answer = b""
        self.start = time.perf_counter()
        self.transport.write(self.requests[self.next % len(self.requests)])
        self.next += 1

    def data_received(self, data: bytes) -> None:
        self.answer += data
        head, found, body = self.answer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().index(b"content-length:") + 15
        if len(body) < int(head[at:].partition(b"\r\n")[0]):
            return
        now = time.perf_counter()
        self.seconds.append(now - self.start)
        self.failed += not head.startswith(b"HTTP/1.1 200")
        if now < self.end:
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def run(port: int, requests: list[bytes], clients: int, seconds: float) -> dict[str, object]:
    loop, start = asyncio.get_running_loop(), time.perf_counter()
    end = start + seconds
    made = []
    for k in range(clients):

        def protocol(first: int = 97 * k) -> Client:
            return Client(requests, first, end)

        _, client = await loop.create_connection(protocol, "127.0.0.1", port)
        made.append(client)
    await asyncio.gather(*(client.done for client in made))
    took = time.perf_counter() - start
    every = [value for client in made for value in client.seconds]
    return {
        "answers": len(every),
        "failed": sum(client.failed for client in made),
        "took": took,
        "seconds": sorted(every),
    }


def main() -> None:
    port, path, clients, seconds = sys.argv[1:]
    bodies = Path(path).read_bytes().splitlines()
    requests = [HEAD % (len(body), body) for body in bodies]
    print(json.dumps(asyncio.run(run(int(port), requests, int(clients), float(seconds)))))


if __name__ == "__main__":
    main()
