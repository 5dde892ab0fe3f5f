"""Simulated deployments that keep what they promise, and what the alarms make of them.

Each function is one setting. It draws D2, if the promise has one, and a stream of new rows, shows
them to the alarms in pieces, and returns whether one was ever raised. No row breaks the promise, so
that is to happen in at most the share DELTA of the streams. TWINS are wrong instruments, on streams
of the same kind, that must be caught.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from locuscore import conformal_rank, tau_rule
from locuscore._laws.calibration import MarginalCalibration
from locuscore.watch._claims import claims_of
from locuscore.watch._clusters import OpenClusters
from locuscore.watch._evidence.alarm import BetsAlarm
from locuscore.watch._evidence.audit import drawn, thinned
from locuscore.watch._evidence.betting import MeanBets, cluster_values
from locuscore.watch._evidence.detector import Detector
from locuscore.watch._evidence.martingale import RankBets
from locuscore.watch._evidence.ranks import RankAlarm
from locuscore.watch._evidence.urn import UrnAlarm
from locuscore.watch._instruments import alarm_of

DELTA = 0.05
ALPHA, N2 = 0.1, 199
ETA = 0.1
PIECES = 4
RUN_LENGTH = 200
Stream = Callable[[np.random.Generator, int], bool]


def ever(alarm: Any, values: np.ndarray, labelled: np.ndarray | None = None) -> bool:
    """Show rows in pieces, and say whether there was an alarm."""
    known = np.ones(len(values), bool) if labelled is None else labelled
    parts = (np.array_split(one, PIECES) for one in (values, known))
    for part, labels in zip(*parts, strict=True):
        alarm.update(part, labels)
    return bool(alarm.alarm)


def urn() -> UrnAlarm:
    """The alarm of coverage at ALPHA with N2 calibration rows."""
    k = conformal_rank(N2, ALPHA)
    return UrnAlarm(N2 + 1 - k, k, DELTA)


def missed(tails: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Whether new rows are above their bound."""
    return (new < MarginalCalibration(np.sort(tails)).level(ALPHA)).astype(float)


def coverage(rng: np.random.Generator, n: int) -> bool:
    """Coverage, without ties."""
    return ever(urn(), missed(rng.random(N2), rng.random(n)))


def coverage_with_ties(rng: np.random.Generator, n: int) -> bool:
    """Coverage, tails rounded to a twentieth."""
    tails, new = (np.round(20 * rng.random(size)) / 20 for size in (N2, n))
    return ever(urn(), missed(tails, new))


def coverage_audited(rng: np.random.Generator, n: int) -> bool:
    """Coverage; flagged rows are audited more often, thinned, and labels get lost by the loss."""
    tails, new = rng.random(N2), rng.random(3 * n)
    is_flagged = rng.random(len(new)) < 0.2 + 0.6 * (new < 0.15)
    ids, key = [str(i) for i in range(len(new))], rng.bytes(32)
    chance = np.where(is_flagged, 0.9, 1 / 3)
    kept = drawn(ids, chance, key) & thinned(ids, chance, 1 / 3, key)
    labelled = rng.random(len(new)) < np.where(new < 0.05, 0.8, 0.95)
    return ever(urn(), missed(tails, new)[kept], labelled[kept])


def certificate(rng: np.random.Generator, n: int) -> bool:
    """A certificate that holds with nothing to spare."""
    return ever(BetsAlarm(MeanBets(ETA), DELTA), (rng.random(n) < ETA).astype(float))


