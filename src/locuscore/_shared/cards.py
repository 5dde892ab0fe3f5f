"""Cards that objects show in a notebook: plain markup with its own style, no script, safe text.

What a card is made of is text, which is escaped here and nowhere else; only a picture is markup.
Colours follow the notebook's theme where it has one, else the reader's preference.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from locuscore._shared.page import HOME, palette, template
from locuscore._shared.shown import cut

Kind = Literal["good", "warn", "bad", "plain"]
Text = str | Sequence[str]  # several are lines of their own
Facts = Sequence[tuple[str, Text]]
MOST_ROWS = 12
LONGEST = 2_000  # characters of one text: a card is no place for more


@dataclass(frozen=True)
class Table:
    """Cells as text; the row `chosen` stands out, and of many rows the first are shown."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    chosen: int | None = None
    caption: str = ""
    is_text: bool = False  # words stand on the left, numbers on the right

    def markup(self) -> str:
        """The table, with a note on the rows that are left out."""
        head = "".join(f'<th scope="col">{safe(name)}</th>' for name in self.head)
        body = "".join(
            f"<tr{class_of('chosen') if i == self.chosen else ''}>"
            + "".join(f"<td>{safe(cell)}</td>" for cell in row)
            + "</tr>"
            for i, row in enumerate(self.rows[:MOST_ROWS])
        )
        more = len(self.rows) - MOST_ROWS
        notes = [self.caption, f"and {more:,} more" if more > 0 else ""]
        note = "; ".join(filter(None, notes))
        told = f"<p{class_of('note')}>{safe(note)}</p>" if note else ""
        words = class_of("words") if self.is_text else ""
        table = f"<table{words}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div{class_of('scroll')}>{table}</div>{told}"


@dataclass(frozen=True)
class Card:
    """A title with a badge, a sentence, facts by name, a picture, a table, and what is folded."""

    title: str
    badge: str = ""
    kind: Kind = "plain"
    lead: Text = ()
    facts: Facts = ()
    picture: str = ""  # markup, see `curve_picture.py`
    table: Table | None = None
    folded: Sequence[tuple[str, Facts | Table]] = ()
    link: tuple[str, str] | None = None  # what it says, and the address of a file

    def html(self) -> str:
        """The card as markup."""
        badge = f"<span{class_of('badge', self.kind)}>{safe(cut(self.badge, 60))}</span>"
        title = f"<b>{safe(cut(self.title, 120))}</b>"
        parts = [
            f"<div{class_of('head')}>{title}{badge if self.badge else ''}</div>",
            *(f"<p>{safe(line)}</p>" for line in _lines(self.lead)),
            _facts(self.facts),
            self.picture,
            "" if self.table is None else self.table.markup(),
        ]
        if self.link is not None:
            said, address = self.link
            parts.append(f'<p><a href="{safe(address)}" target="_blank">{safe(said)}</a></p>')
        for name, inner in self.folded:
            body = inner.markup() if isinstance(inner, Table) else _facts(inner)
            parts.append(f"<details><summary>{safe(name)}</summary>{body}</details>")
        return f'<div class="locuscore-card"><style>{_style()}</style>{"".join(parts)}</div>'


def _facts(facts: Facts) -> str:
    rows = [
        f"<dt>{safe(name)}</dt><dd>{'<br>'.join(map(safe, _lines(text)))}</dd>"
        for name, text in facts
        if text
    ]
    return f"<dl{class_of('facts')}>{''.join(rows)}</dl>" if rows else ""


def _lines(text: Text) -> Sequence[str]:
    return [text] if isinstance(text, str) else text


def safe(text: str) -> str:
    """Text that may stand in markup, also in an attribute; the end of a very long one is cut."""
    shown = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    return html.escape(shown, quote=True)


def class_of(*names: str) -> str:
    """The attribute with our names, which no style of the notebook has."""
    return f' class="{" ".join(f"locuscore-{name}" for name in names)}"'


@cache
def _style() -> str:
    """The style of all cards, without what only its readers need."""
    colours = f".locuscore-card {{ color-scheme: light dark; {palette()} }}"
    text = re.sub(r"/\*.*?\*/", "", colours + template(HOME, "card.css"), flags=re.DOTALL)
    return " ".join(text.split())
