"""The data of a watch's page, as `Status.to_dict` gives them, in every state that a page has."""

import functools
import math
from datetime import UTC, date, datetime, timedelta

import numpy as np

from browser_for_tests import HOSTILE

FIRST = date(2013, 4, 1)
AGE = 7
DELTA = 0.05
DIGEST = "9f2c4a7be1d05588"
CARD = """Certificate: at most 20 % of the accepted flights are late by more than 30 minutes,
with confidence 95 %, for rows drawn like the certifying ones."""


def day_text(i):
    return (FIRST + timedelta(days=int(i))).isoformat()


def time_text(i):
    at = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC) + timedelta(days=float(i))
    return at.isoformat().replace("+00:00", "Z")


def claim(name, kind, sentence, promised, rates, *, seed=0, per_day=150, delta=DELTA / 3, **more):
    """A claim whose rate on each day is given: its line, and the evidence against it.

    The figures look like those of a real watch; nothing here is a test of anything.
    """
    rng = np.random.default_rng(seed)
    scale = more.pop("scale", 1.0)
    misses = rng.binomial(per_day, rates)
    n = per_day * np.arange(1, len(misses) + 1)
    seen = np.cumsum(misses)
    width = np.sqrt((np.log(1 / delta) + np.log(np.log2(n + 2))) / (2 * n))
    tested, line = promised / scale, math.log(1 / delta)
    ratio = 1.35, (1 - 1.35 * tested) / (1 - tested)
    gain = np.cumsum(misses * math.log(ratio[0]) + (per_day - misses) * math.log(ratio[1]))
    log_e = gain - np.minimum.accumulate(gain) - 1.5
    columns = {
        "n": n, "estimate": scale * seen / n, "low": scale * np.maximum(0, seen / n - width),
        "high": scale * np.minimum(1, seen / n + width), "log_e": log_e,
        "day_n": np.full(len(n), per_day), "day_estimate": scale * misses / per_day,
    }  # fmt: skip
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    days = [{"day": day_text(i)} | dict(zip(columns, row, strict=True))
            for i, row in enumerate(rows)]  # fmt: skip
    crossed = np.flatnonzero(log_e >= line)
    last = days[-1] if days else dict.fromkeys(("estimate", "low", "high"))
    total = int(n[-1]) if days else 0
    calls = [time_text(i + 0.5) for i in crossed[:1] - 6]
    return {
        "name": name, "kind": kind, "sentence": sentence, "promised": promised, "among": "accepted",
        "group": None, "tested": True, "why_not": None, "n": total,
        "n_labelled": total - total // 40, "n_missing": total // 40,
        **{key: last[key] for key in ("estimate", "low", "high")},
        "log_e": float(log_e[-1]) if days else 0.0,
        "largest": float(log_e.max()) if days else 0.0, "line": line, "delta": delta,
        "alarmed_at": time_text(crossed[0] + 0.6) if len(crossed) else None,
        "detector": {"log_value": 1.2, "line": math.log(50_000), "run_length": 50_000,
                     "calls": calls},
        "days": days,
    } | more  # fmt: skip


def accepted(rates, **more):
    return claim(
        "Bad among the accepted", "accepted",
        "At most 20 % of the accepted rows have a loss above 30 minutes.", 0.2, rates,
        **({"seed": 1} | more),
    )  # fmt: skip


def coverage(rates, **more):
    return claim(
        "Coverage at alpha = 0.1", "coverage",
        "At most 10 % of the losses exceed their bound, on average over calibrations.", 0.1, rates,
        **({"seed": 2, "among": "all", "per_day": 300} | more),
    )  # fmt: skip


def mean_loss(rates, **more):
    return claim(
        "Mean loss", "mean loss", "The mean loss of the accepted rows is at most 12 minutes.",
        12.0, rates, **({"seed": 3, "scale": 60.0, "detector": None} | more),
    )  # fmt: skip


def exchangeable(n_days, **more):
    made = claim(
        "Exchangeable with D2", "exchangeable", "New rows are like the calibration rows.",
        0.5, np.full(n_days, 0.5), **({"seed": 4, "among": "all"} | more),
    )  # fmt: skip
    gone = dict.fromkeys(("estimate", "low", "high"))
    days = [day | gone | {"day_estimate": None} for day in made["days"]]
    return made | gone | {"promised": None, "days": days}


