"""What recalibration would have done: tried on the ledger as it would have been, week by week.

At the start of each week the rule, or the level of the bounds, is chosen again from the labels of
the last four weeks that were there by then, and is used for the rows of that week. It is compared
with what happened to the same rows.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from locuscore import certify_mean_loss, certify_threshold, conformal_rank
from locuscore._protocols import BoolArray, FloatArray
from locuscore._shared.shown import Shown
from locuscore.watch._claim_test import ClaimTest
from locuscore.watch._claims import Claim
from locuscore.watch._evidence.audit import thinned
from locuscore.watch._ledger import StaleEvidenceError
from locuscore.watch._settings import WatchSettings

if TYPE_CHECKING:
    from locuscore.watch._watch import Watch

STATE = "what if"  # among the states of the claims, whose names are sentences
US_PER_DAY = 86_400_000_000
WEEK = 7 * US_PER_DAY
BACK = 4 * WEEK
MOST_ROWS, MOST_WITH_SIGNALS = 50_000, 10_000
LEAST_LABELS, LEAST_WEEKS = 50, 4
RULES = ("accepted", "joint", "mean loss")
COLUMNS = ("id", "time", "score", "flagged", "chance", "drawn", "group_name", "loss", "label_time")
Rows = Mapping[str, np.ndarray]


@dataclass(frozen=True, repr=False)
class WhatIf(Shown):
    """What recalibration would have done, in a sentence, and whether that is enough.

    `helped` is None if fewer than four weeks were tried, which is too early to say.
    """

    sentence: str
    helped: bool | None


def what_if(watch: "Watch", tests: Mapping[str, ClaimTest]) -> WhatIf | None:
    """Try recalibration after an alarm; None without one, or where the ledger cannot tell.

    It is tried again once a day, and whenever another claim has raised its alarm.
    """
    broken = [test.claim for test in tests.values() if test.alarm.alarm]
    if not broken:
        return None
    saved = watch.ledger.evidence(watch.digest)
    about = [claim.name for claim in broken]
    day = watch.ledger.now() // US_PER_DAY
    kept = saved.states.get(STATE)
    if kept is None or kept["about"] != about or kept["day"] != day:
        found = _tried(watch, broken, saved.cursor)
        kept = {"about": about, "day": day, "found": None if found is None else asdict(found)}
        with contextlib.suppress(StaleEvidenceError):  # then it is tried again at the next status
            watch.ledger.save_evidence(
                watch.digest, {STATE: kept}, cursor=saved.cursor, expected_version=saved.version
            )
    return None if kept["found"] is None else WhatIf(**kept["found"])


def _tried(watch: "Watch", broken: Sequence[Claim], cursor: int) -> WhatIf | None:
    """Try it for the first claim that can be tried: rules before bounds."""
    rules = [claim for claim in broken if claim.kind in RULES and claim.unit == "row"]
    if rules:
        rows = watch.ledger.latest_drawn(
            watch.digest, up_to_seq=cursor, limit=MOST_ROWS, columns=COLUMNS
        )
        return tried_rule(rules[0], rows, watch.settings, watch.ledger.secret)
    bounds = [claim for claim in broken if claim.kind == "coverage"]
    if not bounds:
        bounds = [claim for claim in watch.claims if claim.kind == "coverage" and claim.is_tested]
    if watch.scorer is None or not bounds:
        return None
    rows = watch.ledger.latest_drawn(
        watch.digest,
        up_to_seq=cursor,
        limit=MOST_WITH_SIGNALS,
        columns=(*COLUMNS, "bounds", "signals"),
    )
    bound = rows["bounds"][:, watch.alphas.index(bounds[0].alpha or 0.0)]
    tails_of = watch.scorer.locus.loss_model_.tails
    return tried_bounds(bounds[0], rows, bound, tails_of, watch.settings, watch.ledger.secret)


@dataclass(frozen=True, eq=False)
class Week:
    """Rows of a week, and the labelled ones from which it would have been recalibrated."""

    start: int
    rows: BoolArray
    known: BoolArray


def weeks(rows: Rows, used: BoolArray) -> Iterator[Week]:
    """Every week that had 50 labels or more to begin with; `used` rows may teach."""
    time = rows["time"]
    if not len(time):
        return
    first = int(time.min()) // US_PER_DAY * US_PER_DAY
    for start in range(first + WEEK, int(time.max()) + 1, WEEK):
        mine = (time >= start) & (time < start + WEEK)
        there = (time >= start - BACK) & (time < start) & (rows["label_time"] < start)
        known = used & there & ~np.isnan(rows["loss"])
        if mine.any() and known.sum() >= LEAST_LABELS:
            yield Week(start, mine, known)


def tried_rule(claim: Claim, rows: Rows, settings: WatchSettings, secret: bytes) -> WhatIf | None:
    """Choose the threshold of a rule every week, as the rule was made."""
    # Labels of flagged rows say nothing unless they were drawn.
    flagged_too = settings.audit_flagged is not None
    mine = claim.holds_group(rows["group_name"].tolist())
    used = mine & _same_chance(rows, settings, secret)
    accepted = np.zeros(len(mine), dtype=bool)
    seen = np.zeros(len(mine), dtype=bool)
    starts: list[int] = []
    for week in weeks(rows, used & (flagged_too | ~rows["flagged"])):
        n = int(np.sum(used & (rows["time"] >= week.start - BACK) & (rows["time"] < week.start)))
        threshold = _threshold(claim, rows["score"][week.known], rows["loss"][week.known], n)
        accepted |= week.rows & mine & (rows["score"] <= threshold)
        seen |= week.rows & mine
        starts.append(week.start)
    if not seen.any():
        return None
    accepted &= flagged_too | ~rows["flagged"]
    lately = seen & (rows["time"] >= starts[-1] + WEEK - BACK)
    found, last = (
        [_outcome(claim, rows, part, which) for which in (accepted, ~rows["flagged"])]
        for part in (seen, lately)
    )
    return _rule_sentence(claim, starts, found, last)


def _same_chance(rows: Rows, settings: WatchSettings, secret: bytes) -> BoolArray:
    if settings.audit == settings.chance_flagged:
        return np.ones(len(rows["time"]), dtype=bool)
    return thinned(rows["id"].tolist(), rows["chance"], settings.least, secret)


def _threshold(claim: Claim, score: FloatArray, losses: FloatArray, n: int) -> float:
    promised, delta = claim.promised or 0.0, claim.delta or 0.05
    if claim.kind == "mean loss":
        support = (claim.low or 0.0, claim.high or 0.0)
        losses = np.clip(losses, *support)
        return certify_mean_loss(score, losses, promised, delta, support=support).threshold
    if claim.kind == "accepted":
        return certify_threshold(score, losses, claim.tau or 0.0, promised, delta).threshold
    return joint_threshold(score, losses > (claim.tau or 0.0), n, promised)


def joint_threshold(score: FloatArray, bad: BoolArray, n: int, alpha: float) -> float:
    """Largest t with ``(1 + #{bad with score <= t}) / (n + 1) <= alpha``, of n rows.

    On average over these, a new row is bad with a score of at most t with probability at most
    alpha, if they are exchangeable: the analogue of the rule at tau for a score that is given.
    """
    allowed = int(np.floor(alpha * (n + 1) * (1 + 1e-12))) - 1
    worst = np.sort(score[bad])
    if allowed < 0:
        return -np.inf
    return float(np.nextafter(worst[allowed], -np.inf)) if allowed < len(worst) else np.inf


@dataclass(frozen=True)
class Outcome:
    """What a claim bounds, its standard error, and the share of rows accepted."""

    value: float
    error: float
    share: float


def _outcome(claim: Claim, rows: Rows, seen: BoolArray, accepted: BoolArray) -> Outcome | None:
    """Estimate by weights of one over the chance; None if no accepted row has a label."""
    weight = np.where(rows["chance"] > 0, 1.0 / rows["chance"], 0.0)
    share = float(weight[seen & accepted].sum() / weight[seen].sum())
    known = seen & accepted & ~np.isnan(rows["loss"])
    if not known.any():
        return None
    z, w = rows["loss"][known], weight[known]
    x = z if claim.kind == "mean loss" else (z > (claim.tau or 0.0)).astype(float)
    mean = float(np.average(x, weights=w))
    error = float(np.sqrt(np.sum((w * (x - mean)) ** 2)) / w.sum())
    part = share if claim.kind == "joint" else 1.0
    return Outcome(part * mean, part * error, share)


def _rule_sentence(
    claim: Claim,
    starts: Sequence[int],
    found: Sequence[Outcome | None],
    last: Sequence[Outcome | None],
) -> WhatIf | None:
    now, was = found
    if was is None:
        return None
    is_early = len(starts) < LEAST_WEEKS
    begin = (
        f"With a new threshold every week since {_day(starts[0])}, from the labels of the four "
        "weeks before, "
    )
    if now is None:
        sentence = f"{begin}no row would have been accepted."
        return WhatIf(sentence, None if is_early else False)
    what = {"accepted": "share of bad rows among the accepted", "mean loss": "mean loss"}.get(
        claim.kind, "share of rows that are accepted and bad"
    )
    form = ".4g" if claim.kind == "mean loss" else ".1%"
    sentence = (
        f"{begin}the {what} would have been {now.value:{form}} (with {now.share:.0%} of rows "
        f"accepted) instead of {was.value:{form}} (with {was.share:.0%})"
    )
    if len(starts) > LEAST_WEEKS and last[0] is not None and last[1] is not None:
        sentence += f"; lately {last[0].value:{form}} instead of {last[1].value:{form}}"
    sentence += "."
    is_enough = bool(now.value <= (claim.promised or 0.0) + 2 * now.error)
    return WhatIf(sentence, None if is_early else is_enough)


def tried_bounds(
    claim: Claim,
    rows: Rows,
    bound: FloatArray,
    tails_of: Callable[[FloatArray, FloatArray], FloatArray],
    settings: WatchSettings,
    secret: bytes,
) -> WhatIf | None:
    """Calibrate every week: the level is an order statistic of the recent tails."""
    if not rows["signals"].size:
        return None
    labelled = ~np.isnan(rows["loss"]) & ~np.isnan(rows["signals"]).all(axis=1)
    if not labelled.any():
        return None
    mine = claim.holds_group(rows["group_name"].tolist()) & labelled
    used = mine & _same_chance(rows, settings, secret)
    tails = np.full(len(mine), np.nan)
    tails[used] = tails_of(rows["signals"][used], rows["loss"][used])
    missed = np.zeros(len(mine), dtype=bool)
    seen = np.zeros(len(mine), dtype=bool)
    starts: list[int] = []
    for week in weeks(rows, used):
        missed |= week.rows & used & (tails < level(tails[week.known], claim.alpha or 0.0))
        seen |= week.rows & used
        starts.append(week.start)
    if not seen.any():
        return None
    above = rows["loss"] > bound
    now, was = float(missed[seen].mean()), float(above[seen].mean())
    lately = seen & (rows["time"] >= starts[-1] + WEEK - BACK)
    error = np.sqrt(now * (1 - now) / seen.sum())
    sentence = (
        f"With weekly recalibration since {_day(starts[0])}, on the labels of the four weeks "
        f"before, {now:.1%} of losses would have been above their bound instead of {was:.1%}"
    )
    if len(starts) > LEAST_WEEKS:
        sentence += f"; lately {missed[lately].mean():.1%} instead of {above[lately].mean():.1%}"
    sentence += "."
    is_enough = bool(now <= (claim.promised or 0.0) + 2 * error)
    return WhatIf(sentence, None if len(starts) < LEAST_WEEKS else is_enough)


def level(tails: FloatArray, alpha: float) -> float:
    """The k-th largest tail, ``k = conformal_rank(n, alpha)``; 0 if there are fewer."""
    k = conformal_rank(len(tails), alpha)
    return 0.0 if k > len(tails) else float(np.sort(tails)[-k])


def _day(microseconds: int) -> str:
    return str(np.datetime64(microseconds // US_PER_DAY, "D"))
