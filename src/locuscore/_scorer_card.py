"""How a `Scorer` shows itself: a few lines at a prompt, a card in a notebook."""

from typing import Any

from locuscore._row_card import fitted_text, predictor_text, promise_text
from locuscore._shared.cards import Card, Kind, Table
from locuscore._shared.shown import cut, first_sentence

WHAT = {
    "prediction": "what the predictor says",
    "bound": "the loss is above it for at most this share of new rows",
    "score": "what the rule compares with its threshold",
    "flag": "true where the rule does not accept",
}


def scorer_text(scorer: Any) -> str:
    """Columns, how they were fitted, and the promise."""
    names, rule = ", ".join(scorer.column_names), scorer.rule
    promise = promise_text(scorer.locus)
    if rule is not None:
        promise = first_sentence(f"{rule.standing}: {rule.guarantee}", 90)
    lines = (f"Scorer({cut(names, 90)})", fitted_text(scorer.locus), promise)
    return "\n  ".join(lines)


def scorer_card(scorer: Any) -> str:
    """What comes out, what goes in, and what is promised; the rule's own card has the rest."""
    locus, rule = scorer.locus, scorer.rule
    facts = [
        ("predictor", predictor_text(locus.predictor_)),
        ("rows in", repr(scorer.schema).removeprefix("Schema(").removesuffix(")")),
        ("losses", f"{locus.loss_.name}{f', in {locus.unit_}' if locus.unit_ else ''}"),
        ("model", fitted_text(locus)),
        ("bounds", locus.calibration_.sentence(list(scorer.alphas))),
        ("digest", scorer.digest),
    ]
    if rule is not None:
        facts.insert(-1, ("rule", f"{rule.standing}: {rule.guarantee}"))
    columns = [(column.name, WHAT[column.role]) for column in scorer.columns]
    badge = "no rule" if rule is None else rule.standing
    kind: Kind = "plain" if rule is None else "warn" if badge == "heuristic" else "good"
    table = Table(("column", "what it holds"), columns, is_text=True)
    return Card("Scorer", badge, kind, "Rows in, columns out.", facts, table=table).html()
