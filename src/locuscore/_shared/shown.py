"""How objects show themselves at a prompt: a few facts, arrays by their size, long text cut."""

import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

LONGEST_VALUE = 60
LONGEST_LINE = 96
MOST_LINES = 3  # of facts: 300 characters at most, with the dots that stand for the rest


class Shown:
    """Base of dataclasses with ``repr=False``: their fields, those that are None left out."""

    def __repr__(self) -> str:
        assert is_dataclass(self)
        names = (part.name for part in fields(self) if part.repr)
        values = {name: getattr(self, name) for name in names}
        return call_text(self, {k: v for k, v in values.items() if v is not None})


def call_text(shown: Any, facts: Mapping[str, Any]) -> str:
    """``Name(fact=value, ...)`` in at most three lines."""
    inner = ", ".join(f"{name}={value_text(value)}" for name, value in facts.items())
    return lines_text(f"{type(shown).__name__}({inner})", most=MOST_LINES)


def lines_text(text: str, most: int) -> str:
    """A text in at most so many lines; dots stand for the rest."""
    return "\n".join(
        textwrap.wrap(
            text,
            LONGEST_LINE,
            subsequent_indent="    ",
            max_lines=most,
            placeholder=" ...",
            break_on_hyphens=False,
        )
    )


def value_text(value: Any, most: int = LONGEST_VALUE) -> str:
    """A value in one short line: a number in few digits, an array by its size."""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, str | bytes | bytearray):  # not all of a long one
        return cut(repr(value[: most + 1]), most)
    if isinstance(value, Mapping | Set | Sequence):
        if len(value) <= most:
            text = " ".join(repr(value).split())
            if len(text) <= most:
                return text
        return f"<{len(value):,} {'entry' if len(value) == 1 else 'entries'}>"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        size = " x ".join(f"{side:,}" if isinstance(side, int) else str(side) for side in shape)
        return f"<{type(value).__name__} of {size}>"
    return cut(repr(value), most)


def cut(text: str, most: int) -> str:
    """A text as one line; of one that is too long the beginning, with dots."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def first_sentence(text: str, most: int = 150) -> str:
    """The first sentence of a text, cut if it is too long."""
    return cut(text.partition(". ")[0].rstrip("."), most)