NOT_TESTED = {
    "name": "Coverage at alpha = 0.5", "kind": "coverage", "sentence": "At most half exceed it.",
    "promised": 0.5, "among": "all", "group": None, "tested": False,
    "why_not": "flagged rows have no known chance of a label (audit_flagged is None).", "n": 0,
    "n_labelled": 0, "n_missing": 0, "estimate": None, "low": None, "high": None, "log_e": None,
    "largest": None, "line": None, "delta": None, "alarmed_at": None, "detector": None, "days": [],
}  # fmt: skip


def status(claims, n_days, *, level="ok", sentence="No promise has raised an alarm.", action=None):
    """The data of a page with these claims after so many days."""
    tested = max(0, n_days - AGE)
    rows = [
        {"day": day_text(i), "decisions": 900 + 35 * (i % 7), "accepted": 640 + 20 * (i % 7),
         "drawn": 150, "labelled": 150 - i % 4 if i < tested else 30 * (i % 3),
         "awaited": i % 4 if i < tested else 150 - 30 * (i % 3), "group": group}
        for i in range(n_days) for group in ("EWR", "JFK")
    ]  # fmt: skip
    total = {key: sum(row[key] for row in rows) for key in list(rows[0])[1:-1]} if rows else {}
    return {
        "made_at": time_text(n_days + 0.3), "store": "postgresql://watch@db/flights",
        "deployment": DIGEST, "since": time_text(0), "card": CARD, "unit": "minutes",
        "settings": {"delta": DELTA, "age_days": float(AGE), "audit": 0.02, "audit_flagged": None,
                     "valid_until": time_text(365)},
        "counts": {key: total.get(key, 0) for key in ("decisions", "accepted", "drawn",
                                                      "labelled", "awaited")}
        | {"flagged": total.get("decisions", 0) - total.get("accepted", 0),
           "late": 12 if rows else 0, "complaints": 41 if rows else 0,
           "waiting_labels": 3 if rows else 0},
        "verdict": {"level": level, "sentence": sentence},
        "action": action or {"kind": "nothing", "sentence": "Nothing to do.", "rows": None},
        "claims": claims, "days": rows, "drift": None, "groups": [], "events": [],
        "deployments": [{"digest": DIGEST, "since": time_text(0),
                         "decisions": total.get("decisions", 0)}],
    }  # fmt: skip


@functools.cache
def alarmed(n_days=160):
    """Everything a page may have: the share of bad rows rises in July, and it alarms."""
    tested = n_days - AGE
    rising = 0.17 + 0.15 * np.clip((np.arange(tested) - 85) / 30, 0, 1)
    bad = accepted(rising)
    alarm = bad["alarmed_at"]
    found = status(
        [bad, coverage(np.full(tested, 0.097)), mean_loss(np.full(tested, 0.185)),
         exchangeable(tested), NOT_TESTED],
        n_days, level="alarm",
        sentence="The share of bad rows among the accepted is above the promised 20 %.",
        action={"kind": "recalibrate", "rows": None, "sentence": "Recalibrate: with weekly "
                "recalibration since May the share would have been 10.3 %."},
    )  # fmt: skip
    return found | {
        "drift": {"sentence": "Rows look different from those of the calibration: departures are "
                  "later and routes longer.", "auc": 0.71, "p_value": 1e-15, "outside": 0.034,
                  "score": {"log_e": 12.4, "line": 3.0},
                  "signals": [{"name": "sched_dep_time", "shift": 0.42},
                              {"name": "distance", "shift": 0.21}, {"name": "month", "shift": 1.9},
                              {"name": "wind_speed", "shift": -0.33}]},
        "groups": [{"group": "EWR", "share_first": 0.36, "share_now": 0.31, "n": 41_000},
                   {"group": "JFK", "share_first": 0.33, "share_now": 0.39, "n": 39_800},
                   {"group": "LGA", "share_first": 0.31, "share_now": 0.30, "n": 37_000}],
        "events": [{"time": time_text(0), "kind": "deploy", "detail": f"scorer {DIGEST}"},
                   {"time": time_text(31.4), "kind": "reload", "detail": "same scorer"},
                   {"time": alarm, "kind": "alarm", "detail": bad["name"]},
                   {"time": time_text(135), "kind": "recalibration", "detail": "on May to July"},
                   {"time": time_text(140), "kind": "forget", "detail": "before 1 May 2013"}],
        "deployments": [{"digest": "00aa11bb22cc33dd", "since": time_text(-90), "decisions": 99},
                        *found["deployments"]],
    }  # fmt: skip


