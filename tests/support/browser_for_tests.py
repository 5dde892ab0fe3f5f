"""Pages in a real browser, for tests: no error may be seen, and no request but for the file."""

import contextlib
import os
import shutil

import pytest

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"><!-- ${1} {{card}} ' \u2028 &lt;"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 800}
UNDRAWN = ".chart:empty:not(details:not([open]) *)"
OUTSIDE = """[...document.querySelectorAll('.chart svg')].flatMap((svg) => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter((t) => { const r = t.getBoundingClientRect();
    return r.width && (r.left < box.left - 1 || r.right > box.right + 1
      || r.top < box.top - 1 || r.bottom > box.bottom + 1); }).map((t) => t.textContent); })"""
OVERLAPS = """[...document.querySelectorAll('.chart svg')].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll('text')].map((t) => [t, t.getBoundingClientRect()]);
  return boxes.flatMap(([t, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
    .map(([u]) => t.textContent + ' | ' + u.textContent)); })"""


@contextlib.contextmanager
def started_browser():
    """Chromium while the block runs; without one the test is skipped, or fails where required."""
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    path = next((path for path in found if path), None)
    if path is None:
        message = "the page needs a browser: install Chromium, e.g. apt-get install chromium"
        if os.environ.get("LOCUSCORE_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@contextlib.contextmanager
def page_opener(browser, folder, page_of):
    """A function that opens the page of some data; at the end nothing may have gone wrong."""
    contexts, errors, requests, files = [], [], [], set()

    def opened(data, **options):
        context = browser.new_context(**({"viewport": DESKTOP} | options))
        context.on("request", lambda request: requests.append(request.url))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: errors.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        from playwright.sync_api import expect

        file = folder / f"page-{len(files)}.html"
        file.write_text(page_of(data), encoding="utf-8")
        files.add(file.as_uri())
        page.goto(file.as_uri())
        if options.get("java_script_enabled", True):
            # Charts are drawn when their width is known; those in a fold when it is opened.
            expect(page.locator(UNDRAWN)).to_have_count(0, timeout=30_000)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors
    assert set(requests) == files


def serious_violations(page):
    """What axe calls serious or critical, with all that is folded away opened."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = Axe().run(page).response["violations"]
    told = [(v["id"], v["impact"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found]
    return [v for v in told if v[1] in ("serious", "critical")]


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def overflow(page):
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
