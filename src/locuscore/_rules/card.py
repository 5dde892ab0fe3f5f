"""The guarantee card: what a rule promises, as text of at most 80 columns and for a notebook."""

import math
import textwrap
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from scipy.stats import beta

from locuscore._shared.cards import Card, Facts, Kind, Table
from locuscore._shared.readable import amount, readable
from locuscore._shared.shown import cut, first_sentence

if TYPE_CHECKING:
    from locuscore._rules.cascade_rule import CascadeRule
    from locuscore._rules.group_rule import GroupRule
    from locuscore._rules.rule import FlagRule

    AnyRule: TypeAlias = FlagRule | GroupRule | CascadeRule

WIDTH = 80
LABEL = 13
MOST_NAMED = 20  # groups in a sentence
MOST_LISTED = 12  # groups in the table
ASSUMES, SEND_IF = "assumes", "send if"
P_VALUE, SMALLEST_P = "p_value", 1e-15  # smaller ones are shown as that: no p-value is zero

STANDING = {
    "theorem": "THEOREM - holds for a rule fixed in advance, in finite samples",
    "certificate": "CERTIFICATE - proven from data, in finite samples",
    "heuristic": "HEURISTIC - tuned on data, nothing is guaranteed",
}


Entry = tuple[str, tuple[str, ...]]  # a label, and what it says in one or several lines
Folded = tuple[str, Facts | Table]


def card(rule: "FlagRule") -> str:
    """Return the card as text."""
    return _text(_entries(rule), _table(rule.table, rule.threshold))


def group_card(rule: "GroupRule") -> str:
    """Return the card of a rule with a threshold for each group."""
    table = _group_table(rule)
    lines = ["".join(name.rjust(15) for name in table.head)]
    for row in table.rows[:MOST_LISTED]:
        lines.append("".join(cell.rjust(15) for cell in (_short(row[0]), *row[1:])))
    return _text(_group_entries(rule), lines)


def cascade_card(rule: "CascadeRule") -> str:
    """Return the card of a cascade."""
    table = _table(rule.table, rule.evidence.get("step", float("nan")), "step")
    return _text(_cascade_entries(rule), table)


def card_html(rule: "FlagRule") -> str:
    """Return the card for a notebook; the evidence and what was tried are folded."""
    tried = _tried(rule.table, rule.threshold, "threshold")
    return _html(rule, _entries(rule), None, [*_folded(rule.evidence), *tried])


def group_card_html(rule: "GroupRule") -> str:
    """Return the card of a rule with a threshold for each group, for a notebook."""
    return _html(rule, _group_entries(rule), _group_table(rule), [])


def cascade_card_html(rule: "CascadeRule") -> str:
    """Return the card of a cascade, for a notebook."""
    tried = _tried(rule.table, rule.evidence.get("step"), "step")
    return _html(rule, _cascade_entries(rule), None, [*_folded(rule.evidence), *tried])


def rule_text(rule: "AnyRule", accepts: str, evidence: Mapping[str, Any]) -> str:
    """What a rule shows at a prompt: when it accepts, what that guarantees, from which rows."""
    head = f"{type(rule).__name__}({accepts})"
    promise = f"  {rule.standing}: {first_sentence(rule.guarantee, 110)}"
    names = ("n", "k", "n_rows", "n_clusters", "n_accepted", "n_sent", "n_bad", "p_value")
    facts = ", ".join(_fact(name, evidence[name]) for name in names if name in evidence)
    return "\n".join([cut(head, 96), promise, *([f"  {cut(facts, 72)}"] if facts else [])])


def condition(rule: "FlagRule") -> str:
    """When a rule accepts, in words."""
    notes = {float("-inf"): "  (accepts nothing)", float("inf"): "  (accepts every finite score)"}
    unit = rule.unit if rule.score.is_in_loss_units else ""
    limit = rule.threshold
    shown = amount(limit, unit, 6) if math.isfinite(limit) else f"{limit}"
    return f"{rule.score} <= {shown}{notes.get(limit, '')}"


def _text(entries: Sequence[Entry], table: Sequence[str]) -> str:
    lines = [" Guarantee card ".center(WIDTH, "=")]
    for label, texts in entries:
        mark = "- " if label == ASSUMES else ""
        hanging = 2 if label in (ASSUMES, SEND_IF) else 0
        for number, text in enumerate(texts):
            lines += _entry("" if number else label, mark + text, hanging)
    return "\n".join([*lines, *table, "=" * WIDTH])


def _html(
    rule: "AnyRule", entries: Sequence[Entry], table: Table | None, folded: Sequence[Folded]
) -> str:
    standing, _, meaning = STANDING[rule.standing].partition(" - ")
    kind: Kind = "warn" if rule.standing == "heuristic" or rule.accepts_nothing else "good"
    lead = f"{meaning[0].upper()}{meaning[1:]}."
    facts = [entry for entry in entries if entry[0] not in ("standing", "evidence")]
    return Card(
        "Guarantee card", standing.lower(), kind, lead, facts, table=table, folded=folded
    ).html()


def _folded(evidence: Mapping[str, Any]) -> list[Folded]:
    facts = [(_name(key), _shown(key, value)) for key, value in evidence.items()]
    return [("Evidence", facts)] if facts else []


def _entries(rule: "FlagRule") -> list[Entry]:
    shown = dict(rule.evidence)
    found: list[Entry] = [("accept if", (condition(rule),)), *_unit(rule), *_promise(rule)]
    match shown.get("coverage_beta"):  # a rule made by hand may have anything there
        case (int() | float() as k, int() | float() as rest) if k > 0 and rest > 0:
            found.append(("coverage", (_coverage(k, rest),)))
            del shown["coverage_beta"]
    return found + _evidence(shown)


