"""Loads an archive again, one load at a time, in a thread of its own, and compares it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from locuscore import ArchiveError
from locuscore.service._model import Answer, Model, columns_of


class Reloads:
    """At most one load runs and one waits; all who ask while one runs share the next.

    The next load begins after they asked, so it sees the file they asked for. Loads have a thread
    of their own, so that neither the event loop nor the threads that parse large bodies wait.
    """

    def __init__(self, load: Callable[[], Model]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._next: Future[Model] | None = None
        self._is_running = False

    def ask(self) -> "Future[Model]":
        """Return the model of a load that begins from now on."""
        with self._lock:
            if self._next is None:
                self._next = Future()
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="locuscore-reload", daemon=True).start()
            return self._next

    def _run(self) -> None:
        while (asked := self._taken()) is not None:
            asked.set_running_or_notify_cancel()
            try:
                asked.set_result(self._load())
            except BaseException as error:
                asked.set_exception(error)

    def _taken(self) -> "Future[Model] | None":
        with self._lock:
            asked, self._next = self._next, None
            self._is_running = asked is not None
            return asked


@dataclass(frozen=True)
class Comparison:
    """How a new model differs from the one in use."""

    schema: str  # what is different about the rows it takes; empty if nothing is
    words: str

    @property
    def is_same_schema(self) -> bool:
        """Whether it takes the same rows."""
        return not self.schema


def compare(old: Model, new: Model) -> Comparison:
    """Compare the rows that two models take, and what they say of the old one's probe.

    Raises `ArchiveError` if the new model cannot score its own probe: it is not fit for use.
    """
    schema = _schema_difference(old, new)
    try:
        new.score_probe([None])
        if schema or old.scorer.asks or new.scorer.asks:
            return Comparison(schema, "its probe was scored")
        before, after = (columns_of(model.scorer(old.probe)) for model in (old, new))
    except Exception as error:  # a predictor may raise anything
        raise ArchiveError(f"its probe cannot be scored ({type(error).__name__}).") from error
    return Comparison(schema, f"on the probe {_changes(before, after)}")


def _schema_difference(old: Model, new: Model) -> str:
    a, b = old.scorer.schema, new.scorer.schema
    if a.kind != b.kind:
        return f"{b.kind} instead of {a.kind}."
    was = dict(zip(map(str, a.names), a.kinds, strict=True))
    now = dict(zip(map(str, b.names), b.kinds, strict=True))
    if was == now and list(was) == list(now):
        return ""
    parts = {
        "missing": sorted(was.keys() - now.keys()),
        "new": sorted(now.keys() - was.keys()),
        "of another kind": sorted(
            name for name in was.keys() & now.keys() if was[name] != now[name]
        ),
    }
    found = "; ".join(f"{what}: {names[:10]}" for what, names in parts.items() if names)
    return f"columns {found or 'in another order'}."


def _changes(before: Answer, after: Answer) -> str:
    """How the answers to the same rows differ, in words for the log: no values of rows."""
    told = []
    for name in before.keys() & after.keys():
        a, b = before[name], after[name]
        is_number = a.dtype.kind == "f" and b.dtype.kind == "f"
        same = np.isclose(a, b, rtol=1e-9, atol=0, equal_nan=True) if is_number else a == b
        if not np.all(same):
            told.append(f"{name} differs in {np.sum(~same)} of {len(a)} rows")
    return "; ".join(sorted(told)) or "it answers as the model before"
