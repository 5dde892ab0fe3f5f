"""The status of a watch as one self-contained page.

The page is made of what `Status.to_dict` says and of nothing else. Here the data are cut to what
a page can show: long lines are thinned out, days are added up to weeks or months, and of many
claims the most urgent come first.
"""

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from locuscore._shared.page import self_contained
from locuscore._shared.readable import readable, shortened

# In this order, after those that pages share; together they are one script.
SCRIPTS = ("time.js", "claims.js", "rows.js", "main.js")
TITLE = "Is the promise still kept?"
LEVELS = {
    "ok": "OK",
    "unknown": "Too few labels to know",
    "notice": "Notice",
    "alarm": "ALARM",
}

MOST_OPEN = 6  # claims with their pictures open; more are sorted and folded
MOST_DRAWN = 60  # claims with a picture at all; the table has all of them
MOST_STEPS = 60  # of a line; each has its last day and its highest e-value
MOST_BARS = 92
MOST_GROUPS = 30
MOST_EVENTS = 200
MOST_SIGNALS = 15
MOST_DEPLOYMENTS = 50
SUMS = ("decisions", "accepted", "drawn", "labelled", "awaited")
POINT = ("n", "estimate", "low", "high", "log_e")
FEWEST_DIGITS = 6  # more than a picture shows


def page_html(data: Mapping[str, Any]) -> str:
    """Return the page that shows the status of a watch, from `Status.to_dict`.

    One file without any request to a network; it may also be served as it is. Every text of the
    data is shown as text.

    Of each day of a claim, ``n``, ``estimate``, ``low``, ``high`` and ``log_e`` are those of all
    rows up to the end of that day; ``day_n`` and ``day_estimate``, if given, are of its own rows
    alone. Rows of ``days`` with the same day, one per group, are added up.
    """
    shown = page_data(data)
    verdict, action = shown["verdict"], shown["action"]
    claims = [f"{c['name']}: {_in_words(c, shown['unit'])}" for c in shown["claims"]]
    texts = {
        "title": html.escape(shown["title"]),
        "level": html.escape(verdict["label"]),
        "verdict": html.escape(verdict["heading"]),
        "action": html.escape(action["sentence"]),
        "claims": "".join(f"<li>{html.escape(text)}</li>" for text in claims),
        "card": html.escape(shown["card"]),
    }
    return self_contained("locuscore.watch", "watch", SCRIPTS, shown, texts)