def _group_entries(rule: "GroupRule") -> list[Entry]:
    told = "passed with the rows" if rule.by is None else f"in column {rule.by!r}"
    accept = f"{rule.score} <= the threshold of the row's group, {told}"
    many = "1 group is" if len(rule) == 1 else f"{len(rule)} groups are"
    groups = ("groups", (f"{many} on record, see to_frame()",))
    return [("accept if", (accept,)), *_unit(rule), *_promise(rule), groups]


def _cascade_entries(rule: "CascadeRule") -> list[Entry]:
    turns = [
        f"{'else' if number else 'first'} the score of {name!r} <= {limit:.6g}"
        + ("  (never)" if limit == float("-inf") else "")
        for number, (name, limit) in enumerate(zip(rule.models, rule.thresholds, strict=True))
    ]
    sends = (SEND_IF, (*turns, "else a person answers"))
    return [sends, *_promise(rule), *_evidence(rule.evidence)]


def _promise(rule: "AnyRule") -> list[Entry]:
    standing = ("standing", (STANDING[rule.standing],))
    return [standing, ("guarantee", (rule.guarantee,)), (ASSUMES, tuple(rule.assumptions))]


def _unit(rule: "FlagRule | GroupRule") -> list[Entry]:
    told = f"losses, bounds and tau are in {rule.unit}"
    entries: list[Entry] = [("unit", (told,))] if rule.unit else []
    return entries + ([("valid until", (rule.valid_until,))] if rule.valid_until else [])


def _evidence(evidence: Mapping[str, Any]) -> list[Entry]:
    text = "; ".join(_fact(key, value) for key, value in evidence.items())
    return [("evidence", (text,))] if text else []


def _group_table(rule: "GroupRule") -> Table:
    table = rule.table
    rows = [
        (repr(row[0]), *("" if part is None else _value(part) for part in row[1:]))
        for row in zip(*table.values(), strict=True)
    ]
    return Table([_name(column) for column in table], rows)


def _tried(table: Mapping[str, Sequence[float]], chosen: float | None, kind: str) -> list[Folded]:
    """What the text shows of the thresholds, or steps, tried."""
    rows = list(zip(*table.values(), strict=True))
    if not rows:
        return []
    place = next((i for i, row in enumerate(rows) if row[0] == chosen), None)
    shown = _spread(len(rows), place)
    cells = [[_cell(*pair) for pair in zip(table, rows[i], strict=True)] for i in shown]
    many = f"1 {kind}" if len(rows) == 1 else f"{len(rows):,} {kind}s"
    head = [_name(column) for column in table]
    at = None if place is None else shown.index(place)
    return [(f"Tried: {many}", Table(head, cells, at, "all of them: to_frame()"))]


def listed(labels: Sequence[Hashable], notes: Sequence[str] | None = None) -> str:
    """Labels of groups in a sentence, each with its note; of many, the first."""
    said = notes or [""] * len(labels)
    shown = [f"{label!r}{note}" for label, note in zip(labels, said, strict=True)][:MOST_NAMED]
    more = len(labels) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _short(text: str) -> str:
    return text if len(text) < 15 else text[:11] + "..."


def _entry(label: str, text: str, hanging: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=label.ljust(LABEL),
        subsequent_indent=" " * (LABEL + hanging),
        break_on_hyphens=False,
    )


def _coverage(k: float, rest: float) -> str:
    low, high = beta.ppf([0.025, 0.975], k, rest)
    return (
        f"given these calibration rows, the share of new losses within their bound is a draw from "
        f"Beta({k:g}, {rest:g}) without ties, at least that with them: mean {k / (k + rest):.4g}, "
        f"middle 95 % from {low:.4g} to {high:.4g}"
    )


def _fact(key: str, value: Any) -> str:
    shown = _shown(key, value)
    return f"{_name(key)} {shown}" if shown.startswith("<") else f"{_name(key)} = {shown}"


def _shown(key: str, value: Any) -> str:
    is_small = key == P_VALUE and isinstance(value, float) and value < SMALLEST_P
    return f"< {SMALLEST_P:.0e}" if is_small else _value(value)


def _name(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_value(part) for part in value) + ")"
    if isinstance(value, float):
        return readable(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(
    table: Mapping[str, Sequence[float]], threshold: float, kind: str = "threshold"
) -> list[str]:
    """At most seven of the thresholds, or steps, tried, the chosen one marked."""
    if not table:
        return []
    rows = list(zip(*table.values(), strict=True))
    if not rows:
        return _entry("tried", "no threshold: no finite score to place one")
    chosen = next((i for i, row in enumerate(rows) if row[0] == threshold), None)
    shown = _spread(len(rows), chosen)
    many = f"1 {kind} is" if len(rows) == 1 else f"{len(rows)} {kind}s are"
    lines = _entry("tried", f"{many} on record, see to_frame()")
    head = "".join(_short(_name(column)).rjust(15) for column in table)
    lines.append((" " * 4 + head)[:WIDTH])
    for i in shown:
        cells = "".join(_cell(*pair).rjust(15) for pair in zip(table, rows[i], strict=True))
        lines.append((" " * 2 + (">" if i == chosen else " ") + " " + cells)[:WIDTH])
    return lines


def _spread(n: int, chosen: int | None) -> list[int]:
    """A few of n places, with the chosen one and the next."""
    spread = {round(i * (n - 1) / 5) for i in range(6)}
    return sorted(spread | (set() if chosen is None else {chosen, min(chosen + 1, n - 1)}))


def _cell(name: str, value: float) -> str:
    small = name == P_VALUE and value < SMALLEST_P
    return f"< {SMALLEST_P:.0e}" if small else f"{value:.6g}"
