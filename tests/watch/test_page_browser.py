"""The page of a watch in a real browser: every state, access, safety."""

import itertools

import pytest

from browser_for_tests import (
    DESKTOP,
    HOSTILE,
    OUTSIDE,
    OVERLAPS,
    PHONE,
    background,
    overflow,
    page_opener,
    serious_violations,
    started_browser,
)

pytest.importorskip("sqlalchemy")

from locuscore.watch._page import page_html
from watch_data import STATES, alarmed, empty, hostile, many, missing_labels, status, unlabelled

pytestmark = pytest.mark.extra

# All that is open is there, and every chart has the width that it was drawn for.
SETTLED = """!document.querySelector('.chart:empty, .folded[open]:not(:has(.claim))') &&
  [...document.querySelectorAll('.chart svg')].every((svg) => !svg.checkVisibility() ||
    Math.abs(svg.parentElement.clientWidth - svg.viewBox.baseVal.width) < 2)"""
UNFOLD = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


def settle(page):
    """Wait by asking: the policy of the page forbids the browser's own waiting for a condition."""
    for _ in range(500):
        if page.evaluate(SETTLED):
            return
        page.wait_for_timeout(20)
    raise AssertionError("the page is still being drawn after 10 s")


@pytest.fixture(scope="module")
def browser():
    with started_browser() as started:
        yield started


@pytest.fixture
def show(browser, tmp_path):
    with page_opener(browser, tmp_path, page_html) as opened:
        yield opened


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_its_place(show, state):
    page = show(STATES[state]())
    text = page.locator("body").inner_text()
    for wrong in ("NaN", "undefined", "null", "Infinity", "[object"):
        assert wrong not in text
    assert page.locator("nav a").count() == page.locator("main > section").count()
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size)
        settle(page)
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(OVERLAPS) == []
        assert overflow(page) <= 0
    page.evaluate(UNFOLD)
    settle(page)
    assert page.evaluate(OUTSIDE) == []
    assert overflow(page) <= 0


def test_an_alarm_is_on_top_with_what_to_do(show):
    page = show(alarmed())
    assert "bad" in page.locator("#verdict").get_attribute("class").split()
    text = page.locator("#verdict").inner_text()
    assert "ALARM: The share of bad rows" in text
    assert "Exit code 4" in text
    assert "weekly recalibration" in page.locator("#action").inner_text()
    badges = page.locator(".claim .badge").all_inner_texts()
    assert badges == ["ALARM", "no alarm", "no alarm", "no alarm"]
    first, second, third, fourth = page.locator(".claim").all()
    assert "Alarm since 10\u00a0Jul\u00a02013" in first.inner_text()
    assert first.locator(".alarm-time").count() == 2  # in both of its pictures
    first.locator(".chart").first.locator(".hit").last.hover()
    tip = page.locator("#tip").inner_text()
    assert tip.startswith("31\u00a0Aug\u00a02013: 22.2\u00a0% (21.0\u00a0% to 23.4\u00a0%)")
    assert second.locator(".alarm-time").count() == 0
    assert page.locator("#labels .chart .alarm-time").count() == 1
    assert "10.34 to 11.80 minutes" in third.inner_text()
    assert "share of rows" not in fourth.inner_text()  # no share is promised
    assert "flagged rows have no known chance" in page.locator("#untested").inner_text()


def test_a_call_of_the_detector_is_not_an_alarm(show):
    claim = alarmed()["claims"][0] | {"alarmed_at": None}
    page = show(status([claim], 160, level="notice", sentence="Rows may have changed."))
    assert "warn" in page.locator("#verdict").get_attribute("class").split()
    assert "xit code" not in page.locator("#verdict").inner_text()
    card = page.locator(".claim")
    assert card.locator(".badge").inner_text() == "detector called"
    assert card.locator(".chart .call").count() == 1
    assert card.locator(".alarm-time, .alarm-mark").count() == 0
    assert "a call is not an alarm" in card.inner_text()


