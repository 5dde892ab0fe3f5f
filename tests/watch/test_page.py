import json
import re

import pytest

from locuscore._shared.page import embedded

pytest.importorskip("sqlalchemy")

from locuscore.watch._page import LEVELS, MOST_DRAWN, MOST_OPEN, SCRIPTS, page_data, page_html
from watch_data import STATES, accepted, alarmed, empty, hostile, many, status, time_text

pytestmark = pytest.mark.extra

DAY = 86_400_000


def data_in(text):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


@pytest.mark.parametrize("state", STATES)
def test_the_data_in_the_page_are_what_it_shows(state):
    data = STATES[state]()
    text = page_html(data)
    assert data_in(text) == page_data(data)
    assert LEVELS[data["verdict"]["level"]] in text.partition("</title>")[0]


def test_no_markup_can_come_from_data():
    plain, bad = page_html(alarmed()), page_html(hostile(alarmed()))
    assert not set(embedded(page_data(hostile(alarmed())))) & set("<>&\u2028\u2029")
    assert "&lt;/script&gt;" in bad
    for mark in ("<", ">", "</script", "<script", "<img", "<!--"):
        assert bad.count(mark) == plain.count(mark)


def test_the_script_makes_no_markup_and_no_request():
    text = page_html(alarmed())
    script = text.rpartition("<script>")[2]
    assert all(name.endswith(".js") for name in SCRIPTS)
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                      "fetch(", "XMLHttpRequest", "import("):  # fmt: skip
        assert forbidden not in script
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}


def test_without_script_the_verdict_and_the_claims_are_there():
    text = page_html(alarmed()).partition("<noscript>")[2].partition("</noscript>")[0]
    assert "ALARM: The share of bad rows among the accepted is above" in text
    assert "Recalibrate" in text
    assert "Bad among the accepted: ALARM." in text
    assert re.search(r"Mean loss: .* minutes \(.* minutes to .* minutes\)", text)
    assert "not tested. flagged rows have no known chance" in text


def test_what_is_not_a_status_is_refused():
    with pytest.raises(ValueError, match=r"Status.to_dict\(\); verdict, action missing"):
        page_html({"made_at": time_text(0)})
    with pytest.raises(ValueError, match=r"ISO 8601.*'yesterday'"):
        page_html(empty() | {"made_at": "yesterday"})
    with pytest.raises(ValueError, match="null for infinite"):
        page_html(empty() | {"counts": {"decisions": float("nan")}})


def test_times_without_an_offset_are_utc():
    shown = page_data(
        empty() | {"made_at": "2013-04-01T12:00:00", "since": "2013-04-01T14:00+02:00"}
    )
    assert shown["made_at"] == shown["since"]


def test_a_long_line_is_thinned_and_keeps_its_ends_and_its_peak():
    claim = accepted([0.19] * 1000, seed=5)
    peak = max(claim["days"][:-3], key=lambda d: d["log_e"])
    (shown,) = page_data(status([claim], 1000))["claims"]
    line = shown["line_of"]
    assert 60 <= len(line["at"]) <= 121
    assert line["at"] == sorted(set(line["at"]))
    assert (line["n"][0], line["n"][-1]) == (claim["days"][0]["n"], claim["days"][-1]["n"])
    assert max(line["log_e"]) == pytest.approx(peak["log_e"], rel=1e-5)
    step, first = line["per"], claim["days"][: line["per"]]
    mean = sum(d["day_estimate"] for d in first) / step
    assert next(a for a in line["alone"] if a is not None) == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize(
    ("n_days", "period"), [(1, "day"), (92, "day"), (93, "week"), (400, "week"), (700, "month")]
)
def test_bars_are_few_and_hold_every_label(n_days, period):
    data = status([], n_days)
    bars = page_data(data)["bars"]
    assert bars["period"] == period
    assert len(bars["rows"]) <= 93
    for key in ("decisions", "labelled", "awaited"):
        assert sum(row[key] for row in bars["rows"]) == data["counts"][key]
    assert all(row["to"] - row["at"] >= DAY for row in bars["rows"])


def test_of_many_claims_the_most_urgent_are_first():
    data = many()
    shown = page_data(data)["claims"]
    assert len(shown) == len(data["claims"])
    alarms = [c["alarmed_at"] for c in shown if c["alarmed_at"] is not None]
    assert alarms == sorted(alarms)
    assert [c["alarmed_at"] for c in shown[: len(alarms)]] == alarms
    rest = [c["log_e"] for c in shown[len(alarms) :]]
    assert rest == sorted(rest, reverse=True)
    assert [c["is_open"] for c in shown] == [i < MOST_OPEN for i in range(30)]
    few = page_data(alarmed())["claims"]
    assert [c["name"] for c in few] == [c["name"] for c in alarmed()["claims"]]


def test_the_largest_page_is_below_2_mb():
    data = many(n_groups=200, n_days=60)
    long = accepted([0.17] * 400)["days"]
    text = page_html(data | {"claims": [c | {"days": long} for c in data["claims"]]})
    assert sum(c["line_of"] is not None for c in data_in(text)["claims"]) == MOST_DRAWN
    assert len(text.encode()) < 2e6
