"""Numbers and texts as people read them."""

import pytest

from locuscore._shared.readable import readable, readable_pair, shortened


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (412_000.0, "412,000"),
        (412_345.6, "412,346"),
        (3.2, "3.2"),
        (-1234.56, "-1,235"),
        (999.96, "1,000"),
        (0.0012345678, "0.001235"),
        (1e-5, "1e-05"),
        (1e15, "1e+15"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_four_digits_and_all_before_the_point(value, text):
    assert readable(value) == text


@pytest.mark.parametrize(
    ("pair", "texts"),
    [
        ((412_000, 530_000), ("412,000", "530,000")),
        ((567.5, 567.93), ("567.5", "567.9")),
        ((293.12, 293.15), ("293.12", "293.15")),  # four digits would not tell them apart
        ((5.3, 5.3 + 1e-9), ("5.300000", "5.300000")),
        ((-0.004, 530.1), ("0.0", "530.1")),
        ((0, 0), ("0", "0")),
        ((1e-6, 2e-6), ("1e-06", "2e-06")),
    ],
)
def test_a_pair_shows_how_it_differs(pair, texts):
    assert readable_pair(*pair) == texts


def test_long_texts_lose_their_end():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab\u2026"
