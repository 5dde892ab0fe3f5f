"""Loads an archive again, one load at a time, in a thread of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from locuscore.service._model import Model


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
