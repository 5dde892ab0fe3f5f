"""The rows that a report lists, with the signals that make their bounds high or low."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from locuscore import Scorer
from locuscore._protocols import FloatArray
from locuscore._shared.readable import as_typed, is_code
from locuscore.report._attribution import MOST_SIGNALS, Attribution, attribute, rows_explained
from locuscore.report._laws import feature_names, signal_names
from locuscore.report._rows import Entry, Extremes, cell, is_number

MOST_REASONS = 8
MOST_IMPORTANCE = 30


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Explains rows by the signals of others, `background`, at the tolerance tau."""

    scorer: Scorer
    tau: float
    background: FloatArray
    seed: int

    def tables(self, extremes: Extremes) -> dict[str, Any]:
        """The rows that a page lists, each with its reasons, and how much each signal matters."""
        riskiest, safest = extremes.riskiest, extremes.safest
        entries, n = [*riskiest, *safest], len(riskiest)
        names = signal_names(self.scorer, len(entries[0].signals))
        room = rows_explained(len(names))
        explained = [*range(n)[: (room + 1) // 2], *range(n, len(entries))[: room // 2]]
        attribution = self._attribute([entries[i] for i in explained])
        self._add_probabilities(entries)
        columns, table = _table(self.scorer, entries, self.tau)
        rows = [
            {"row": entry.label, "values": values, "reasons": []}
            for entry, values in zip(entries, table, strict=True)
        ]
        if attribution is not None:
            for i, parts in zip(explained, attribution.values, strict=True):
                rows[i]["reasons"] = self._reasons(entries[i], parts, names)
        shown = {"columns": columns, "riskiest": rows[:n], "safest": rows[n:]}
        return {"rows": shown, "attribution": self._importance(attribution, names)}

    def _add_probabilities(self, entries: list[Entry]) -> None:
        """What a reader takes a score for: how likely a loss above tau is at these rows."""
        model = self.scorer.locus.loss_model_
        dist = model.dist(np.stack([entry.signals for entry in entries]))
        for entry, p in zip(entries, dist.estimate().sf(self.tau), strict=True):
            entry.cells["probability"] = float(p)

    def _attribute(self, entries: list[Entry]) -> Attribution | None:
        background = self.background
        if len(signal_names(self.scorer, background.shape[1])) > MOST_SIGNALS:
            return None
        # In random order: the first of the stream are not typical of it.
        background = np.random.default_rng(self.seed).permutation(background)
        signals = np.stack([entry.signals for entry in entries])
        alpha, tau = self.scorer.alphas[0], self.tau
        read = None if entries[0].read is None else np.array([entry.read for entry in entries])
        return attribute(self.scorer.locus, signals, background, alpha, tau, self.seed, read)

    def _reasons(self, entry: Entry, values: FloatArray, names: list[str]) -> list[dict[str, Any]]:
        # Signals begin with the columns of X, unless they are a function, or were reduced.
        signals = self.scorer.locus.signals_
        first = np.unique(signals.players(len(entry.signals)), return_index=True)[1]
        has_columns = signals.encoder is not None and signals.encoder.reduction_ is None
        known = entry.features if has_columns else []
        cells = [*known, *entry.signals[first].tolist()[len(known) :]]
        order = np.argsort(-np.abs(values), kind="stable")[:MOST_REASONS]
        reasons = []
        for j in order[values[order] != 0]:
            value = cell(cells[j], as_text=not is_number([cells[j]]))
            if is_code(names[j]) and isinstance(value, int | float) and value == int(value):
                value = str(int(value))  # its digits are not to be grouped
            reason = {"name": names[j], "value": value, "factor": math.exp(values[j])}
            if entry.opinion is not None and j == len(values) - 1:  # several columns, and the last
                reason |= {"value": None, "text": entry.opinion}
            reasons.append(reason)
        return reasons

    def _importance(self, found: Attribution | None, names: list[str]) -> dict[str, Any] | None:
        if found is None:
            return None
        mean = np.abs(found.values).mean(axis=0)
        order = np.argsort(-mean, kind="stable")[:MOST_IMPORTANCE]
        return {
            "method": found.method,
            "what": found.what,
            "n_rows": len(found.values),
            "n_background": found.n_background,
            "evaluations": found.evaluations,
            "seconds": found.seconds,
            "baseline": math.exp(found.base),
            "importance": [{"name": names[j], "mean_abs_log": float(mean[j])} for j in order],
        }


def _table(
    scorer: Scorer, entries: list[Entry], tau: float
) -> tuple[list[dict[str, str]], list[list[Any]]]:
    """Columns of the table of rows, and the cells of each row."""
    roles = {column.name: column.role for column in scorer.columns if column.role == "prediction"}
    names = {"bound": f"bound at alpha = {scorer.alphas[0]:g}"}
    names["probability"] = f"estimated P(loss > {as_typed(tau, scorer.locus.unit_)})"
    if scorer.rule is not None:
        names["score"] = str(scorer.rule.score)
    keys = list(entries[0].cells)
    columns = [
        {"key": key, "name": names.get(key, key), "role": roles.get(key, key)} for key in keys
    ]
    shown = feature_names(scorer)[: len(entries[0].features)]
    columns += [
        {"key": f"feature_{j}", "name": name, "role": "feature"} for j, name in enumerate(shown)
    ]
    table = [[*entry.cells.values(), *entry.features] for entry in entries]
    numeric = [is_number(list(values)) for values in zip(*table, strict=True)]
    for part, numbers in zip(columns, numeric, strict=True):
        part["kind"] = "number" if numbers else "text"
        if numbers and part["role"] == "feature" and is_code(part["name"]):
            part["kind"] = "code"
    cells = [
        [cell(value, as_text=not ok) for value, ok in zip(row, numeric, strict=True)]
        for row in table
    ]
    return columns, cells
