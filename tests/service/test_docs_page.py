"""The page on which the service can be tried: in a browser, offline, for everybody."""

import json
import re

import pytest

from browser_for_tests import DESKTOP, PHONE, serious_violations, started_browser
from helpers import LONGEST_WAIT
from service_for_tests import frame_scorer, running

pytestmark = pytest.mark.extra
KEY = "k" * 20


@pytest.fixture(scope="module")
def service():
    from locuscore.service import Settings

    with running(frame_scorer(), Settings(api_key=KEY)) as client:
        yield str(client.base_url)


def is_fault(message):
    """Whether the browser complains, but for the answer that a test provokes."""
    return message.type == "error" and "422" not in message.text


@pytest.fixture
def opened(service):
    """Opens the page; at the end nothing may have gone wrong, and nobody else been asked."""
    errors, requests = [], []
    with started_browser() as browser:

        def open_page(**options):
            credentials = {"username": "", "password": KEY}
            context = browser.new_context(http_credentials=credentials, **options)
            context.on("request", lambda request: requests.append(request.url))
            page = context.new_page()
            page.set_default_timeout(1000 * LONGEST_WAIT)
            page.on("console", lambda m: errors.append(m.text) if is_fault(m) else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"{service}/docs")
            page.wait_for_selector("details")
            return page

        yield open_page
    assert not errors
    assert requests
    assert all(url.startswith(service) for url in requests)


def test_a_row_is_scored_from_the_page(opened):
    from playwright.sync_api import expect

    page = opened(viewport=DESKTOP)
    assert page.locator("summary").count() == 9  # routes without a ledger
    page.fill("#key", KEY)
    score = page.locator("details").filter(has_text="One result for each row")
    assert set(json.loads(score.locator("textarea").input_value())["rows"][0]) == {
        *("size", "rooms", "town", "state")
    }
    score.locator("button").click()
    expect(score.locator("pre")).to_contain_text("model", timeout=1000 * LONGEST_WAIT)
    answer = json.loads(score.locator("pre").text_content())
    assert answer["rows"][0]["bound_0.1_is_infinite"] is False
    assert re.match(r"200 in \d+ ms, request [0-9a-f]{32}", score.locator(".status").text_content())
    score.locator("textarea").fill("{}")
    score.locator("button").click()
    page.wait_for_selector(".status.bad")
    assert score.locator(".status").text_content().startswith("422")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_for_everybody(opened, scheme):
    assert serious_violations(opened(viewport=PHONE, color_scheme=scheme)) == []


def test_the_policy_lets_only_our_own_script_run(opened):
    page = opened(viewport=DESKTOP)
    policy = page.request.get(page.url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
