"""Watch: decisions are kept, labels join them when they come, and promises are tested."""

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from locuscore import AnytimeCertificate, Scorer
from locuscore._protocols import BoolArray, IntArray, Rows
from locuscore._shared.frames import as_batch, columns_like
from locuscore._shared.progress import now, spinner
from locuscore.watch._advance import advance, advance_others
from locuscore.watch._claim_test import ClaimTest
from locuscore.watch._claims import Claim, claims_of, group_text
from locuscore.watch._drift import drift_of
from locuscore.watch._evidence.audit import drawn, draws
from locuscore.watch._ledger import (
    Appended,
    Deployment,
    Labelled,
    Ledger,
)
from locuscore.watch._ledger.columns import texts
from locuscore.watch._ledger.tables import LONGEST_ID
from locuscore.watch._loosen import loosened, scored_by
from locuscore.watch._page import page_html
from locuscore.watch._prices import write_prices
from locuscore.watch._reference import reference_of
from locuscore.watch._settings import WatchSettings
from locuscore.watch._status import Status, status_of
from locuscore.watch._what_if import what_if

ID_BYTES = 16
ID, AUDIT = "id", "audit"
ORDER = b"order"  # of rows that were written at the same time


class Watch:
    """Keeps the decisions of a scorer in a ledger, and says whether its promises are kept.

    While they are, the chance of ever raising an alarm is at most `delta`, however often one looks.
    The settings are those of `WatchSettings`; they are fixed at the first decision.

    Parameters
    ----------
    store
        A file of SQLite, or a URL: ``sqlite:///decisions.db``, ``postgresql://user@host/name``.
    scorer
        The scorer that decides. None to look at a ledger, or to add losses to it; then the latest
        deployment is meant.
    audit, audit_flagged, age, delta, run_length
        See `WatchSettings`.
    keep_signals
        Whether decisions keep the signals of their rows, by which drift can be seen before labels
        come. They tell much about the rows.
    clock
        Microseconds since 1970, instead of the clock of the database, to replay the past.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.watch import Watch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(3000, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=3000)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X[:1000], y[:1000])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> watch = Watch(Path(mkdtemp(), "decisions.db"), scorer, age=timedelta(0))
    >>> decided = watch.score(X[1000:])
    >>> _ = watch.label(decided["id"], y[1000:])
    >>> watch.status().alarm
    False
    """

    def __init__(
        self,
        store: str | Path,
        scorer: Scorer | None = None,
        *,
        audit: float = 1.0,
        audit_flagged: float | None = None,
        age: timedelta = timedelta(days=7),
        delta: float = 0.05,
        run_length: float = 50_000.0,
        keep_signals: bool = False,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.ledger = Ledger(_url(store), clock=clock)
        self.keep_signals = keep_signals
        self.scorer = scorer
        if scorer is None:
            self._read_latest()
            return
        self.settings = WatchSettings(audit, audit_flagged, age, delta, run_length)
        known = {one.deployment.digest for one in self.ledger.deployments}
        self._take(scorer, is_new=scorer.digest not in known)
        self.ledger.deploy(self.deployment)

    @classmethod
    def open(
        cls,
        store: str | Path,
        scorer: Scorer,
        *,
        keep_signals: bool = False,
        clock: Callable[[], int] | None = None,
        **given: Any,
    ) -> Self:
        """Open a ledger with the settings that it keeps for this scorer.

        Those in `given` must be the same; for a scorer that is new they are the settings, and the
        others have their defaults.
        """
        ledger = Ledger(_url(store), clock=clock)
        try:
            known = {one.deployment.digest: one.deployment for one in ledger.deployments}
        finally:
            ledger.close()
        kept = known.get(scorer.digest)
        settings = {} if kept is None else vars(WatchSettings.from_dict(kept.settings)) | given
        return cls(store, scorer, keep_signals=keep_signals, clock=clock, **(settings or given))

    def followed_by(self, scorer: Scorer) -> Self:
        """A watch of the scorer that replaces this one, with the same ledger and settings.

        The ledger does not know it before `Ledger.deploy` of its `deployment`.
        """
        other = copy(self)
        other._take(scorer, is_new=True)
        return other

    def _take(self, scorer: Scorer, *, is_new: bool) -> None:
        """Become the watch of a scorer; the ledger, which may be down, is not asked."""
        self.scorer = scorer
        self.claims = _testable(claims_of(scorer), self.settings)
        self.alphas = tuple(scorer.alphas)
        self.digest = scorer.digest
        rule = scorer.rule
        facts: dict[str, Any] = {"card": scorer.card, "unit": scorer.locus.unit_}
        facts["loss"] = scorer.locus.loss_.name
        facts["valid_until"] = "" if rule is None else rule.valid_until
        facts["scored_by"] = scored_by(scorer)
        if is_new:
            facts["drift"] = reference_of(scorer, keep_signals=self.keep_signals)
        taus = {claim.tau for claim in self.claims if claim.tau is not None}
        self.deployment = Deployment(
            self.digest,
            self.alphas,
            next(iter(taus)) if len(taus) == 1 else None,
            [claim.to_dict() for claim in self.claims],
            self.settings.to_dict(),
            facts,
        )

    def _read_latest(self) -> None:
        known = self.ledger.deployments
        if not known:
            raise ValueError(
                f"{self.ledger!r} has no decisions yet; open it with the scorer that decides, as "
                "in Watch(store, scorer)."
            )
        found = known[-1].deployment
        self.settings = WatchSettings.from_dict(found.settings)
        self.claims = [Claim.from_dict(claim) for claim in found.claims]
        self.alphas, self.digest, self.deployment = tuple(found.alphas), found.digest, found

    def __repr__(self) -> str:
        return f"Watch({self.ledger!r}, deployment={self.digest!r})"

    def close(self) -> None:
        """Close all connections."""
        self.ledger.close()

    # Decisions and labels

    def score(
        self,
        X: Rows,
        ids: ArrayLike | Sequence[str] | None = None,
        *,
        groups: Any = None,
        weights: Any = None,
        clusters: Any = None,
        times: Any = None,
    ) -> Any:
        """Score rows and keep the decisions.

        Returns
        -------
        table
            The columns of the scorer, the ``id`` of each row, and ``audit``: whether its label is
            asked for.
        """
        scorer = self._scorer()
        given, one_batch = as_batch(X)
        told = {"groups": groups, "weights": weights}
        asked = {name: told[name] for name in scorer.asks}
        scored = _arrays(scorer(given, **asked))
        found = scorer.groups_of(given, groups)
        columns = self.columns(
            scored,
            ids,
            groups=groups if found is None else found,
            clusters=clusters,
            times=times,
            signals=scorer.locus.row_signals(given) if self.keep_signals else None,
        )
        self.append(columns)
        answer = scored | {ID: np.array(columns["id"], dtype=object)}
        answer[AUDIT] = self.asks_for_label(columns)
        return columns_like(given, answer, one_batch=one_batch)

    def log(
        self,
        scored: Any,
        ids: ArrayLike | Sequence[str] | None = None,
        *,
        groups: Any = None,
        clusters: Any = None,
        times: Any = None,
    ) -> Appended:
        """Keep decisions that the scorer made elsewhere: a table with its columns.

        `ids` are those of the rows, or the table's column ``id``; without either they are made
        here. Writing the same ids again changes nothing.
        """
        table = _arrays(scored)
        if ids is None and ID in table:
            ids = table[ID].tolist()
        return self.append(self.columns(table, ids, groups=groups, clusters=clusters, times=times))

    def columns(
        self,
        scored: Mapping[str, np.ndarray],
        ids: ArrayLike | Sequence[str] | None = None,
        *,
        groups: Any = None,
        clusters: Any = None,
        times: Any = None,
        signals: Any = None,
    ) -> dict[str, Any]:
        """What the ledger keeps of scored rows, with the draw of their labels."""
        roles: dict[str, list[str]] = {}
        for one in self._scorer().columns:
            roles.setdefault(one.role, []).append(one.name)
        missing = [name for names in roles.values() for name in names if name not in scored]
        if missing:
            raise ValueError(
                f"the table lacks the columns {missing} of this scorer; it has {sorted(scored)}."
            )
        n = len(scored[roles["bound"][0]])
        names = made_ids(n) if ids is None else texts(_as_texts(ids), ID, LONGEST_ID)
        flagged = np.zeros(n, dtype=bool)
        if "flag" in roles:
            flagged = np.asarray(scored[roles["flag"][0]], dtype=bool)
        chance = np.where(flagged, self.settings.chance_flagged, self.settings.audit)
        if len(names) != n:
            raise ValueError(f"there are {len(names)} ids for {n} rows; give one for each.")
        if groups is None and any(claim.group is not None for claim in self.claims):
            # Without them they would be tested as rows of other groups.
            raise ValueError(
                "this scorer makes promises for groups; pass groups, one for each row."
            )
        return {
            "id": names,
            "time": None if times is None else _times(times),
            "prediction": _one_answer(scored, roles.get("prediction", [])),
            "bounds": np.column_stack([scored[name] for name in roles["bound"]]),
            "score": scored[roles["score"][0]] if "score" in roles else None,
            "flagged": flagged,
            "group_name": None if groups is None else [_group(one) for one in groups],
            "cluster": None if clusters is None else [_group(one) for one in clusters],
            "chance": chance,
            "drawn": drawn(names, chance, self.ledger.secret),
            "signals": signals,
        }

    def append(self, columns: Mapping[str, Any]) -> Appended:
        """Write what `columns` gave, by time, and at the same time in random order.

        A file may be sorted, as by region. Tests read rows in the order of writing, and rows that
        are missed together would look like a promise that broke. Clusters stay together.
        """
        kept = {name: value for name, value in columns.items() if value is not None}
        if {len(value) for value in kept.values()} != {len(kept["id"])}:
            return self.ledger.append_decisions(self.digest, kept)  # it says what is wrong
        clusters = kept.get("cluster", [None] * len(kept["id"]))
        told = [c or i for c, i in zip(clusters, kept["id"], strict=True)]
        at_random = draws(told, self.ledger.secret, ORDER)
        order = np.lexsort((at_random, kept.get("time", np.zeros(len(told)))))
        sorted_ = {name: _in_order(value, order) for name, value in kept.items()}
        return self.ledger.append_decisions(self.digest, sorted_)

    def asks_for_label(self, columns: Mapping[str, Any]) -> BoolArray:
        """Of which rows the label is asked for: those drawn, if anybody labels such rows."""
        unknown = columns["flagged"] & (self.settings.audit_flagged is None)
        return np.asarray(columns["drawn"] & ~unknown)

    def label(
        self,
        ids: ArrayLike | Sequence[str],
        y: Any = None,
        *,
        losses: ArrayLike | None = None,
        times: Any = None,
        source: str = "label",
    ) -> Labelled:
        """Add labels: true values y, or losses.

        A label may come before its decision, twice, or again with a correction; then the latest
        counts in estimates, and all of them are kept. Losses of y need the scorer.
        """
        if (y is None) == (losses is None):
            raise ValueError("a label is the true value y or the loss; pass one of them.")
        when, names = None if times is None else _times(times), _as_texts(ids)
        self._check_numbers(names, y)
        found = self.ledger.append_labels(names, y=y, losses=losses, times=when, source=source)
        self._price()
        return found

    def _check_numbers(self, ids: Sequence[str], y: Any) -> None:
        """Refuse texts where the loss needs numbers, unless an earlier scorer had another loss."""
        if y is None or self.scorer is None or self.scorer.locus.loss_.reads != "numbers":
            return
        given = y.tolist() if hasattr(y, "tolist") else list(y)
        wrong = [k for k, one in enumerate(given) if isinstance(one, str)]
        loss = self.scorer.locus.loss_.name
        known = self.ledger.deployments if wrong else ()
        if wrong and all(one.deployment.card.get("loss") == loss for one in known):
            raise ValueError(
                f"y of {ids[wrong[0]]!r:.60} is {given[wrong[0]]!r:.60}, and the loss {loss!r} "
                f"needs numbers; {len(wrong)} of {len(given)} labels are texts. Leave these out."
            )

    def _price(self) -> int:
        """Work out the losses of labels that have y alone; how many of this deployment are left.

        Labels of earlier deployments come while the present one decides, so theirs are worked out
        too if they have the same loss.
        """
        if self.scorer is not None:
            loss = self.scorer.locus.loss_.name
            for known in self.ledger.deployments:
                if known.deployment.card.get("loss") == loss:
                    write_prices(self.ledger, known.deployment.digest, self.scorer.locus)
        return len(self.ledger.unpriced(self.digest)["number"])

    # What is known

    def status(self) -> Status:
        """Test all rows that have reached their age, each once, and say how things stand."""
        with spinner("testing the promises"):
            unpriced = self._price()
            advance_others(self.ledger, self.digest)
            tests = self.advance()
            now("comparing scores without labels")
            drift = drift_of(self)
            now("trying a recalibration")
            return status_of(self, tests, unpriced, drift, what_if(self, tests))

    def advance(self) -> dict[str, ClaimTest]:
        """Hand matured rows to the tests, and save these; two calls at once never repeat a row."""
        return advance(self.ledger, self.deployment)

    def loosen(self, certificate: AnytimeCertificate) -> AnytimeCertificate:
        """The certificate after all rows that have reached their age since it was last here.

        It reads the rows that were drawn for a label, with their chances, of this deployment and of
        all others that score alike. A row without a label by then counts as bad. Keep what is
        returned, as by its `state`; a new `Scorer` with its `rule` is the next deployment.
        """
        self._price()
        return loosened(self.ledger, certificate, scored_by(self._scorer()))

    def report(self, path: str | Path) -> Path:
        """Write the page of the watch: one file of HTML that needs nothing else."""
        target = Path(path)
        target.write_text(page_html(self.status().to_dict()), encoding="utf-8")
        return target

    def export(self, folder: str | Path) -> list[Path]:
        """Write all decisions, labels, sums and events as Parquet files."""
        return self.ledger.export(folder)

    def forget(self, before: datetime, *, untested_too: bool = False) -> int:
        """Delete decisions made before a time, and their labels; sums and alarms stay."""
        if before.tzinfo is None:
            raise ValueError("give the time with its zone, as in datetime(2027, 1, 1, tzinfo=UTC).")
        microseconds = int(before.astimezone(UTC).timestamp() * 1_000_000)
        return self.ledger.forget(microseconds, untested_too=untested_too)

    def _scorer(self) -> Scorer:
        if self.scorer is None:
            raise ValueError(
                "decisions are kept with the scorer that made them; open the ledger as "
                "Watch(store, scorer)."
            )
        return self.scorer


def _url(store: str | Path) -> str:
    text = str(store)
    return text if "://" in text else f"sqlite:///{text}"


def _testable(claims: Sequence[Claim], settings: WatchSettings) -> list[Claim]:
    """The claims; those about all rows are not tested if flagged rows have no known chance."""
    why_not = (
        "it is about all rows, and the chance with which a flagged row gets a label is not known; "
        "set audit_flagged"
    )
    found = [
        replace(claim, why_not=why_not, share=0.0)
        if claim.is_tested and claim.labels == "all" and settings.audit_flagged is None
        else claim
        for claim in claims
    ]
    whole = sum(claim.share for claim in found)
    return [replace(claim, share=claim.share / whole) if whole else claim for claim in found]


def made_ids(n: int) -> list[str]:
    """New ids, which no two ledgers share."""
    drawn_at_once = os.urandom(ID_BYTES * n).hex()
    return [drawn_at_once[k : k + 2 * ID_BYTES] for k in range(0, 2 * ID_BYTES * n, 2 * ID_BYTES)]


def _as_texts(ids: Any) -> list[str]:
    """Ids as texts, which the draws of audits need; whole numbers are written."""
    found = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    for one in found:
        if not isinstance(one, str | int | np.integer) or isinstance(one, bool):
            raise ValueError(f"id must be a text or an integer; got {type(one).__name__}.")
    return [str(one) for one in found]


def _in_order(values: Any, order: IntArray) -> Any:
    return values[order] if isinstance(values, np.ndarray) else [values[i] for i in order]


def _group(label: Any) -> str | None:
    is_missing = label is None or label != label
    return None if is_missing else group_text(label)


def _times(values: Any) -> np.ndarray:
    """Times as microseconds since 1970 in UTC; datetimes without a zone are taken as UTC."""
    if isinstance(values, datetime):
        values = [values]
    listed = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if listed.dtype == object:
        whole = [one.astimezone(UTC).replace(tzinfo=None) if one.tzinfo else one for one in listed]
        listed = np.array(whole, dtype="datetime64[us]")
    return listed


def _one_answer(scored: Mapping[str, np.ndarray], names: Sequence[str]) -> Any:
    """Predictions: one for each row, or a list of several outputs."""
    if not names:
        return None
    if len(names) == 1:
        return scored[names[0]]
    return [list(row) for row in zip(*(scored[name].tolist() for name in names), strict=True)]


def _arrays(table: Any) -> dict[str, np.ndarray]:
    """Columns of a table by name, as arrays."""
    if isinstance(table, Mapping):
        return {str(name): np.asarray(values) for name, values in table.items()}
    frame: nw.DataFrame[Any] = nw.from_native(as_batch(table)[0], eager_only=True)
    return {name: frame[name].to_numpy() for name in frame.columns}
