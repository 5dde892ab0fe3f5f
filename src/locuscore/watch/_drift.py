"""Without labels: do new rows look like those of the calibration?

Every decision, drawn for its label or not, has a score, or a bound where there is no rule. Its
course is tested against the scores of D2 by bets in both directions (`both_ways`), valid for ever.
Which rows are looked at is fixed before they come: all of them, or where a day has many, one of
every 2, 4, 8, ... consecutive ones, drawn by the secret of the ledger. A status reads the new ones
alone. Where signals are kept, the last week's are compared with those of D2, in one look.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.shown import Shown
from locuscore.watch._evidence.alarm import BetsAlarm
from locuscore.watch._evidence.both_ways import BothWays, bins, borders
from locuscore.watch._ledger import LedgerError, StaleEvidenceError
from locuscore.watch._look import FIRST, look_at_signals, look_sentence
from locuscore.watch._places import Place
from locuscore.watch._reference import unpacked

if TYPE_CHECKING:
    from locuscore.watch._watch import Watch

STATE = "drift"  # among the states of the claims, whose names are sentences
US_PER_DAY = 86_400_000_000
MOST_AT_ONCE = 50_000  # rows that one status reads
LOOK_AGAIN = 3_600_000_000  # microseconds until signals are compared again
SMALL = 0.001  # p-value of a look at the signals that is worth saying
MOST_TRIES = 20


class ScoreDrift:
    """The test of one number of each row against a reference; see `both_ways`."""

    def __init__(self, reference: FloatArray | None, delta: float) -> None:
        self.delta = delta
        self.first = np.empty(0) if reference is None else reference
        self.is_given = reference is not None
        self.alarm: BetsAlarm | None = None
        self.edges = np.empty(0)
        self.moved_at: int | None = None
        if reference is not None:
            self._begin()

    def _begin(self) -> None:
        self.edges = borders(self.first)
        counts = np.bincount(bins(self.first, self.edges), minlength=len(self.edges) + 1)
        self.alarm = BetsAlarm(BothWays(counts), self.delta)

    def see(self, values: FloatArray, times: IntArray) -> None:
        """See more rows, in order, each once."""
        if self.alarm is None:
            lacking = FIRST - len(self.first)
            self.first = np.concatenate([self.first, values[:lacking]])
            values, times = values[lacking:], times[lacking:]
            if len(self.first) == FIRST:
                self._begin()
        if self.alarm is None or not len(values):
            return
        before = self.alarm.n
        self.alarm.update(bins(values, self.edges))
        if self.alarm.alarmed_at is not None and self.moved_at is None:
            self.moved_at = int(times[self.alarm.alarmed_at - before - 1])

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        return {
            "first": None if self.is_given else _plain(self.first),
            "alarm": None if self.alarm is None else self.alarm.to_state(),
            "moved_at": self.moved_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `to_state` gave."""
        if not self.is_given:
            self.first = np.array([np.inf if v is None else v for v in state["first"]], dtype=float)
            if len(self.first) == FIRST:
                self._begin()
        if self.alarm is not None and state["alarm"] is not None:
            self.alarm.restore(state["alarm"])
        self.moved_at = state["moved_at"]


def _plain(values: FloatArray) -> list[float | None]:
    return [v if np.isfinite(v) else None for v in values.tolist()]