def healthy(n_days=160):
    tested = n_days - AGE
    shown = alarmed(n_days) | status(
        [accepted(np.full(tested, 0.17)), coverage(np.full(tested, 0.097))], n_days
    )
    events = [{"time": time_text(0), "kind": "deploy", "detail": f"scorer {DIGEST}"}]
    return shown | {"events": events}


def empty():
    """Deployed, and nothing decided."""
    found = status(
        [accepted(np.empty(0)), coverage(np.empty(0)), NOT_TESTED], 0, level="unknown",
        sentence="There are no decisions yet.",
        action={"kind": "nothing", "sentence": "Log decisions.", "rows": None},
    )  # fmt: skip
    return found | {"deployments": []}


def unlabelled(n_days=5):
    """Decisions, but none is old enough and none has a label."""
    found = status(
        [accepted(np.empty(0))], n_days, level="unknown",
        sentence="Too few labels to know.",
        action={"kind": "label", "sentence": "Label 900 more rows to know.", "rows": 900},
    )  # fmt: skip
    for day in found["days"]:
        day |= {"labelled": 0, "awaited": day["drawn"]}
    return found | {"counts": found["counts"] | {"labelled": 0, "awaited": 1500}}


def one_day():
    return status([accepted([0.18]), mean_loss([0.2])], 1, level="unknown",
                  sentence="Too few labels to know.")  # fmt: skip


def missing_labels():
    """Rows were used, and none had a label."""
    found, gone = one_day(), dict.fromkeys(("estimate", "low", "high"))
    claims = [
        claim | gone | {"n_labelled": 0, "n_missing": claim["n"],
                        "days": [day | gone | {"day_estimate": None} for day in claim["days"]]}
        for claim in found["claims"]
    ]  # fmt: skip
    return found | {"claims": claims}


@functools.cache
def many(n_groups=30, n_days=400):
    """A claim per group over more than a year; one of them alarms."""
    tested = n_days - AGE
    names = [f"Group {i}: carrier {'ABCDEFGHIJ'[i % 10] * 2}" for i in range(n_groups)]
    rates = [np.full(tested, 0.16 + 0.001 * i) for i in range(n_groups)]
    rates[17] = 0.17 + 0.1 * (np.arange(tested) > 250)
    claims = [
        accepted(rate, seed=i, group=name, per_day=40) | {"name": name}
        for i, (name, rate) in enumerate(zip(names, rates, strict=True))
    ]
    found = status(claims, n_days, level="alarm", sentence=f"{names[17]} has raised an alarm.")
    shares = [{"group": name, "share_first": 1 / 30, "share_now": (i + 1) / 465, "n": 100 * i}
              for i, name in enumerate([*names, "one", "two"])]  # fmt: skip
    events = [{"time": time_text(7 * i), "kind": "recalibration" if i % 4 else "reload",
               "detail": f"week {i}"} for i in range(300)]  # fmt: skip
    return found | {"groups": shares, "events": events}


STATES = {
    "alarmed": alarmed, "healthy": healthy, "empty": empty, "unlabelled": unlabelled,
    "missing labels": missing_labels, "one day": one_day, "many": many,
}  # fmt: skip


def hostile(value, key=None):
    """The data with every text replaced, but for times."""
    times = ("made_at", "since", "time", "day", "alarmed_at", "calls", "valid_until")
    if key in times:
        return value
    if isinstance(value, dict):
        return {name: hostile(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [hostile(part) for part in value]
    return HOSTILE if isinstance(value, str) else value
