import json
import re

import numpy as np
import pytest

from locuscore._shared.page import embedded
from locuscore.report._html import SCRIPTS, page
from report_data import simulated, simulated_summary

HOSTILE = "</script><img src=x onerror=alert(1)><!-- {{card}} ${1} \" ' & \u2028\u2029"


@pytest.fixture(scope="module")
def summary():
    return simulated_summary(simulated(n=60, n_calibration=40))


def test_the_data_in_the_page_are_the_summary(summary):
    text = page(summary)
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert json.loads(data) == summary


def test_no_markup_can_come_from_data(summary):
    hostile = summary | {
        "title": HOSTILE,
        "guarantee": {"card": HOSTILE, "standing": "none", "sentences": [HOSTILE]},
        "facts": [{"name": HOSTILE, "value": HOSTILE}],
    }
    plain = page(
        summary | {"title": "", "guarantee": {"card": "", "standing": "", "sentences": [""]}}
    )
    assert json.loads(embedded(hostile)) == hostile
    assert not set(embedded(hostile)) & set("<>&\u2028\u2029")
    for mark in ("<", ">", "</script", "<img", "<!--"):
        assert page(hostile).count(mark) == plain.count(mark)


def test_numbers_that_json_has_not_are_refused(summary):
    with pytest.raises(ValueError, match="null for infinite"):
        page(summary | {"n_rows": float("nan")})


def test_the_script_makes_no_markup_and_no_request(summary):
    text = page(summary)
    script = text.rpartition("<script>")[2]
    assert all(name.endswith(".js") for name in SCRIPTS)
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                      "fetch(", "XMLHttpRequest", "import("):  # fmt: skip
        assert forbidden not in script
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a vocabulary, never fetched


def test_the_largest_page_is_below_3_mb(summary):
    big = [[9_999_999] * 99] * 200
    explorer = summary["explorer"] | {
        "taus": [1234.567890123456 + i for i in range(200)],
        "accepted": big,
        "bad": big,
        "losses_above": [9_999_999] * 200,
        "threshold": summary["explorer"]["threshold"]
        | {"accepted": [9_999_999] * 200, "bad": [[9_999_999] * 200] * 200},
    }
    points = [[1234.567890123456, 1234.567890123456]] * 2000
    largest = summary | {
        "explorer": explorer,
        "bound_vs_loss": summary["bound_vs_loss"] | {"points": points},
    }
    assert len(page(largest).encode()) < 2e6


PAIRS = [  # text on its ground, at least 4.5 : 1
    *((ink, ground) for ink in ("ink", "soft") for ground in ("page", "panel", "inset")),
    ("accent", "panel"),
    ("on-accent", "accent"),
    ("page", "ink"),
    *((f"{kind}-ink", kind) for kind in ("good", "bad", "warn")),
    ("bad-ink", "panel"),
    ("bad-ink", "inset"),
    ("good-ink", "panel"),
]
MARKS = ["blue", "orange", "green", "purple", "red", "control", "accent"]  # at least 3 : 1


def contrast(first, second):
    """Ratio of two colours as WCAG 2 defines it."""

    def luminance(colour):
        shares = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_apart(summary, theme):
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", page(summary))
    colour = {name: both[theme] for name, *both in found}
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert not [pair for pair in PAIRS if contrast(*(colour[name] for name in pair)) < 4.5]
    assert not [name for name in MARKS if contrast(colour[name], colour["panel"]) < 3]
