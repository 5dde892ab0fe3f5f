"""Reading half of the ledger: opens it and answers from pages and sums."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import select

from locuscore._protocols import IntArray
from locuscore.watch._ledger import evidence, read, samples
from locuscore.watch._ledger.columns import Columns
from locuscore.watch._ledger.connection import Database
from locuscore.watch._ledger.deployments import Deployed, Deployment, all_deployed
from locuscore.watch._ledger.migrations import prepare
from locuscore.watch._ledger.tables import DEPLOYMENTS, LEDGER


class LedgerReader:
    """What can be asked of a ledger."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self._database = Database(url, clock)
        prepare(self._database)
        with self._database.reading() as connection:
            self.secret = bytes.fromhex(connection.scalar(select(LEDGER.c.secret)) or "")
            self._deployed = {d.deployment.digest: d for d in all_deployed(connection)}

    def __repr__(self) -> str:
        return f"Ledger({self._database!r})"

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._database.close()

    def now(self) -> int:
        """Microseconds since 1970 by the clock that stamps the rows."""
        with self._database.reading() as connection:
            last = connection.scalar(select(LEDGER.c.last_written_at)) or 0
            return max(self._database.now(connection), last)

    @property
    def deployments(self) -> list[Deployed]:
        """Every deployment, the first one first."""
        with self._database.reading() as connection:
            return all_deployed(connection)

    def untested(self, but: str) -> list[Deployment]:
        """Deployments, all but one, that have rows after their cursor."""
        with self._database.reading() as connection:
            return [
                one.deployment
                for one in all_deployed(connection, DEPLOYMENTS.c.cursor < DEPLOYMENTS.c.last_seq)
                if one.deployment.digest != but
            ]

    def matured(
        self,
        digest: str,
        *,
        after_seq: int,
        written_before: int,
        limit: int = 100_000,
        only_drawn: bool = False,
        columns: Sequence[str] = read.USUAL,
    ) -> Columns:
        """Rows after a number that were written before a time, in order, with their labels now.

        The loss is NaN where there is no label. Fewer than `limit` rows: these are all.
        """
        known = self._known(digest)
        with self._database.reading() as connection:
            last = read.last_written(connection, after_seq, written_before, known.number)
            return read.rows(
                connection,
                known.number,
                len(known.deployment.alphas),
                after_seq,
                last,
                limit,
                columns,
                only_drawn,
            )

    def with_numbers(self, digest: str, seqs: IntArray, columns: Sequence[str]) -> Columns:
        """Rows with some ascending numbers, in order, without labels."""
        known = self._known(digest)
        with self._database.reading() as connection:
            n_alphas = len(known.deployment.alphas)
            return samples.with_numbers(connection, known.number, n_alphas, seqs, columns)

    def latest_drawn(
        self, digest: str, *, up_to_seq: int, limit: int, columns: Sequence[str]
    ) -> Columns:
        """The last so many drawn rows up to a number, in order, with their labels now."""
        known = self._known(digest)
        with self._database.reading() as connection:
            n_alphas = len(known.deployment.alphas)
            return samples.latest_drawn(
                connection, known.number, n_alphas, up_to_seq, limit, columns
            )

    def written_after(self, after_seq: int) -> int | None:
        """When the first row after a number was written; None if there is none."""
        with self._database.reading() as connection:
            return samples.next_written(connection, after_seq)

    def last_number(self, written_before: int, after_seq: int = 0) -> int:
        """The last number up to which all rows were written before a time."""
        with self._database.reading() as connection:
            return read.last_written(connection, after_seq, written_before)

    def evidence(self, digest: str) -> evidence.SavedEvidence:
        """States of all claims, with the cursor and the version to save them by."""
        with self._database.reading() as connection:
            return evidence.load(connection, self._known(digest).number)

    def daily(self, digest: str, since_day: int | None = None) -> Columns:
        """Sums per day (since 1970), group, accepted, drawn and measure; see `sums`."""
        with self._database.reading() as connection:
            return read.daily(connection, self._known(digest).number, since_day)

    def totals(self, digest: str) -> Columns:
        """Sums of all days and groups per accepted, drawn and measure."""
        with self._database.reading() as connection:
            return read.totals(connection, self._known(digest).number)

    def unpriced(
        self, digest: str, limit: int = 10_000, *, after: tuple[int, int] = (0, 0)
    ) -> Columns:
        """Labels with y alone, beside what was predicted: seq, number, id, y, prediction.

        `after` is the seq and the number of the last one that was read.
        """
        with self._database.reading() as connection:
            return read.unpriced(connection, self._known(digest).number, limit, after)

    def waiting_labels(self) -> int:
        """How many labels wait for their decision."""
        with self._database.reading() as connection:
            return read.waiting(connection)

    def events(self, digest: str | None = None) -> list[dict[str, Any]]:
        """Return events of a deployment and of the ledger, or all of them, the oldest first."""
        with self._database.reading() as connection:
            return read.events(connection, None if digest is None else self._known(digest).number)

    def _known(self, digest: str) -> Deployed:
        if digest not in self._deployed:
            self._deployed = {d.deployment.digest: d for d in self.deployments}
        if digest not in self._deployed:
            raise ValueError(
                f"the ledger knows no deployment {digest[:12]!r}; call deploy with it first."
            )
        return self._deployed[digest]