def page_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows: times as milliseconds, no more points than can be seen."""
    missing = [key for key in ("made_at", "verdict", "action") if not data.get(key)]
    if missing:
        raise ValueError(
            f"the page of a watch is made from Status.to_dict(); {', '.join(missing)} missing."
        )
    claims = _claims(data.get("claims") or [])
    days = _per_day(data.get("days") or [])
    period, bars = _bars(days)
    events = sorted(data.get("events") or [], key=lambda e: _moment(e["time"]))
    groups = sorted(data.get("groups") or [], key=lambda g: -(g.get("n") or 0))
    level = str(data["verdict"].get("level", "unknown"))
    label, sentence = LEVELS.get(level, level), _text(data["verdict"].get("sentence"))
    is_said = label.lower() in sentence.lower()
    now, since = _moment(data["made_at"]), _time(data.get("since"))
    return {
        "title": TITLE,
        "made_at": now,
        "since": since,
        "span": _span(since, now, claims, bars),
        **{key: _text(data.get(key)) for key in ("store", "deployment", "unit")},
        "card": str(data.get("card") or ""),
        "settings": _settings(data.get("settings") or {}),
        "counts": dict(data.get("counts") or {}),
        "verdict": {
            "level": level,
            "label": label,
            "heading": sentence if is_said else f"{label}: {sentence}",
        },
        "action": {
            **{key: _text(data["action"].get(key)) for key in ("kind", "sentence")},
            "rows": data["action"].get("rows"),
        },
        "claims": claims,
        "bars": {"period": period, "rows": bars},
        "drift": _drift(data.get("drift")),
        "groups": [g | {"group": _text(g["group"])} for g in groups[:MOST_GROUPS]],
        "n_groups_not_shown": max(0, len(groups) - MOST_GROUPS),
        "events": [
            {
                "at": _moment(e["time"]),
                "kind": _text(e.get("kind")),
                "detail": _text(e.get("detail")),
            }
            for e in events[-MOST_EVENTS:]
        ],
        "n_events_not_shown": max(0, len(events) - MOST_EVENTS),
        "deployments": [
            {"digest": _text(d.get("digest")), "since": _time(d.get("since")), "n": d["decisions"]}
            for d in (data.get("deployments") or [])[-MOST_DEPLOYMENTS:]
        ],
    }


def _claims(claims: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Claims with their lines; if they are many, the most urgent first."""
    tested = [c for c in claims if c["tested"]]
    if len(tested) > MOST_OPEN:
        tested.sort(key=_urgency)
    found = []
    for i, claim in enumerate(tested + [c for c in claims if not c["tested"]]):
        is_drawn = bool(claim["tested"]) and i < MOST_DRAWN
        detector = claim.get("detector")
        found.append(
            {key: value for key, value in claim.items() if key not in {"days", "detector"}}
            | {key: _text(claim.get(key)) for key in ("name", "sentence", "why_not", "kind")}
            | {
                "group": None if claim.get("group") is None else _text(claim["group"]),
                "alarmed_at": _time(claim.get("alarmed_at")),
                "detector": detector
                and dict(detector) | {"calls": [_moment(t) for t in detector.get("calls") or []]},
                "is_open": is_drawn and i < MOST_OPEN,
                "line_of": _thinned(claim.get("days") or []) if is_drawn else None,
            }
        )
    return found


def _urgency(claim: Mapping[str, Any]) -> tuple[bool, float]:
    """Alarms first, the earliest of them at the top; then by how near the alarm is."""
    alarmed = _time(claim.get("alarmed_at"))
    log_e, line = claim.get("log_e"), claim.get("line")
    nearness = log_e / line if line and log_e is not None else -math.inf
    return alarmed is None, -nearness if alarmed is None else alarmed


