"""A small HTTP client for load: many connections, one row per request, every answer checked.

Runs in a process of its own: ``python load.py <port> <cases> <seconds> <connections> <rate>``.
A rate of 0 sends the next request as soon as the last is answered; a positive one starts that many
requests per second whatever the answers do, on as many connections as that takes.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

HEAD = (
    "POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: {}\r\n\r\n"
)
LONGEST_IDLE = 2.0  # seconds; a lost request is never sent again, so that it is counted


class Client:
    """Sends single rows and compares what comes back with what is known."""

    def __init__(self, port: int, cases: list[dict]) -> None:
        self.port = port
        self.bodies = [json.dumps({"rows": [case["row"]]}).encode() for case in cases]
        self.expected = [case["bound"] for case in cases]
        self.statuses: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {"200": [], "503": []}
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection used last, or a new one; never one that a server may have given up."""
        while self.idle:
            reader, writer, since = self.idle.pop()
            if time.perf_counter() - since < LONGEST_IDLE:
                return reader, writer
            writer.close()
        return await asyncio.open_connection(host="127.0.0.1", port=self.port)

    async def one(self, i: int) -> None:
        """Send one row and sort its answer: right, wrong, shed or lost."""
        i %= len(self.bodies)
        start = time.perf_counter()
        try:
            reader, writer = await self.connect()
            body = self.bodies[i]
            writer.write(HEAD.format(len(body)).encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            content = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.statuses["lost"] += 1
            return
        self.idle.append((reader, writer, time.perf_counter()))
        status = head[9:12].decode()
        if status == "200":
            (row,) = json.loads(content)["rows"]
            is_right = abs(row["bound_0.1"] - self.expected[i]) <= 1e-9 * abs(self.expected[i])
            self.statuses["200" if is_right else "wrong"] += 1
        else:
            self.statuses[status] += 1
        if status in self.seconds:
            self.seconds[status].append(time.perf_counter() - start)

    async def closed_loop(self, seconds: float, connections: int) -> None:
        end = time.perf_counter() + seconds

        async def user(k: int) -> None:
            i = k
            while time.perf_counter() < end:
                await self.one(i)
                i += connections

        await asyncio.gather(*(user(k) for k in range(connections)))

    async def open_loop(self, seconds: float, rate: float) -> None:
        start, sent, tasks = time.perf_counter(), 0, set()
        while (elapsed := time.perf_counter() - start) < seconds:
            while sent < elapsed * rate:
                task = asyncio.create_task(self.one(sent))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                sent += 1
            await asyncio.sleep(0.002)
        await asyncio.gather(*tasks)
        self.statuses["sent"] = sent


def main() -> None:
    port, path, seconds, connections, rate = sys.argv[1:]
    client = Client(int(port), json.loads(Path(path).read_text()))
    start = time.perf_counter()
    if float(rate):
        asyncio.run(client.open_loop(float(seconds), float(rate)))
    else:
        asyncio.run(client.closed_loop(float(seconds), int(connections)))
    took = time.perf_counter() - start
    found = {"statuses": client.statuses, "took": took, "seconds": client.seconds}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
