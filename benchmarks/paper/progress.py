"""Live progress with the remaining time: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from benchmarks.paper.costs import Costs

if TYPE_CHECKING:
    from benchmarks.paper.run import Job

SECONDS_BETWEEN_LINES = 60


class Progress:
    """Counts finished tasks by their estimated cost, and corrects the estimate as it goes."""

    def __init__(self, jobs: list["Job"], costs: Costs, n_jobs: int) -> None:
        self.costs, self.n_jobs = costs, n_jobs
        self.total = sum(costs.job(job) for job in jobs)
        self.n_tasks, self.n_done, self.done = len(jobs), 0, 0.0
        self.start = self.last = time.monotonic()
        self.seen: dict[Job, float] = {}  # when a running task was first seen
        self.bar, self.task = _bar(self.total)

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line([])
        if self.bar is not None:
            self.bar.stop()

    def finished(self, job: "Job") -> None:
        self.done += self.costs.job(job)
        self.n_done += 1
        self.seen.pop(job, None)

    def update(self, running: Iterable["Job"]) -> None:
        now, running = time.monotonic(), list(running)
        for job in running:
            self.seen.setdefault(job, now)
        if self.bar is not None:
            names = ", ".join(f"{job.dataset} {job.seed}" for job in running)
            text = f"{self.n_done}/{self.n_tasks} tasks; {names}; {self._remaining()}"
            self.bar.update(self.task, completed=self.done, description=text)
        elif now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            self._line(running)

    def _line(self, running: Iterable["Job"]) -> None:
        names = ", ".join(f"{job.dataset} {job.seed}" for job in running)
        text = f"{self.n_done} of {self.n_tasks} tasks, {self._remaining()}"
        print(f"{text}; running {names}" if names else text, flush=True)

    def _remaining(self) -> str:
        elapsed = time.monotonic() - self.start
        # Until a tenth is done, the estimate knows more than the clock.
        trust = min(1.0, 10 * self.done / max(self.total, 1e-9))
        pace = elapsed / self.done if self.done else 1.0 / self.n_jobs
        pace = trust * pace + (1 - trust) / self.n_jobs
        # A task under way counts for the time it has taken, but never as finished.
        under_way = sum(
            min(time.monotonic() - since, 0.9 * self.costs.job(job))
            for job, since in self.seen.items()
        )
        left = max(self.total - self.done - under_way, 0.0) * pace
        return f"{elapsed / 60:.1f} min gone, about {left / 60:.1f} min left"


def _bar(total: float) -> tuple[Any, Any]:
    if not sys.stdout.isatty():
        return None, None
    try:
        from rich.progress import Progress as Bar  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return None, None
    bar = Bar()
    return bar, bar.add_task("starting", total=total)
