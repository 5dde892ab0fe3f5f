"""The guarantee card: what a rule promises, as plain text of at most 80 columns."""

import textwrap
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scipy.stats import beta

if TYPE_CHECKING:
    from locuscore._rules.cascade_rule import CascadeRule
    from locuscore._rules.group_rule import GroupRule
    from locuscore._rules.rule import FlagRule

WIDTH = 80
LABEL = 13
MOST_NAMED = 20  # groups in a sentence
MOST_LISTED = 12  # groups in the table
P_VALUE, SMALLEST_P = "p_value", 1e-15  # smaller ones are shown as that: no p-value is zero

STANDING = {
    "theorem": "THEOREM - holds for a rule fixed in advance, in finite samples",
    "certificate": "CERTIFICATE - proven from data, in finite samples",
    "heuristic": "HEURISTIC - tuned on data, nothing is guaranteed",
}


def card(rule: "FlagRule") -> str:
    """Return the card as text."""
    threshold, evidence = rule.threshold, rule.evidence
    notes = {float("-inf"): "  (accepts nothing)", float("inf"): "  (accepts every finite score)"}
    lines = [" Guarantee card ".center(WIDTH, "=")]
    unit = f" {rule.unit}" if rule.unit and rule.score.is_in_loss_units else ""
    note = notes.get(threshold, unit)
    lines += _entry("accept if", f"{rule.score} <= {threshold:.6g}{note}")
    lines += _unit(rule)
    lines += _entry("standing", STANDING[rule.standing])
    lines += _entry("guarantee", rule.guarantee)
    for number, assumption in enumerate(rule.assumptions):
        lines += _entry("" if number else "assumes", f"- {assumption}", hanging=2)
    shown = dict(evidence)
    match shown.get("coverage_beta"):  # a rule made by hand may have anything there
        case (int() | float() as k, int() | float() as rest) if k > 0 and rest > 0:
            lines += _entry("coverage", _coverage(k, rest))
            del shown["coverage_beta"]
    if shown:
        text = "; ".join(_fact(key, value) for key, value in shown.items())
        lines += _entry("evidence", text)
    lines += _table(rule.table, threshold)
    return "\n".join([*lines, "=" * WIDTH])


def group_card(rule: "GroupRule") -> str:
    """Return the card of a rule with a threshold for each group."""
    told = "passed with the rows" if rule.by is None else f"in column {rule.by!r}"
    lines = [" Guarantee card ".center(WIDTH, "=")]
    lines += _entry("accept if", f"{rule.score} <= the threshold of the row's group, {told}")
    lines += _unit(rule)
    lines += _entry("standing", STANDING[rule.standing])
    lines += _entry("guarantee", rule.guarantee)
    for number, assumption in enumerate(rule.assumptions):
        lines += _entry("" if number else "assumes", f"- {assumption}", hanging=2)
    many = "1 group is" if len(rule) == 1 else f"{len(rule)} groups are"
    lines += _entry("groups", f"{many} on record, see to_frame()")
    table = rule.table
    lines.append("".join(_name(column).rjust(15) for column in table))
    for row in list(zip(*table.values(), strict=True))[:MOST_LISTED]:
        cells = [_short(repr(row[0])), *("" if part is None else _value(part) for part in row[1:])]
        lines.append("".join(cell.rjust(15) for cell in cells))
    return "\n".join([*lines, "=" * WIDTH])


def _unit(rule: "FlagRule | GroupRule") -> list[str]:
    told = _entry("unit", f"losses, bounds and tau are in {rule.unit}") if rule.unit else []
    return told + (_entry("valid until", rule.valid_until) if rule.valid_until else [])


def cascade_card(rule: "CascadeRule") -> str:
    """Return the card of a cascade."""
    lines = [" Guarantee card ".center(WIDTH, "=")]
    for number, (name, limit) in enumerate(zip(rule.models, rule.thresholds, strict=True)):
        note = "  (never)" if limit == float("-inf") else ""
        label = "" if number else "send if"
        turn = "else" if number else "first"
        lines += _entry(label, f"{turn} the score of {name!r} <= {limit:.6g}{note}", hanging=2)
    lines += _entry("", "else a person answers")
    lines += _entry("standing", STANDING[rule.standing])
    lines += _entry("guarantee", rule.guarantee)
    for number, assumption in enumerate(rule.assumptions):
        lines += _entry("" if number else "assumes", f"- {assumption}", hanging=2)
    if rule.evidence:
        text = "; ".join(_fact(key, value) for key, value in rule.evidence.items())
        lines += _entry("evidence", text)
    lines += _table(rule.table, rule.evidence.get("step", float("nan")), "step")
    return "\n".join([*lines, "=" * WIDTH])


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
    if key == P_VALUE and isinstance(value, float) and value < SMALLEST_P:
        return f"{_name(key)} < {SMALLEST_P:.0e}"
    return f"{_name(key)} = {_value(value)}"


def _name(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_value(part) for part in value) + ")"
    if isinstance(value, float):
        return f"{value:.4g}"
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
    spread = {round(i * (len(rows) - 1) / 5) for i in range(6)}
    shown = sorted(spread | (set() if chosen is None else {chosen, min(chosen + 1, len(rows) - 1)}))
    many = f"1 {kind} is" if len(rows) == 1 else f"{len(rows)} {kind}s are"
    lines = _entry("tried", f"{many} on record, see to_frame()")
    head = "".join(_short(_name(column)).rjust(15) for column in table)
    lines.append((" " * 4 + head)[:WIDTH])
    for i in shown:
        cells = "".join(_cell(*pair).rjust(15) for pair in zip(table, rows[i], strict=True))
        lines.append((" " * 2 + (">" if i == chosen else " ") + " " + cells)[:WIDTH])
    return lines


def _cell(name: str, value: float) -> str:
    small = name == P_VALUE and value < SMALLEST_P
    return f"< {SMALLEST_P:.0e}" if small else f"{value:.6g}"
