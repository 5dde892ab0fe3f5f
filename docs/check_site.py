"""Look at the built site as a reader would: ``python docs/check_site.py build/docs/html``.

Without a network: no page is wider than a telephone, axe has no serious finding on a page of each
kind, light and dark, and the search finds a word. Without Chromium nothing is checked, and that is
an error where the environment variable LOCUSCORE_BROWSER is ``required``.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
# One page of each kind: home, text, wide tables, gallery, an example, a name of the reference.
KINDS = [
    "docs/index",
    "docs/faq",
    "docs/guarantees",
    "docs/gallery/index",
    "docs/gallery/plot_2_diamonds",
    "docs/reference/generated/locuscore.Scorer",
]
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = (
    "[...document.querySelectorAll('article pre')].filter((e) => e.scrollWidth > e.clientWidth + 1)"
)


def too_wide(page: Any, site: Path) -> Iterator[str]:
    """Pages of docs/ that a telephone cannot show without moving sideways, or with cut code."""
    for path in sorted((site / "docs").glob("*.html")):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        if page.evaluate(WIDER) > 0:
            yield f"{path.stem} is wider than a telephone"
        if cut := page.evaluate(f"{CUT}.length"):
            yield f"{path.stem} cuts {cut} blocks of code on a telephone"


def serious(page: Any, path: Path) -> Iterator[str]:
    """What axe calls serious or critical."""
    page.goto(path.as_uri())
    for found in Axe().run(page).response["violations"]:
        if found["impact"] in ("serious", "critical"):
            places = [node["html"][:120] for node in found["nodes"][:3]]
            yield f"{path.stem}: {found['id']} at {len(found['nodes'])} places, such as {places}"


def search(page: Any, site: Path) -> Iterator[str]:
    """The search works from files, as it must without a network."""
    page.goto(f"{(site / 'search.html').as_uri()}?q=recalibrate")
    try:
        page.locator("#search-results li a").first.wait_for(timeout=30_000)
    except Exception:
        yield "the search finds nothing"


def troubles(browser: Any, site: Path) -> Iterator[str]:
    """All that is wrong with the site."""
    phone = browser.new_context(viewport=PHONE, color_scheme="dark", offline=True)
    desktop = browser.new_context(viewport=DESKTOP, color_scheme="light", offline=True)
    page, wide = phone.new_page(), desktop.new_page()
    yield from too_wide(page, site)
    for name in KINDS:
        yield from serious(wide, site / f"{name}.html")
        yield from serious(page, site / f"{name}.html")
    yield from search(wide, site)


def main() -> int:
    """Check the site in the folder that the command line names; 1 if something is wrong."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write("Chromium is missing: the site was built and not looked at.\n")
        return int(os.environ.get("LOCUSCORE_BROWSER") == "required")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        found = list(troubles(browser, Path(sys.argv[1]).resolve()))
        browser.close()
    sys.stderr.writelines(f"{trouble}\n" for trouble in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
