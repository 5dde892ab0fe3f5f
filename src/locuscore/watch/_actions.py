"""What next: how a status ends."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from locuscore._shared.shown import Shown
from locuscore.watch._claim_test import ClaimTest
from locuscore.watch._claims import Claim
from locuscore.watch._what_if import WhatIf

ActionKind = Literal["nothing", "label", "look", "recalibrate", "refit", "take down", "renew"]
Level = Literal["ok", "unknown", "notice", "alarm"]
TWICE = 2.0  # a rate so many times the promised one should be noticed


@dataclass(frozen=True, repr=False)
class Action(Shown):
    """What to do next, and of how many rows the labels would tell, where that is the point.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.watch import Watch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> watch = Watch(Path(mkdtemp(), "decisions.db"), scorer, age=timedelta(0))
    >>> watch.status().action.kind  # there is no decision yet
    'label'
    """

    kind: ActionKind
    sentence: str
    rows: int | None = None


def rows_to_know(claim: Claim, delta: float) -> int | None:
    """Labelled rows after which twice the promised rate is expected to have raised the alarm.

    The evidence of a row grows by the relative entropy of the two rates on average. None where no
    rate is promised, or twice the promised one is not possible.
    """
    if claim.kind not in ("coverage", "joint", "accepted") or not claim.promised:
        return None
    rate = claim.promised
    broken = min(TWICE * rate, (1 + rate) / 2)
    gain = broken * math.log(broken / rate)
    gain += (1 - broken) * math.log((1 - broken) / (1 - rate)) if broken < 1 else 0.0
    # Half of the weight is on the first start, and the rates are mixed.
    return math.ceil((math.log(2.0 / delta) + math.log(5.0)) / gain)


@dataclass(frozen=True)
class Situation:
    """What decides about the next step: the tests, and what is known without labels."""

    tests: Mapping[str, ClaimTest]
    today: date
    valid_until: str = ""
    unpriced: int = 0
    looks_different: bool = False
    what_if: WhatIf | None = None


Found = tuple[Level, str, Action]


def next_step(now: Situation) -> Found:
    """How things stand, in a sentence, and what to do about it: the first that applies."""
    for look in (_alarm, _unpriced, _ended, _called, _different, _untested, _too_few):
        found = look(now)
        if found is not None:
            return found
    return "ok", "No alarm.", Action("nothing", "Nothing to do.")


def _alarm(now: Situation) -> Found | None:
    broken = [test for test in now.tests.values() if test.alarm.alarm]
    if not broken:
        return None
    names = "; ".join(test.claim.name for test in broken)
    sentence = f"ALARM: no longer kept, unless something rare has happened: {names}."
    return "alarm", sentence, _after_alarm(broken, now.what_if)


def _unpriced(now: Situation) -> Found | None:
    if not now.unpriced:
        return None
    text = (
        f"{now.unpriced:,} labels have a true value and no loss; open the watch with its scorer, "
        "which knows the loss."
    )
    return "notice", "Labels wait for their loss.", Action("look", text)


def _ended(now: Situation) -> Found | None:
    if not now.valid_until or now.today.isoformat() <= now.valid_until:
        return None
    text = (
        f"The rule was to be used until {now.valid_until}. Certify it again on fresh labelled "
        "rows, with a delta of its own."
    )
    return "notice", f"The rule ended on {now.valid_until}.", Action("renew", text)


def _called(now: Situation) -> Found | None:
    calls = [name for name, test in now.tests.items() if test.call_times]
    if not calls:
        return None
    text = (
        f"The detector called for: {'; '.join(calls)}. It calls now and then although all is "
        "well; look at the days since, and label more rows."
    )
    action = Action("look", text, _lacking(now.tests))
    return "notice", "No alarm, but the detector called.", action


def _different(now: Situation) -> Found | None:
    if not now.looks_different:
        return None
    text = "Rows look different from those of the fit. Label more of them to see what it means."
    action = Action("look", text, _lacking(now.tests))
    return "notice", "No alarm, but rows look different.", action


def _untested(now: Situation) -> Found | None:
    if now.tests:
        return None
    return "unknown", "No claim is tested.", Action("look", "See why at each claim.")


def _too_few(now: Situation) -> Found | None:
    lacking = _lacking(now.tests)
    if not lacking:
        return None
    text = (
        f"Label {lacking:,} more rows of those drawn: then twice the promised rate would be "
        "expected to show."
    )
    return "unknown", "No alarm, and too few labels to know.", Action("label", text, lacking)


def _lacking(tests: Mapping[str, ClaimTest]) -> int | None:
    needed = [
        (rows_to_know(test.claim, test.alarm.delta) or 0) - test.n_labelled
        for test in tests.values()
        if test.claim.group is None  # groups would ask for many
    ]
    most = max(needed, default=0)
    return most if most > 0 else None


def _after_alarm(broken: list[ClaimTest], what_if: WhatIf | None) -> Action:
    """Rules come down; bounds are recalibrated, or refitted where that would not have helped."""
    kinds = {test.claim.kind for test in broken}
    has_rule = bool(kinds & {"accepted", "mean loss", "joint"})
    tried = f" {what_if.sentence}" if what_if else ""
    if what_if is not None and what_if.helped is False:
        stop = "Stop acting on accepted rows, or review them all. " if has_rule else ""
        return Action("refit", f"{stop}Fit again: recalibration would not have been enough.{tried}")
    if has_rule:
        return Action(
            "take down",
            "Stop acting on accepted rows, or review them all, until the rule is made again on "
            f"recent labelled rows: recalibrate, then certify.{tried}",
        )
    if "coverage" in kinds:
        return Action(
            "recalibrate",
            "Recalibrate on recent labelled rows (Locus.recalibrate), or let bounds adapt "
            f"(Locus.adapt); if they become too wide to be of use, fit again.{tried}",
        )
    return Action(
        "recalibrate",
        "Rows are no longer like those of the calibration, and losses get worse for their bounds. "
        f"Recalibrate on recent labelled rows.{tried}",
    )
