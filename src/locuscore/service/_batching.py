"""Requests that wait are scored together, one batch at a time, in one thread."""

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from locuscore import collected_unseen


class OverloadError(Exception):
    """The queue is full."""


# Scores the parts of several requests, one result each; jobs with equal ones are scored together.
Group = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Job:
    """The rows of one request, and where its result goes."""

    group: Group
    part: Any
    n: int
    future: "Future[Any]" = field(default_factory=Future)


@dataclass(eq=False)
class Batcher:
    """A bounded queue of jobs, and the one thread that takes them off it in batches.

    A batch is what arrives within `gather_seconds` of its first job, up to `max_rows` rows; what
    arrives while it is scored makes up the next one. Jobs of one batch with the same group are
    scored in one call. If that call fails, its halves are scored separately, and so on, so that
    only the job at fault fails. A job that is cancelled while it waits is dropped.

    Queue and thread start with the first job of a process, because a fork does not copy threads: a
    server that makes the application and then forks its workers gets one in each.
    """

    gather_seconds: float
    max_rows: int
    max_waiting: int
    seen: Callable[[int], object] = lambda n: None
    unseen: Callable[[Mapping[Any, int]], object] = lambda counts: None
    _starting: threading.Lock = field(default_factory=threading.Lock, init=False)
    _pid: int | None = field(default=None, init=False)

    @property
    def is_alive(self) -> bool:
        """Whether jobs are scored; true before the first job, which starts the thread."""
        return not self._is_started or self._thread.is_alive()

    @property
    def _is_started(self) -> bool:
        return self._pid == os.getpid()

    def _start(self) -> None:
        with self._starting:
            if self._is_started:
                return
            self._jobs: queue.Queue[Job | None] = queue.Queue(self.max_waiting)
            self._thread = threading.Thread(target=self._run, name="locuscore-scoring", daemon=True)
            self._thread.start()
            self._pid = os.getpid()

    def submit(self, group: Group, part: Any, n: int) -> "Future[Any]":
        """Put n rows into the queue; raises `OverloadError` if it is full."""
        if not self._is_started:
            self._start()
        job = Job(group, part, n)
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise OverloadError from None
        return job.future

    def close(self) -> None:
        """Score what waits, then stop."""
        if self._is_started:
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            running = [job for job in batch if job.future.set_running_or_notify_cancel()]
            groups: dict[Group, list[Job]] = {}
            for job in running:
                groups.setdefault(job.group, []).append(job)
            for group, jobs in groups.items():
                self.seen(sum(job.n for job in jobs))
                self._score(group, jobs)

    def _next_batch(self) -> tuple[list[Job], bool]:
        """Wait for a job and gather others; also return whether more batches may follow."""
        first = self._jobs.get()
        if first is None:
            return [], False
        batch, rows = [first], first.n
        if rows < self.max_rows:
            time.sleep(self.gather_seconds)
        while rows < self.max_rows:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, False
            batch.append(job)
            rows += job.n
        return batch, True

    def _score(self, group: Group, jobs: Sequence[Job]) -> None:
        try:
            with collected_unseen() as found:
                results = group([job.part for job in jobs])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
                return
            half = len(jobs) // 2
            self._score(group, jobs[:half])
            self._score(group, jobs[half:])
        else:
            self.unseen(found.counts)
            for job, result in zip(jobs, results, strict=True):
                job.future.set_result(result)
