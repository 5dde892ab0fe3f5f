"""Requests that wait are scored together, one batch at a time, in one thread."""

import asyncio
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from locuscore import collected_unseen


class OverloadError(Exception):
    """The queue is full."""


# Scores the parts of several requests, one result each; jobs with equal ones are scored together.
Group = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Job:
    """The rows of one request, and where its result goes: in a loop, if that waits for it."""

    group: Group
    part: Any
    n: int
    future: "Future[Any] | asyncio.Future[Any]"

    def begins(self) -> bool:
        """Whether the result is still wanted."""
        if isinstance(self.future, Future):
            return self.future.set_running_or_notify_cancel()
        return not self.future.cancelled()


@dataclass(eq=False)
class Batcher:
    """A bounded queue of jobs, and the one thread that takes them off it in batches.

    A batch is what waits when the thread looks, up to `max_rows` rows, and what else arrives
    within `gather_seconds`. A loop lets the thread look after all requests that it has read at
    once; what arrives while a batch is scored makes up the next one. Jobs of one batch with the
    same group are scored in one call. If that call fails, its halves are scored separately, and so
    on, so that only the job at fault fails. A job that is cancelled while it waits is dropped.

    The thread starts with the first job of a process, because a fork does not copy threads: a
    server that makes the application and then forks its workers gets one in each.
    """

    gather_seconds: float
    max_rows: int
    max_waiting: int
    seen: Callable[[int], object] = lambda n: None
    unseen: Callable[[Mapping[Any, int]], object] = lambda counts: None
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _pid: int | None = field(default=None, init=False)
    _will_ring: bool = field(default=False, init=False)

    @property
    def is_alive(self) -> bool:
        """Whether jobs are scored; true before the first job, which starts the thread."""
        return not self._is_started or self._thread.is_alive()

    @property
    def _is_started(self) -> bool:
        return self._pid == os.getpid()

    def _start(self) -> None:
        self._waiting: deque[Job] = deque()
        self._bell: queue.SimpleQueue[bool] = queue.SimpleQueue()  # false at the end
        self._thread = threading.Thread(target=self._run, name="locuscore-scoring", daemon=True)
        self._thread.start()
        self._pid = os.getpid()

    def submit(self, group: Group, part: Any, n: int) -> "Future[Any]":
        """Put n rows into the queue; raises `OverloadError` if it is full."""
        future: Future[Any] = Future()
        self._put(Job(group, part, n, future))
        self._bell.put(True)
        return future

    def ask(self, group: Group, part: Any, n: int) -> "asyncio.Future[Any]":
        """Do as `submit` does, for the running loop, which is told of a whole batch at once."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._put(Job(group, part, n, future))
        if not self._will_ring:
            self._will_ring = True
            loop.call_soon(self._ring)
        return future

    def _ring(self) -> None:
        self._will_ring = False
        self._bell.put(True)

    def _put(self, job: Job) -> None:
        with self._lock:
            if not self._is_started:
                self._start()
            if len(self._waiting) >= self.max_waiting:
                raise OverloadError
            self._waiting.append(job)

    def close(self) -> None:
        """Score what waits, then stop."""
        if self._is_started:
            self._bell.put(False)
            self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            is_open = self._bell.get()
            while self._waiting:
                running = [job for job in self._next_batch() if job.begins()]
                groups: dict[Group, list[Job]] = {}
                for job in running:
                    groups.setdefault(job.group, []).append(job)
                for group, jobs in groups.items():
                    self.seen(sum(job.n for job in jobs))
                    self._score(group, jobs)

    def _next_batch(self) -> list[Job]:
        """Take what waits, up to the most rows, after having gathered for a while."""
        batch = [self._waiting.popleft()]
        rows = batch[0].n
        if rows < self.max_rows and self.gather_seconds:
            time.sleep(self.gather_seconds)
        while rows < self.max_rows and self._waiting:
            batch.append(self._waiting.popleft())
            rows += batch[-1].n
        return batch

    def _score(self, group: Group, jobs: Sequence[Job]) -> None:
        try:
            with collected_unseen() as found:
                results = group([job.part for job in jobs])
        except Exception as error:
            if len(jobs) == 1:
                tell(jobs, [error], are_errors=True)
                return
            half = len(jobs) // 2
            self._score(group, jobs[:half])
            self._score(group, jobs[half:])
        else:
            self.unseen(found.counts)
            tell(jobs, results)


def tell(jobs: Sequence[Job], results: Sequence[Any], *, are_errors: bool = False) -> None:
    """Hand results to those who wait for them, all those of a loop in one go."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for job, result in zip(jobs, results, strict=True):
        if not isinstance(job.future, Future):
            loops.setdefault(job.future.get_loop(), []).append((job.future, result))
        elif are_errors:
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
    for loop, pairs in loops.items():
        with suppress(RuntimeError):  # the loop has ended, and with it those who waited
            loop.call_soon_threadsafe(_told, pairs, are_errors)


def _told(pairs: Sequence[tuple["asyncio.Future[Any]", Any]], are_errors: bool) -> None:
    for future, result in pairs:
        if not future.done():  # not given up meanwhile
            (future.set_exception if are_errors else future.set_result)(result)
