"""Whether loops run as machine code: with numba installed, once enough rows have come."""

from importlib import import_module
from typing import Any

# Starting numba takes as long as it saves on so many rows. A call on fewer is quick anyway.
ROWS_BEFORE, FEWEST_ROWS = 50_000, 256


class Starter:
    """Counts rows until the compiled loops are worth their start, then holds them.

    They are all compiled before the first is called. A process that is forked while another thread
    compiles has the count and not the loops: it stays without, and waits for no lock of numba's.
    Threads that count at the same time may lose a few rows.
    """

    def __init__(self) -> None:
        self.loops: Any = None
        self._rows = 0

    def count(self, n_rows: int) -> None:
        """Rows that a call is about to score."""
        if n_rows < FEWEST_ROWS or self._rows >= ROWS_BEFORE:
            return
        self._rows += n_rows
        if self._rows >= ROWS_BEFORE:
            self.loops = loaded()


def loaded() -> Any:
    """The compiled loops; None where numba is missing, or does not go with the numpy there is."""
    try:
        loops = import_module("locuscore._shared.loops")
    except ImportError:
        return None
    for cache in (True, False):
        try:
            return loops.compiled(cache=cache)
        except Exception:
            continue  # a damaged file of the cache, or a full disk, may raise anything
    return None


_starter = Starter()


def machine_code(n_rows: int = 0) -> Any:
    """The loops of `loops`, compiled; None without numba, and until enough rows have come.

    `n_rows` are those that a call is about to score; a part of such a call asks without.
    """
    _starter.count(n_rows)
    return _starter.loops