def certificate_with_adversary(rng: np.random.Generator, n: int) -> bool:
    """The same; chances fall to zero whenever the evidence does, and rise to eta with it."""
    alarm, before = BetsAlarm(MeanBets(ETA), DELTA), 0.0
    for _ in range(n // 10):
        rate = ETA if alarm.log_value >= before - 0.3 or rng.random() < 0.5 else 0.0
        before = alarm.log_value
        alarm.update((rng.random(10) < rate).astype(float))
        if alarm.alarm:
            return True
    return False


def certificate_by_clusters(rng: np.random.Generator, n: int) -> bool:
    """Days of 1 to 9 rows with a chance in common; some rows are flagged, half are audited."""
    days = n // 5
    sizes = rng.integers(1, 10, size=days)
    day = np.repeat(np.arange(days), sizes)
    rate = rng.choice([0.0, 2 * ETA], size=days)
    used = rng.random(len(day)) < 0.7 * 0.5
    bad = rng.random(len(day)) < rate[day]
    values = cluster_values(day[used], bad[used], ETA, sizes)
    return ever(BetsAlarm(MeanBets(ETA, are_shares=False), DELTA), values)


def certificate_by_sessions(rng: np.random.Generator, n: int) -> bool:
    """Sessions that overlap; those with bad rows are short, so that they end first."""
    sessions = n // 10
    is_bad = rng.random(sessions) < 2 * ETA
    session = np.repeat(np.arange(sessions), np.where(is_bad, 2, 12))
    bad = is_bad[session] & (rng.random(len(session)) < 0.5)
    # A session has a row every 15 minutes. One more row, the day after, ends them all.
    place = np.arange(len(session)) - np.searchsorted(session, session)
    when = np.append(200.0 * rng.random(sessions)[session] + 15.0 * place, 2_000.0)
    order = np.argsort(when)
    times = (60_000_000 * when[order]).astype(np.int64)
    labels = np.append(session, sessions)[order].astype(str).tolist()
    all_rows = np.ones(len(order), dtype=bool)
    taken = OpenClusters().take(
        labels, times, all_rows, np.append(bad, False)[order], all_rows, ETA
    )
    values = np.array([value for value, _, _ in taken])
    return ever(BetsAlarm(MeanBets(ETA, are_shares=False), DELTA), values)


def mean_loss(rng: np.random.Generator, n: int) -> bool:
    """A mean loss of eta, with skewed losses between 1 and 5."""
    z = 1.0 + 4.0 * rng.beta(0.3, 1.2, size=n)
    return ever(BetsAlarm(MeanBets(1.8, low=1.0, high=5.0, are_shares=False), DELTA), z)


def ranks_of(tails: np.ndarray, new: np.ndarray, borders: np.ndarray) -> tuple[np.ndarray, Any]:
    """Bins of new rows, and how many rows of D2 are in each."""
    counts = np.bincount(np.searchsorted(borders, tails, side="right"), minlength=len(borders) + 1)
    return np.searchsorted(borders, new, side="right").astype(float), counts


def exchangeable(rng: np.random.Generator, n: int) -> bool:
    """Ranks in two bins, at the level of the bound."""
    tails, new = rng.random(N2), rng.random(n)
    border = MarginalCalibration(np.sort(tails)).level(np.array([ALPHA]))
    bins, counts = ranks_of(tails, new, border)
    return ever(RankAlarm(counts, (ALPHA,), DELTA), bins)


def exchangeable_with_ties(rng: np.random.Generator, n: int) -> bool:
    """Ranks in many bins that D2 chose, with ties and lost labels."""
    tails, new = (np.round(50 * rng.random(size)) / 50 for size in (N2, n))
    bins, counts = ranks_of(tails, new, np.unique(tails)[1:])
    labelled = rng.random(n) < np.where(new < 0.3, 0.7, 0.95)
    return ever(RankAlarm(counts, (), DELTA), bins, labelled)


def all_claims(rng: np.random.Generator, n: int) -> bool:
    """Coverage at two alphas, a joint share and exchangeability share one error."""
    tails, new = np.sort(rng.random(N2)), rng.random(n)
    calibration = MarginalCalibration(tails)
    scorer: Any = SimpleNamespace(
        locus=SimpleNamespace(calibration_=calibration),
        rule=tau_rule(0.8, ALPHA, n_calibration=N2),
        alphas=(ALPHA, 0.3),
    )
    # The loss is one minus the tail, so all rows have the same bounds.
    bounds = {a: np.full(n, 1.0 - float(calibration.level(a))) for a in scorer.alphas}
    accepted = bounds[ALPHA] <= 0.8
    claims = claims_of(scorer)
    found = [ever(alarm_of(c, DELTA), c.values(1.0 - new, accepted, bounds)) for c in claims]
    return any(found)


def interval(rng: np.random.Generator, n: int) -> bool:
    """The interval misses the mean chance, which moves, at one of twelve looks."""
    rate = np.clip(0.1 + 0.1 * np.sin(np.arange(n) / 300 + 6 * rng.random()), 0.0, 1.0)
    bad, alarm, seen = (rng.random(n) < rate).astype(float), BetsAlarm(MeanBets(ETA), DELTA), 0
    for t in np.unique(np.geomspace(10, n, 12).astype(int)):
        alarm.update(bad[seen:t])
        seen = t
        low, high = alarm.interval(DELTA) or (0.0, 1.0)
        if not low <= rate[:t].mean() <= high:
            return True
    return False


SETTINGS: dict[str, Stream] = {
    function.__name__: function
    for function in (
        coverage, coverage_with_ties, coverage_audited, certificate, certificate_with_adversary,
        certificate_by_clusters, certificate_by_sessions, mean_loss, exchangeable,
        exchangeable_with_ties, all_claims, interval,
    )
}  # fmt: skip


def at_most_alpha(rng: np.random.Generator, n: int) -> bool:
    """Coverage as a claim given D2, "at most alpha": wrong in about half of all deployments."""
    return ever(BetsAlarm(MeanBets(ALPHA), DELTA), missed(rng.random(N2), rng.random(n)))


class Increasing(RankBets):
    """Bets that gain where p is large: those of `RankBets` at p counted from the other end."""

    def p_values(self, values: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        """``1 - p + 1 / (n + t)``; without ties it is as good as p."""
        rows = 1.0 + self.counts.sum() + np.arange(len(values))
        return 1.0 - super().p_values(values, labelled) + 1.0 / rows


def increasing_bet(rng: np.random.Generator, n: int) -> bool:
    """Bets that increase in p, where tails tie."""
    tails, new = (np.round(20 * rng.random(size)) / 20 for size in (N2, n))
    bins, counts = ranks_of(tails, new, np.unique(tails)[1:])
    alarm = RankAlarm(counts, (), DELTA)
    alarm.ranks = Increasing(counts)
    return ever(alarm, bins)


def clusters_as_rows(rng: np.random.Generator, n: int) -> bool:
    """Rows of days with a chance in common, bet on one by one."""
    day = np.repeat(np.arange(n // 20), 20)
    rate = rng.choice([0.0, 1.0], p=[1 - ETA, ETA], size=n // 20)
    return ever(BetsAlarm(MeanBets(ETA), DELTA), rate[day])


TWINS: dict[str, Stream] = {
    function.__name__: function for function in (at_most_alpha, increasing_bet, clusters_as_rows)
}


def run_length(rng: np.random.Generator, of_urn: bool, promised: float = RUN_LENGTH) -> int:
    """Rows up to the first call of a detector while all is well."""
    tails, k = rng.random(N2), conformal_rank(N2, ALPHA)
    if of_urn:
        detector = Detector.of_urn(N2 + 1 - k, k, promised)
    else:
        detector = Detector(MeanBets(ETA), promised)
    while not detector.calls:
        new = rng.random(200)
        detector.update(missed(tails, new) if of_urn else (new < ETA).astype(float))
        if detector.n >= 50 * RUN_LENGTH:
            return detector.n
    return detector.called_at[0]
