"""Decisions of a running service: on local disk at once, in the ledger soon."""

import itertools
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from locuscore import Scorer
from locuscore._protocols import Rows
from locuscore._shared.shown import cut
from locuscore.watch._ledger import Deployment, Labelled, Ledger, LedgerDownError, LedgerError
from locuscore.watch._page import page_html
from locuscore.watch._settings import WatchSettings
from locuscore.watch._spool import Spool, SpoolError, SpoolInUseError
from locuscore.watch._status import Status
from locuscore.watch._watch import AUDIT, ID, Watch, made_ids

LOG = logging.getLogger("locuscore.watch")
RETRY_SECONDS = 5.0
MOST_KNOWN = 4  # scorers that requests under way may still have been scored by
Record = Mapping[str, Any]


class Recorder:
    """A `Watch` for a service: nobody waits for the database.

    A decision is kept once `keep` returns: the process may be killed then. A thread hands the
    decisions on to the ledger. Each process takes a folder of its own below `folder`, and hands on
    what others left there when they ended.

    Parameters
    ----------
    store, scorer, keep_signals
        As for `Watch`.
    folder
        Where decisions wait for the ledger; made if it is missing.
    is_optional
        Whether a decision may be made although it cannot be kept; then it is counted in
        `unlogged`. By default `keep` raises `SpoolError`.
    max_bytes
        Most bytes that wait for the ledger, in each process.
    drain_seconds
        How often decisions are handed on.
    settings
        As for `Watch`; those left out are as the ledger has them for this scorer.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.watch import Recorder
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> folder = Path(mkdtemp())
    >>> recorder = Recorder(folder / "decisions.db", scorer, folder / "spool")
    >>> recorder.close()
    """

    def __init__(
        self,
        store: str | Path,
        scorer: Scorer,
        folder: str | Path,
        *,
        is_optional: bool = False,
        max_bytes: int = 1 << 30,
        drain_seconds: float = 1.0,
        keep_signals: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.is_optional, self.unlogged = is_optional, 0
        self._store, self._folder = store, Path(folder)
        self._told = {**(settings or {}), "keep_signals": keep_signals}
        self._max_bytes, self._drain_seconds = max_bytes, drain_seconds
        self._guard = threading.Lock()
        self._pid: int | None = None
        self._scorer, self._digest = scorer, scorer.digest
        self._watches: dict[str, Watch] = {}
        self._refused: set[str] = set()
        self._spools: list[Spool] = []
        self._stop = threading.Event()
        self._check()

    def __repr__(self) -> str:
        # Not the store: its address may hold a password.
        waits = cut(str(self._folder), 100)
        return f"Recorder(deployment={self._digest!r}, decisions wait in {waits!r})"

    def _check(self) -> None:
        """Find out now whether ledger and folder can be used; nothing of it survives a fork."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            Watch.open(self._store, self._scorer, **self._told).close()
        except LedgerDownError as error:
            if not self.is_optional:
                raise
            LOG.warning("decisions are not kept until the ledger can be reached: %s", error)

    def start(self) -> None:
        """Open ledger and spool, if this process has not done so yet."""
        if self._pid == os.getpid():
            return
        with self._guard:
            if self._pid == os.getpid():
                return
            self._watches, self._spools, self._stop = {}, [], threading.Event()
            self._pid = os.getpid()
            try:
                self._connect()
            except LedgerDownError:
                if not self.is_optional:
                    self._pid = None
                    raise
                threading.Thread(
                    target=self._try_again, daemon=True, name="locuscore-ledger"
                ).start()

    def _connect(self) -> None:
        watch = Watch.open(self._store, self._scorer, **self._told)
        self._ledger: Ledger = watch.ledger
        self._spools = [self._own_spool(), *self._left_behind()]
        self._watches = {watch.digest: watch}
        self._digest = watch.digest

    def _try_again(self) -> None:
        while not self._stop.wait(RETRY_SECONDS):
            try:
                with self._guard:
                    return self._connect()
            except LedgerDownError:
                continue
            except Exception as error:
                LOG.error("decisions are not kept: %s", error)
                return None
        return None

    def _spool(self, number: int) -> Spool:
        return Spool(
            self._folder / str(number),
            self._send,
            max_bytes=self._max_bytes,
            drain_seconds=self._drain_seconds,
        )

    def _own_spool(self) -> Spool:
        for number in itertools.count():
            try:
                return self._spool(number)
            except SpoolInUseError:
                continue
        raise AssertionError

    def _left_behind(self) -> list[Spool]:
        """Spools of processes that have ended before the ledger had all of them."""
        found = []
        for path in sorted(self._folder.glob("*/*.spool")):
            if path.parent.name.isdecimal():
                try:
                    found.append(self._spool(int(path.parent.name)))
                except SpoolInUseError:
                    continue
        return found

    # Decisions

    def deploy(self, scorer: Scorer) -> None:
        """From now on, this scorer decides; the ledger is told now, or when it can be reached.

        Raises `LedgerError`, and changes nothing, if the ledger knows it with other settings.
        """
        self.start()
        with self._guard:
            if not self._watches:
                self._scorer, self._digest = scorer, scorer.digest
                return
            before = self._watches[self._digest]
            after = before.followed_by(scorer)
            if after.digest != before.digest:
                record = {"digest": after.digest, "deployment": asdict(after.deployment)}
                record["before"] = before.digest
                try:
                    self._deploy_now(record)
                except LedgerDownError:
                    self._spools[0].append(record)
            known = {**self._watches, after.digest: after}
            self._watches = dict(list(known.items())[-MOST_KNOWN:])
            self._scorer, self._digest = scorer, after.digest

    def keep(
        self, digest: str, rows: Rows, scored: Mapping[str, np.ndarray], ids: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Keep decisions of the scorer with this digest; see `new_ids` for rows without an id.

        Returns
        -------
        columns
            The ``id`` of each row, and ``audit``: whether its label is asked for.
        """
        self.start()
        watch = self._watches.get(digest)
        if watch is None or watch.scorer is None:
            if not self.is_optional:
                raise SpoolError(f"the scorer {digest} was replaced too long ago; score again.")
            return self._not_kept(ids)
        found = watch.columns(
            scored,
            ids,
            groups=watch.scorer.groups_of(rows, None),
            signals=watch.scorer.locus.row_signals(rows) if watch.keep_signals else None,
        )
        found["time"] = [time.time_ns() // 1000] * len(ids)
        kept = {name: value for name, value in found.items() if value is not None}
        try:
            if len(ids):
                self._spools[0].append({"digest": digest, "columns": kept})
        except SpoolError:
            if not self.is_optional:
                raise
            return self._not_kept(ids)
        return {ID: _objects(ids), AUDIT: watch.asks_for_label(found)}

    def _not_kept(self, ids: Sequence[str]) -> dict[str, np.ndarray]:
        self.unlogged += len(ids)
        return {ID: _objects(ids), AUDIT: np.zeros(len(ids), dtype=bool)}

    @staticmethod
    def new_ids(n: int) -> list[str]:
        """Ids for rows that have none."""
        return made_ids(n)

    def _send(self, records: Sequence[Record]) -> None:
        """Hand records to the ledger, those with the same columns at once."""
        try:
            self._send_all(records)
        except (AttributeError, KeyError, TypeError) as error:
            # It would fail again and again, and hold up all that comes after it.
            raise ValueError(f"the record cannot be read: {error!r}") from None

    def _send_all(self, records: Sequence[Record]) -> None:
        for (digest, names), part in itertools.groupby(records, key=_sort_of):
            if digest in self._refused:
                raise ValueError(f"the ledger has other settings for the deployment {digest}.")
            if names is None:
                for record in part:
                    self._deploy_late(record)
                continue
            columns = [record["columns"] for record in part]
            joined = {name: [v for one in columns for v in one[name]] for name in names}
            self._ledger.append_decisions(digest, joined)

    def _deploy_now(self, record: Record) -> None:
        self._ledger.deploy(Deployment(**record["deployment"]))
        detail = {"before": record["before"]}
        self._ledger.add_event("reload", detail, record["digest"])

    def _deploy_late(self, record: Record) -> None:
        try:
            self._deploy_now(record)
        except LedgerDownError:
            raise
        except LedgerError as error:  # its settings: the ledger will never take it
            self._refused.add(record["digest"])
            raise ValueError(str(error)) from None

    # Labels, and what is known

    def label(
        self,
        ids: Sequence[str],
        y: Any = None,
        *,
        losses: Any = None,
        times: Any = None,
        source: str = "label",
    ) -> Labelled:
        """Write labels to the ledger, as `Watch.label`; raises `LedgerDownError` if it is down."""
        return self._watch().label(ids, y, losses=losses, times=times, source=source)

    def status(self) -> Status:
        """Status of the scorer that decides now; raises `LedgerDownError` if the ledger is down."""
        return self._watch().status()

    def _watch(self) -> Watch:
        self.start()
        watch = self._watches.get(self._digest)
        if watch is None:
            raise LedgerDownError("the ledger could not be reached yet.")
        return watch

    def page(self, status: Status) -> str:
        """The page of a status, as one text of HTML."""
        return page_html(status.to_dict())

    @property
    def settings(self) -> WatchSettings | None:
        """Settings of the present deployment; None before the ledger could be reached."""
        watch = self._watches.get(self._digest)
        return None if watch is None else watch.settings

    @property
    def waiting_bytes(self) -> int:
        """Bytes of decisions that the ledger does not have yet."""
        return sum(spool.waiting_bytes for spool in self._spools)

    @property
    def lag_seconds(self) -> float:
        """How long the oldest of them have waited."""
        return max((spool.lag_seconds for spool in self._spools), default=0.0)

    @property
    def refused(self) -> int:
        """Records that the ledger will never take; they are in a file beside the spool."""
        return sum(spool.refused for spool in self._spools)

    def drain(self) -> None:
        """Hand everything to the ledger now; raises `LedgerError` if it is down."""
        for spool in self._spools:
            spool.drain()

    def close(self) -> None:
        """Stop; what the ledger does not take now is handed on at the next start."""
        with self._guard:
            self._stop.set()
            if self._pid != os.getpid() or not self._spools:
                return
            for spool in self._spools:
                spool.close()
            self._ledger.close()
            self._pid, self._spools, self._watches = None, [], {}


def _sort_of(record: Record) -> tuple[str, tuple[str, ...] | None]:
    columns = record.get("columns")
    return record["digest"], None if columns is None else tuple(columns)


def _objects(values: Sequence[Any]) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
