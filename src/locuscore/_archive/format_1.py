"""What format 1, written by version 0.1.0, says in its own way, said in the way of format 2.

Only names and places change here. Nothing is built, and every check comes afterwards.
"""

from collections.abc import Mapping
from typing import Any


def upgraded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``scorer.json`` of format 1 holds as format 2 holds it."""
    locus = {name: _value(part) for name, part in state["locus"].items()}
    # The first archives lack both; several outputs were not counted then.
    locus = {"target": None, "n_outputs": 1} | locus
    signals = locus.pop("signals")
    encoders = {"encoder": signals["encoder"], "output_encoder": signals["listener"]}
    locus["signals_"] = _object("Signals", encoders)
    locus["calibration_"] = _object("Marginal", {"tails": locus.pop("tails_")})
    return {**state, "locus": locus}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    node = {name: _value(part) for name, part in value.items()}
    if node.get("is") == "neighbours":
        return _object("Neighbours", {"rows": node["rows"], "k": node["n_neighbors"]})
    if node.get("is") != "object" or "class" not in node:
        return node
    kind, parts = node["class"], node["state"]
    if kind == "Forests":  # the JSON of stochtree was named without saying that it is text
        parts = {
            name: [n_trees, is_exponentiated, {"is": "text", "member": member}]
            for name, (n_trees, is_exponentiated, member) in parts.items()
        }
    if kind == "BART":  # the number of signals stood beside the forests that are checked by it
        forests = parts["forests_"]["state"] | {"n_signals": parts["n_signals_"]}
        rest = {name: part for name, part in parts.items() if name != "n_signals_"}
        parts = {**rest, "forests_": _object("Forests", forests)}
    return _object(kind, parts)


def _object(kind: str, state: Any) -> dict[str, Any]:
    return {"is": "object", "kind": kind, "state": state}