@dataclass(frozen=True, repr=False)
class Drift(Shown):
    """What is known without labels."""

    facts: Mapping[str, Any]
    test: ScoreDrift
    look: Mapping[str, Any] | None

    @property
    def looks_different(self) -> bool:
        """Whether rows ever looked different, or do so in the last look."""
        p_value = None if self.look is None else self.look["p_value"]
        return self.test.moved_at is not None or (p_value is not None and p_value <= SMALL)

    def to_dict(self) -> dict[str, Any]:
        """For the status; see `sentence`."""
        nothing: dict[str, Any] = {"auc": None, "p_value": None, "outside": None, "signals": []}
        alarm, moved = self.test.alarm, self.test.moved_at
        score: dict[str, Any] | None = None
        if alarm is not None and not self.facts.get("why_not"):
            score = {"log_e": alarm.log_value, "line": alarm.limit, "largest": alarm.largest}
            score |= {"n": alarm.n, "since": None if moved is None else _day(moved)}
        kept = {} if self.look is None else {name: self.look[name] for name in nothing}
        return nothing | kept | {"sentence": self.sentence(), "score": score}

    def sentence(self) -> str:
        """What it comes to; rows that look different break no promise by that."""
        of = "calibration rows" if self.test.is_given else f"first {FIRST:,} rows"
        value = self.facts["value"]
        if self.facts.get("why_not"):
            told = [f"The {value} is not tested: {self.facts['why_not']}."]
        elif self.test.alarm is None:
            told = [f"The {value} is compared with that of the {of}, once these are there."]
        elif self.test.moved_at is not None:
            when = _day(self.test.moved_at)
            told = [f"Rows look different: since {when} the {value} is not like that of the {of}."]
        else:
            told = [
                f"The {value} is like that of the {of}, as far as {self.test.alarm.n:,} rows go."
            ]
        if self.look is not None:
            told.append(look_sentence(self.look))
        return " ".join(told)


def _day(microseconds: int) -> str:
    return str(np.datetime64(microseconds // US_PER_DAY, "D"))


def drift_of(watch: "Watch") -> Drift | None:
    """Look at the rows that are new; two calls at once never repeat one."""
    deployed = next(d for d in watch.ledger.deployments if d.deployment.digest == watch.digest)
    facts = deployed.deployment.card.get("drift")
    if facts is None:  # deployed before there was such a test
        return None
    for _ in range(MOST_TRIES):
        try:
            return _advance(watch, facts, deployed.since)
        except StaleEvidenceError:
            continue
    raise RuntimeError("the evidence is saved by others all the time; try again.")


def _advance(watch: "Watch", facts: Mapping[str, Any], since: int) -> Drift:
    saved = watch.ledger.evidence(watch.digest)
    state = saved.states.get(STATE)
    scores = unpacked(facts["scores"])
    test = ScoreDrift(None if scores is None else scores[:, 0], watch.settings.delta)
    if state is None:
        place, look = Place(watch.ledger.last_number(since)), None
    else:
        try:
            place, look = Place(**state["place"]), state["look"]
            test.restore(state["test"])
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
            raise LedgerError(
                "the ledger is damaged: its evidence of drift is not what a watch has saved; "
                "restore it from a backup."
            ) from None
    had = asdict(place)
    left = MOST_AT_ONCE
    while left > 0 and (written := watch.ledger.written_after(place.cursor)) is not None:
        place.enter(written // US_PER_DAY)
        end = watch.ledger.last_number((place.day + 1) * US_PER_DAY, place.cursor)
        seqs = place.take(end, left, watch.ledger.secret)
        left -= len(seqs)
        if not facts.get("why_not"):
            _see(watch, test, facts["value"], seqs)
    now = watch.ledger.now()
    if look is None or now - look["at"] >= LOOK_AGAIN or now < look["at"]:
        look = look_at_signals(watch, facts, since, place.cursor, now)
    if asdict(place) != had or (look is not None and look["at"] == now):
        kept = {"place": asdict(place), "test": test.to_state(), "look": look}
        watch.ledger.save_evidence(
            watch.digest, {STATE: kept}, cursor=saved.cursor, expected_version=saved.version
        )
    return Drift(facts, test, look)


def _see(watch: "Watch", test: ScoreDrift, value: str, seqs: IntArray) -> None:
    column = "score" if value == "score" else "bounds"
    rows = watch.ledger.with_numbers(watch.digest, seqs, ["time", column])
    values = rows[column] if column == "score" else rows["bounds"][:, 0]
    test.see(values, rows["time"])
