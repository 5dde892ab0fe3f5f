"""Status: how the promises of a deployment stand, as text and as plain data."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from locuscore._shared.shown import cut
from locuscore.watch._actions import Action, Level, Situation, next_step
from locuscore.watch._card import status_card
from locuscore.watch._claim_test import ClaimTest
from locuscore.watch._claims import Claim
from locuscore.watch._drift import Drift
from locuscore.watch._estimates import Sums, day_text
from locuscore.watch._ledger import Deployed, Ledger
from locuscore.watch._what_if import WhatIf

if TYPE_CHECKING:
    from locuscore.watch._watch import Watch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, repr=False)
class Status:
    """What is known of a deployment; ``print(status)`` for people, `to_dict` for programs.

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
    >>> _ = watch.label(watch.score(X)["id"], y)
    >>> status = watch.status()
    >>> status.alarm, status.level
    (False, 'ok')
    """

    level: Level
    sentence: str
    action: Action
    data: Mapping[str, Any]

    @property
    def alarm(self) -> bool:
        """Whether any claim has ever raised its alarm."""
        return self.level == "alarm"

    @property
    def exit_code(self) -> int:
        """What a shell ends with: 4 on alarm, else 0."""
        return 4 if self.alarm else 0

    def to_dict(self) -> dict[str, Any]:
        """All of it in the types JSON has."""
        return dict(self.data)

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.data, allow_nan=False)

    def __repr__(self) -> str:
        return f"Status({self.level})\n  {cut(self.sentence, 120)}\n  {cut(self._next, 120)}"

    def _repr_html_(self) -> str:
        return status_card(self.level, self.sentence, self._next, self.data)

    @property
    def _next(self) -> str:
        return f"Next: {self.action.sentence}"

    def __str__(self) -> str:
        counts, settings = self.data["counts"], self.data["settings"]
        lines = [
            self.sentence,
            self._next,
            "",
            f"Deployment {self.data['deployment']} since {self.data['since'][:10]}: "
            f"{counts['decisions']:,} decisions, {counts['flagged']:,} of them flagged; "
            f"{counts['labelled']:,} labels of {counts['drawn']:,} asked for.",
            f"While all promises are kept, the chance of ever raising an alarm is at most "
            f"{settings['delta']:g}, however often one looks.",
        ]
        if self.data["drift"] is not None:
            lines.append(f"Without labels: {self.data['drift']['sentence']}")
        for claim in self.data["claims"]:
            lines += ["", *_claim_lines(claim, self.data["unit"])]
        return "\n".join(lines)


def _claim_lines(claim: Mapping[str, Any], unit: str) -> list[str]:
    told = unit if claim["kind"] == "mean loss" else ""
    lines = [claim["name"][0].upper() + claim["name"][1:]]
    if not claim["tested"]:
        return [*lines, f"  not tested: {claim['why_not']}"]
    if claim["promised"] is not None:
        now = "no labels yet"
        if claim["estimate"] is not None:
            now = f"{_number(claim['estimate'], told)}"
            if claim["low"] is not None:
                ends = (_number(claim[end], told) for end in ("low", "high"))
                now += f", tested rows {' to '.join(ends)}"
        lines.append(f"  promised at most {_number(claim['promised'], told)}; now {now}")
    missing = f", {claim['n_missing']:,} of them without a label" if claim["n_missing"] else ""
    lines.append(f"  {claim['n']:,} {claim['units']} tested{missing}")
    state = f"evidence {_evidence(claim['log_e'])}, alarm at {math.exp(claim['line']):,.0f}"
    if claim["alarmed_at"] is not None:
        state = f"ALARM at the row decided {claim['alarmed_at'][:16].replace('T', ' ')} UTC"
    lines.append(f"  {state}")
    return lines


def _number(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}" if unit else f"{value:.4g}"


def _evidence(log_e: float) -> str:
    return f"{math.exp(log_e):.3g}" if abs(log_e) < 50 else f"10^{log_e / math.log(10):.0f}"


def status_of(
    watch: "Watch",
    tests: Mapping[str, ClaimTest],
    unpriced: int,
    drift: Drift | None = None,
    tried: WhatIf | None = None,
) -> Status:
    """Gather what the ledger and the tests know."""
    ledger, now = watch.ledger, watch.ledger.now()
    known = ledger.deployments
    deployed = next(d for d in known if d.deployment.digest == watch.digest)
    facts = deployed.deployment.card
    sums = Sums(ledger.daily(watch.digest), watch.settings)
    valid_until = facts.get("valid_until", "")
    is_different = drift is not None and drift.looks_different
    sound = {name: test for name, test in tests.items() if test.cluster.trouble is None}
    situation = Situation(sound, _time(now).date(), valid_until, unpriced, is_different, tried)
    level, sentence, action = next_step(situation)
    data = {
        "made_at": _text(now),
        "store": repr(ledger),
        "deployment": watch.digest,
        "since": _text(deployed.since),
        "card": facts.get("card", ""),
        "unit": facts.get("unit", ""),
        "settings": watch.settings.to_dict() | {"valid_until": valid_until or None},
        "counts": sums.counts() | {"late": 0, "waiting_labels": ledger.waiting_labels()},
        "label_lag_days": sums.label_lag,
        "verdict": {"level": level, "sentence": sentence},
        "action": {"kind": action.kind, "sentence": action.sentence, "rows": action.rows},
        "claims": [_claim(claim, tests.get(claim.name), sums) for claim in watch.claims],
        "days": sums.days(),
        "drift": None if drift is None else drift.to_dict(),
        "groups": sums.groups(),
        "events": _events(ledger.events(), deployed.number, known),
        "deployments": [_deployment(one, ledger) for one in known],
    }
    return Status(level, sentence, action, data)


def _claim(claim: Claim, test: ClaimTest | None, sums: Sums) -> dict[str, Any]:
    trouble = None if test is None else test.cluster.trouble
    test = test if trouble is None else None
    found: dict[str, Any] = {
        "name": claim.name,
        "kind": claim.kind,
        "sentence": _sentence(claim, test),
        "promised": claim.promised,
        "among": claim.among,
        "group": None if claim.group is None else ", ".join(claim.group),
        "units": "clusters" if claim.unit == "cluster" else "rows",
        "tested": test is not None,
        "why_not": claim.why_not if trouble is None else trouble,
        "estimate": sums.estimate(claim),
    }
    if test is None:
        nothing = dict.fromkeys(("low", "high", "log_e", "largest", "line", "delta", "alarmed_at"))
        zero = dict.fromkeys(("n", "n_labelled", "n_missing"), 0)
        return found | nothing | zero | {"detector": None, "days": []}
    alarm = test.alarm
    low, high = alarm.interval(alarm.delta) or (None, None)
    if claim.unit == "cluster":
        low = high = None  # of values that are no shares
    return found | {
        "n": alarm.n,
        "n_labelled": test.n_labelled,
        "n_missing": alarm.missing,
        "low": low,
        "high": high,
        "log_e": alarm.log_value,
        "largest": alarm.largest,
        "line": alarm.limit,
        "delta": alarm.delta,
        "alarmed_at": None if test.alarm_time is None else _text(test.alarm_time),
        "detector": {
            "log_value": test.detector.log_value,
            "line": math.log(test.detector.run_length),
            "run_length": test.settings.run_length,
            "calls": [_text(time) for time in test.call_times],
        },
        "days": _days(claim, test.days),
    }


def _days(claim: Claim, days: Sequence[list[float]]) -> list[dict[str, Any]]:
    """The course of a claim; each day but the first also with the values of its rows alone."""
    found = [_day(claim, day) for day in days]
    for now, before, shown in zip(days[1:], days, found[1:], strict=False):
        labelled, total = now[2] - before[2], now[3] - before[3]
        if labelled and shown["estimate"] is not None:
            shown |= {"day_n": labelled, "day_estimate": total / labelled}
    return found


def _day(claim: Claim, day: list[float]) -> dict[str, Any]:
    number, n, labelled, total, low, high, log_e = day
    has_share = labelled and claim.kind != "exchangeable" and claim.unit == "row"
    return {
        "day": day_text(number),
        "n": n,
        "estimate": total / labelled if has_share else None,
        "low": low if has_share and low == low else None,
        "high": high if has_share and high == high else None,
        "log_e": log_e,
    }


def _sentence(claim: Claim, test: ClaimTest | None) -> str:
    """What is claimed and how it is tested."""
    if claim.kind == "exchangeable":
        return "Losses do not get worse for their bounds than they were among the calibration rows."
    promised = f"At most {claim.promised:g} is promised"
    if claim.kind in ("coverage", "joint"):
        return (
            f"{promised} on average over the calibration rows. The test is whether new rows are "
            "exchangeable with these, so it allows for their luck."
        )
    if test is None or claim.delta is None:
        return f"{promised}."
    return (
        f"{promised} by a certificate that fails with probability at most {claim.delta:g}. So a "
        f"healthy deployment alarms with probability at most {claim.delta:g} + "
        f"{test.alarm.delta:.3g}."
    )


def _events(
    events: Sequence[Mapping[str, Any]], number: int, known: Sequence[Deployed]
) -> list[dict[str, Any]]:
    """Events of a deployment and of the ledger, and alarms of other deployments."""
    others = {d.number: d.deployment.digest[:12] for d in known if d.number != number}
    found = []
    for event in events:
        other = others.get(event["deployment"])
        if other is None or event["kind"] == "alarm":
            told = _event(event)
            if other is not None:
                told["detail"] += f", of the deployment {other}"
            found.append(told)
    return found


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    detail = event["detail"]
    told = ", ".join(f"{name}: {value}" for name, value in detail.items())
    if event["kind"] == "alarm":
        told = f"{detail['claim']}, at the row decided {_text(detail['row_decided'])[:16]}"
    return {"time": _text(event["time"]), "kind": event["kind"], "detail": told}


def _deployment(deployed: Deployed, ledger: Ledger) -> dict[str, Any]:
    totals = ledger.totals(deployed.deployment.digest)
    rows = totals["total"][totals["measure"] == "rows"].sum()
    return {
        "digest": deployed.deployment.digest,
        "since": _text(deployed.since),
        "decisions": round(float(rows)),
        "alarm": any(
            event["kind"] == "alarm" and event["deployment"] == deployed.number
            for event in ledger.events(deployed.deployment.digest)
        ),
    }


def _time(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def _text(microseconds: int) -> str:
    return _time(microseconds).isoformat(timespec="seconds").replace("+00:00", "Z")