def _thinned(days: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns of at most two days per step: the last, and that with the highest e-value.

    ``alone`` is the mean over the rows of a step alone, where days say theirs (``day_n``,
    ``day_estimate``): a running mean is slow to show a change.
    """
    ordered = sorted(days, key=lambda d: str(d["day"]))
    size = max(1, math.ceil(len(ordered) / MOST_STEPS))
    kept: list[tuple[Mapping[str, Any], float | None]] = []
    for start in range(0, len(ordered), size):
        step = ordered[start : start + size]
        highest = max(step, key=lambda d: -math.inf if d.get("log_e") is None else d["log_e"])
        shown = ordered[:1] if start == 0 and size > 1 else []
        shown += [day for day in (highest,) if day is not step[-1] and day not in shown]
        kept += [(day, None) for day in shown] + [(step[-1], _alone(step))]
    columns: dict[str, Any] = {"at": [_moment(day["day"]) for day, _ in kept], "per": size}
    columns["alone"] = [_short(alone) for _, alone in kept]
    for key in POINT:
        columns[key] = [_short(day.get(key)) for day, _ in kept]
    return columns


def _alone(step: Sequence[Mapping[str, Any]]) -> float | None:
    known = [d for d in step if d.get("day_n") and d.get("day_estimate") is not None]
    n = sum(d["day_n"] for d in known)
    return sum(d["day_n"] * d["day_estimate"] for d in known) / n if n else None


def _per_day(days: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The groups of each day added up."""
    found: dict[date, dict[str, Any]] = {}
    for day in days:
        row = found.setdefault(_day(day["day"]), dict.fromkeys(SUMS, 0))
        for key in SUMS:
            row[key] += day.get(key) or 0
    return [{"day": day} | found[day] for day in sorted(found)]


def _bars(days: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Days, or their sums over weeks or months, whatever is few enough to be seen."""
    length = (days[-1]["day"] - days[0]["day"]).days + 1 if days else 0
    starts: Callable[[date], date]
    if length <= MOST_BARS:
        period, starts = "day", lambda day: day
    elif length <= 7 * MOST_BARS:
        period, starts = "week", lambda day: day - timedelta(days=day.weekday())
    else:
        period, starts = "month", lambda day: day.replace(day=1)
    found: dict[date, dict[str, int]] = {}
    for day in days:
        row = found.setdefault(starts(day["day"]), dict.fromkeys(SUMS, 0))
        for key in SUMS:
            row[key] += day[key]
    ends = {"day": _next_day, "week": lambda d: d + timedelta(days=7), "month": _next_month}[period]
    return period, [{"at": _ms(d), "to": _ms(ends(d))} | row for d, row in found.items()]


def _next_day(day: date) -> date:
    return day + timedelta(days=1)


def _next_month(day: date) -> date:
    return (day + timedelta(days=31)).replace(day=1)


def _span(
    since: float | None, now: float, claims: Iterable[Mapping[str, Any]], bars: list[Any]
) -> list[float]:
    """First and last moment of every time axis, so that the pictures can be compared."""
    moments = [at for c in claims if c["line_of"] for at in c["line_of"]["at"]]
    moments += [end for bar in bars for end in (bar["at"], bar["to"])]
    moments += [now] if since is None else [since, now]
    return [min(moments), max(moments)]


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("delta", "age_days", "audit", "audit_flagged")
    return {key: settings.get(key) for key in keys} | {
        "valid_until": _time(settings.get("valid_until"))
    }


def _drift(drift: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not drift:
        return None
    signals = sorted(drift.get("signals") or [], key=lambda s: -abs(s.get("shift") or 0))
    return dict(drift) | {
        "sentence": _text(drift.get("sentence")),
        "signals": [s | {"name": _text(s["name"])} for s in signals[:MOST_SIGNALS]],
        "n_signals_not_shown": max(0, len(signals) - MOST_SIGNALS),
    }


def _in_words(claim: Mapping[str, Any], unit: str) -> str:
    """A claim for readers without a script."""
    if not claim["tested"]:
        return f"not tested. {claim['why_not']}"
    state = "ALARM. " if claim["alarmed_at"] is not None else ""
    if claim.get("estimate") is None:
        return state + claim["sentence"]
    is_mean = claim["kind"] == "mean loss"

    def shown(value: float | None) -> str:
        if value is None:
            return "-"
        return f"{readable(value)} {unit}".strip() if is_mean else f"{readable(100 * value)} %"

    return (
        f"{state}{claim['sentence']} Seen: {shown(claim['estimate'])} "
        f"({shown(claim.get('low'))} to {shown(claim.get('high'))})."
    )


def _text(value: object) -> str:
    return "" if value is None else shortened(str(value), 1000)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{FEWEST_DIGITS}g}")


def _time(text: str | None) -> float | None:
    return None if text is None else _moment(text)


def _moment(text: str) -> float:
    """Milliseconds since 1970 of a time or a day; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise ValueError(
            f"times and days of a watch are ISO 8601, such as 2013-04-01T12:00:00Z; got {text!r}."
        ) from error
    return _ms(found if found.tzinfo else found.replace(tzinfo=UTC))


def _day(text: str) -> date:
    return datetime.fromtimestamp(_moment(text) / 1000, UTC).date()


def _ms(at: date) -> float:
    if not isinstance(at, datetime):
        at = datetime(at.year, at.month, at.day, tzinfo=UTC)
    return 1000 * at.timestamp()
