"""The look at the built site, with which `make docs` ends, notices what readers trip over."""

import runpy
from pathlib import Path

import pytest

from browser_for_tests import PHONE, started_browser

pytestmark = pytest.mark.extra

SCRIPT = Path(__file__).parents[2] / "docs" / "check_site.py"
PAGE = """<!doctype html><html lang="en"><head><title>A page</title>
<meta name="viewport" content="width=device-width"></head>
<body><main><h1>A page</h1><article>{}</article></main></body></html>"""
WRONG = '<a href="x.html"></a><pre style="overflow: auto">{}</pre><p style="width: 900px">wide</p>'


def test_what_is_wrong_is_noticed(tmp_path):
    check = runpy.run_path(str(SCRIPT))  # which imports the browser
    (tmp_path / "docs").mkdir()
    for name, text in {"right": "<p>text</p>", "wrong": WRONG.format("code " * 200)}.items():
        (tmp_path / "docs" / f"{name}.html").write_text(PAGE.format(text), encoding="utf-8")
    with started_browser() as browser:
        page = browser.new_page(viewport=PHONE)
        wide = list(check["too_wide"](page, tmp_path))
        assert [line.split()[0] for line in wide] == ["wrong", "wrong"]
        assert list(check["serious"](page, tmp_path / "docs" / "right.html")) == []
        found = check["serious"](page, tmp_path / "docs" / "wrong.html")
        assert "link-name" in " ".join(found)