def test_drift_is_never_a_broken_promise(show):
    text = show(alarmed()).locator("#drift").inner_text()
    assert "Rows look different" in text
    assert "does not mean that a promise is broken" in text
    assert "3.40\u00a0%" in text


@pytest.mark.parametrize(
    ("make", "words", "badge"),
    [
        (empty, "No decisions yet.", "no rows yet"),
        (unlabelled, "No row is old enough yet: each is used when it is 7\u00a0days old.",
         "no rows yet"),
    ],
)  # fmt: skip
def test_an_empty_state_says_why(show, make, words, badge):
    page = show(make())
    card = page.locator(".claim").first
    assert card.locator(".empty").inner_text() == words
    assert card.locator(".badge").inner_text() == badge
    assert card.locator("svg[role=img]").count() == 0
    assert "plain" in page.locator("#verdict").get_attribute("class").split()


def test_rows_without_any_label(show):
    card = show(missing_labels()).locator(".claim").first
    assert card.locator(".empty").inner_text() == "No labels yet."
    assert card.locator(".badge").inner_text() == "no labels yet"
    assert card.locator("svg[role=img]").count() == 1  # the e-value is there


def test_many_claims_open_by_keyboard(show):
    page = show(many())
    assert page.locator(".claim").count() == 6
    assert page.locator(".folded").count() == 24
    page.locator(".folded summary").first.focus()
    for _ in range(3):  # open, closed, and open: it is made once
        page.keyboard.press("Enter")
        settle(page)
    assert page.locator(".folded .claim").count() == 1
    assert page.locator(".folded .claim svg[role=img]").count() == 2
    rows = page.locator("#claims > details table tbody tr")
    assert rows.count() == 30


def test_hostile_text_is_text(show):
    page = show(hostile(alarmed()), viewport=PHONE)
    page.evaluate(UNFOLD)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert page.title().endswith("locuscore watch")
    assert overflow(page) <= 0
    for place in (".claim h3", "#events tbody td", "#untested .reason", "#groups tbody th"):
        assert HOSTILE in page.locator(place).first.text_content()
    assert page.locator("pre").text_content() == HOSTILE
    odd = alarmed()["events"][0] | {"kind": "constructor"}
    page = show(alarmed() | {"events": [odd], "verdict": {"level": "__proto__", "sentence": "x"}})
    assert page.locator("#events tbody td").first.inner_text() == "constructor"


@pytest.mark.parametrize(("scheme", "size"), [("dark", DESKTOP), ("light", PHONE)])
def test_axe_finds_no_serious_violation(show, scheme, size):
    data = alarmed()
    short = [claim | {"days": claim["days"][::12]} for claim in data["claims"]]
    few = {"claims": short, "days": data["days"][-20:]}
    page = show(data | few, color_scheme=scheme, viewport=size)
    assert not serious_violations(page)


def test_it_is_dark_and_light_and_prints(show):
    page = show(alarmed(), color_scheme="light")
    light = background(page)
    page.locator("#theme").click()
    assert background(page) != light
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 between its margins
    assert page.locator("nav").is_hidden()
    assert overflow(page) <= 0
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(26, 32, 41)"


def test_charts_have_names_and_descriptions(show):
    page = show(alarmed())
    charts = page.locator("svg[role=img]")
    assert charts.count() == 10
    described = page.evaluate(
        """[...document.querySelectorAll('svg[role=img]')].map((svg) =>
          ['aria-labelledby', 'aria-describedby'].every((name) =>
            document.getElementById(svg.getAttribute(name)).textContent))"""
    )
    assert all(described)
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_e_values_beyond_any_float_are_written(show):
    claim = alarmed()["claims"][0] | {"log_e": 2000.0, "largest": 2000.0}
    page = show(status([claim], 160))
    assert "3.9\u00a0\u00d7\u00a010\u2078\u2076\u2078" in page.locator(".claim .tiles").inner_text()
