"""From labelled rows, however many, to one plain dict: all that a report shows."""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore import FlagRule, GroupRule, Reuse, Scorer
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.frames import as_array, as_batch, n_rows
from locuscore._shared.json_values import to_json
from locuscore._shared.labels import read_labels
from locuscore._shared.sampling import Columns, Reservoir, column_sample
from locuscore._shared.seeds import spawn_seeds
from locuscore.metrics import randomized_tails
from locuscore.report import _pictures as pictures
from locuscore.report import _words as words
from locuscore.report._attribution import (
    MOST_ORDERS,
    MOST_SIGNALS,
    Attribution,
    attribute,
    rows_explained,
)
from locuscore.report._clusters import ClusterCounts
from locuscore.report._counts import AcceptedLosses, ExplorerCounts, GroupCounts
from locuscore.report._entries import EntryCounts
from locuscore.report._grid import ALPHAS, Grid, certified, make_grid
from locuscore.report._laws import (
    Block,
    Laws,
    feature_names,
    signal_names,
    spread_column,
)
from locuscore.report._reuse import with_reuse
from locuscore.report._rows import Entry, Extremes, cell, is_number
from locuscore.report._rule_groups import RuleGroupCounts
from locuscore.report._verdict import (
    CONTRADICTED,
    Accepted,
    contradicted_thresholds,
    coverage_claim,
    judge,
    rule_claim,
    untested_in_clusters,
)

FORMAT = 1
NO_ROWS = "a report needs at least one labelled row; got none."
SAMPLE_ROWS = 100_000  # for quantiles, deciles and the PIT test; with fewer rows all of them
CURVE_ROWS = 20_000  # for the curves, which need every row's signals
CURVE_FLOATS = 4_000_000
MOST_REASONS = 8
MOST_IMPORTANCE = 30


class Summary:
    """What is known of the rows seen so far; memory does not grow with them.

    Counts are exact over all rows. `pilot` are some of the rows, batches (X, y, losses), best
    a random sample of a few thousand: the grid of tolerances goes through them, and nothing else
    uses them. The way rows are cut into batches changes nothing but the rounding of means.
    """

    def __init__(
        self,
        scorer: Scorer,
        pilot: Iterable[Sequence[Any]],
        *,
        group_name: str = "group",
        random_state: int | None = 0,
        allow_rows_used_in_fit: bool = False,
    ) -> None:
        self.scorer = scorer
        self.reuse: Reuse | None = None
        self._allows_reuse = allow_rows_used_in_fit
        rows_seed, curve_seed, pit_seed, self._order_seed, self._forest_seed = spawn_seeds(
            random_state, 5
        )
        self.grid = self._make_grid(pilot)
        self.counts = ExplorerCounts(self.grid)
        self.laws = Laws(scorer, self.grid.tau, self.counts.add)
        self.extremes = Extremes(scorer)
        self._group_name = group_name
        self.groups: GroupCounts | None = None
        self.clusters: ClusterCounts | None = None
        is_by_entry = scorer.locus.calibration_.n_entries is not None
        self.entries = EntryCounts(scorer, self.grid.tau) if is_by_entry else None
        self.sample = column_sample(SAMPLE_ROWS, rows_seed)
        self._curve_seed = curve_seed
        self.curve_sample: Reservoir[Columns] | None = None
        self._pit_rng = np.random.default_rng(pit_seed)
        self.pit_counts = np.zeros(pictures.PIT_BINS, dtype=np.int64)
        self.n_rows, self.loss_sum = 0, 0.0
        self.covered = np.zeros(len(scorer.alphas), dtype=np.int64)
        self.n_infinite = 0
        rule = scorer.rule
        self.accepted = None if rule is None else AcceptedLosses(rows_seed)
        self.rule_groups = RuleGroupCounts(rule) if isinstance(rule, GroupRule) else None

    def add(
        self,
        X: Any,
        y: ArrayLike | None = None,
        losses: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> None:
        """See a batch of labelled rows, possibly empty."""
        rows = self.scorer.schema.conform(as_batch(X)[0])
        labels = self._labels(groups, n_rows(rows))
        whole = self._cluster_labels(clusters, n_rows(rows))
        for block in self.laws.blocks(rows, y, losses, groups):
            if len(block):
                at = slice(block.source.start, block.source.start + len(block))
                self._add(block, None if labels is None else labels[at])
                if self.clusters is not None and whole is not None:
                    self.clusters.add(whole[at], block)
        self._look_up(rows, y, losses)

    def _look_up(self, rows: Rows, y: ArrayLike | None, losses: ArrayLike | None) -> None:
        """Count the rows that `fit` has seen."""
        used = self.scorer.locus.used_rows_
        if used is None:
            return
        if self.reuse is None:
            self.reuse = Reuse(used, self.scorer.schema, "losses" if y is None else "y")
        labels = losses if y is None else y
        self.reuse.add(rows, None if labels is None else as_array(labels))

    def _add(self, block: Block, labels: list[Any] | None) -> None:
        z, bound = block.losses, block.bounds[:, 0]
        self.counts.add_losses(z, block.score)
        if self.accepted is not None and block.accepted is not None:
            self.accepted.add(z[block.accepted])
            if self.rule_groups is not None and block.labels is not None:
                self.rule_groups.add(block.labels, block.accepted, z)
        self.covered += np.sum(z[:, None] <= block.bounds, axis=0)
        if self.entries is not None:
            self.entries.add(block)
        self.n_infinite += int(np.sum(np.isinf(bound)))
        self.loss_sum += float(z.sum())
        # The margin for rounding may put a tail below where the law has no atom.
        at_least = np.maximum(block.above, block.at_least)
        tails = randomized_tails(at_least, block.above, self._pit_rng)
        self.pit_counts += np.histogram(1.0 - tails, pictures.PIT_BINS, (0.0, 1.0))[0]
        if self.groups is not None and labels is not None:
            self.groups.add(labels, z <= bound, bound)
        self.extremes.add(block)
        self.sample.add((bound, z, tails), len(block))
        if self.curve_sample is None:
            most = max(min(CURVE_ROWS, CURVE_FLOATS // block.source.signals.shape[1]), MOST_ORDERS)
            self.curve_sample = column_sample(most, self._curve_seed)
        self.curve_sample.add((z, block.tail, block.source.signals), len(block))
        self.n_rows += len(block)

    def finish(
        self,
        *,
        title: str = "Locus report",
        unit: str = "",
        archive: str = "guard.locus",
        created: datetime.date | None = None,
    ) -> dict[str, Any]:
        """Return the summary of all rows, in the types JSON has; null stands for infinity."""
        if not self.n_rows or self.curve_sample is None:
            raise ValueError(NO_ROWS)
        scorer, n = self.scorer, self.n_rows
        bound, loss, _ = self.sample.rows()
        points = np.column_stack(self.sample.rows(pictures.MOST_POINTS)[:2])
        mean, alpha = self.loss_sum / n, scorer.alphas[0]
        covered = zip(scorer.alphas, self.covered.tolist(), strict=True)
        coverage = [words.coverage(scorer.locus.calibration_, a, n, k) for a, k in covered]
        verdict = self._verdict(coverage)
        verdict, coverage = with_reuse(verdict, coverage, self.reuse, self._allows_reuse)
        found = {
            "format": FORMAT,
            "title": title,
            "created": str(created or datetime.date.today()),
            "locuscore": scorer.manifest["written_by"].get("locuscore", ""),
            "unit": unit,
            "n_rows": n,
            "guarantee": words.guarantee(scorer),
            "facts": words.facts(scorer, n, loss, mean, unit),
            "verdict": verdict,
            "coverage": coverage,
            "bound_vs_loss": pictures.bound_against_loss(
                alpha, bound, loss, points, self.n_infinite
            ),
            "deciles": pictures.deciles(bound, loss),
            "groups": self._groups(),
            "rule_groups": self._rule_groups(verdict),
            "pit": pictures.pit(self.pit_counts, self.sample.rows(pictures.PIT_ROWS)[2]),
            "curve": self._curves(),
            "bounds": pictures.bounds(alpha, bound),
        }
        plain: dict[str, Any] = to_json(found | self._rows(), _null)
        # Large, and made of plain numbers.
        return plain | {"explorer": self._explorer(archive, verdict)}

    def _verdict(self, coverage: list[dict[str, Any]]) -> dict[str, Any]:
        """Judge the rule and the coverage at every alpha."""
        calibration, grid, counts = self.scorer.locus.calibration_, self.grid, self.counts
        seen = None
        if self.accepted is not None and grid.thresholds is not None:
            # The rule's own tau is on the grid, where it has one.
            bad = int(counts.bad_by_score[grid.tau_start, grid.threshold_start])
            kept = self.accepted
            seen = Accepted(self.n_rows, kept.n, bad, kept.total, kept.losses)
        rule = self.scorer.rule
        if self.rule_groups is not None:
            of_rule = self.rule_groups.claims()
        else:
            of_rule = [rule_claim(rule if isinstance(rule, FlagRule) else None, seen, calibration)]
        if calibration.n_clusters is not None:
            of_rule = [untested_in_clusters(claim) for claim in of_rule]
        claims = [coverage_claim(calibration, c["alpha"], c["n"], c["covered"]) for c in coverage]
        whole = self.clusters or self.entries
        if whole is not None:
            if isinstance(rule, FlagRule):
                of_rule = [whole.of_rule(claim, rule) for claim in of_rule]
            claims = [whole.retested(claim) for claim in claims]
        claims = [*(claim for claim in of_rule if claim is not None), *claims]
        return judge(claims, [words.HIGHER] if any(map(words.is_high, coverage)) else [])

    def _make_grid(self, pilot: Iterable[Sequence[Any]]) -> Grid:
        laws, found = Laws(self.scorer), []
        for X, y, losses, *more in pilot:
            rows, groups = self.scorer.schema.conform(as_batch(X)[0]), more[0] if more else None
            found += list(laws.blocks(rows, y, losses, groups))
        z = np.concatenate([block.losses for block in found] or [np.empty(0)])
        if not len(z):
            raise ValueError(NO_ROWS)
        bounds = np.concatenate([block.bounds[:, 0] for block in found])
        scores = [block.score for block in found if block.score is not None]
        return make_grid(self.scorer, z, bounds, np.concatenate(scores) if scores else None)

    def _labels(self, groups: ArrayLike | None, n: int) -> list[Any] | None:
        if groups is not None and self.groups is None and not self.n_rows:
            self.groups = GroupCounts(self._group_name)
        if (self.groups is None) != (groups is None):
            raise ValueError("groups must be given for every batch, or for none.")
        if groups is None:
            return None
        return read_labels(as_array(groups), n)

    def _cluster_labels(self, clusters: ArrayLike | None, n: int) -> list[Any] | None:
        if clusters is not None and self.clusters is None and not self.n_rows:
            self.clusters = ClusterCounts(self.scorer, self.grid.tau)
        if (self.clusters is None) != (clusters is None):
            raise ValueError("clusters must be given for every batch, or for none.")
        return None if clusters is None else read_labels(as_array(clusters), n, "clusters")

    def _explorer(self, archive: str, verdict: Mapping[str, Any]) -> dict[str, Any]:
        grid, counts, rule = self.grid, self.counts, self.scorer.rule
        threshold = None
        if grid.thresholds is not None and grid.passed is not None and isinstance(rule, FlagRule):
            proven, shown = certified(rule), None
            if proven is not None:
                by_score = counts.accepted_by_score, counts.bad_by_score[grid.tau_start]
                is_broken = verdict["claims"][0]["verdict"] == CONTRADICTED
                broken = contradicted_thresholds(*by_score, grid.passed, proven.eta, is_broken)
                if self.scorer.locus.calibration_.n_clusters is not None:  # rows are no draws
                    broken &= False
                shown = {"tau": proven.tau, "eta": proven.eta, "delta": proven.delta}
                shown |= {"passed": grid.passed.tolist(), "contradicted": broken.tolist()}
            threshold = {
                "score": str(rule.score),
                "thresholds": to_json(grid.thresholds, _null),
                "accepted": counts.accepted_by_score.tolist(),
                "bad": counts.bad_by_score.tolist(),
                "certified": shown,
                "start": grid.threshold_start,
            }
        return {
            "taus": grid.taus.tolist(),
            "alphas": ALPHAS.tolist(),
            "accepted": counts.accepted.tolist(),
            "bad": counts.bad.tolist(),
            "losses_above": counts.losses_above.tolist(),
            "start": {"tau_index": grid.tau_start, "alpha_index": grid.alpha_start},
            "threshold": threshold,
            "interval_level": words.LEVEL,
            "archive": archive,
            "loss": self.scorer.locus.loss_.name,
        }

    def _groups(self) -> dict[str, Any] | None:
        if self.groups is None:
            return None
        rows = self.groups.rows(1 - words.LEVEL)
        sentence = words.simultaneous(len(rows))
        return {"name": self.groups.name, "rows": rows, "sentence": sentence}

    def _rule_groups(self, verdict: Mapping[str, Any]) -> dict[str, Any] | None:
        """The table of a rule by group, with the verdict on what is claimed of each."""
        if self.rule_groups is None:
            return None
        judged = iter(verdict["claims"])  # in the order of the groups, coverage after them
        verdicts = [
            None if claim is None else str(next(judged)["verdict"])
            for claim in self.rule_groups.claims()
        ]
        return self.rule_groups.table(verdicts)

    def _curves(self) -> dict[str, Any]:
        assert self.curve_sample is not None
        loss, tail, signals = self.curve_sample.rows()
        scores = {"Locus": tail}
        spread = spread_column(self.scorer, signal_names(self.scorer, signals.shape[1]))
        if spread is not None:
            scores[spread[0]] = signals[:, spread[1]]
        features = signals[:, : self.scorer.locus.n_features_in_]
        scores["isolation forest"] = pictures.outlier_score(features, self._forest_seed)
        return pictures.curves(self.grid.tau, loss, scores, self._forest_seed)

    def _rows(self) -> dict[str, Any]:
        riskiest, safest = self.extremes.riskiest, self.extremes.safest
        entries, n = [*riskiest, *safest], len(riskiest)
        names = signal_names(self.scorer, len(entries[0].signals))
        room = rows_explained(len(names))
        explained = [*range(n)[: (room + 1) // 2], *range(n, len(entries))[: room // 2]]
        attribution = self._attribute([entries[i] for i in explained])
        self._add_probabilities(entries)
        columns, table = _table(self.scorer, entries, self.grid.tau)
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
        for entry, p in zip(entries, dist.estimate().sf(self.grid.tau), strict=True):
            entry.cells["probability"] = float(p)

    def _attribute(self, entries: list[Entry]) -> Attribution | None:
        assert self.curve_sample is not None
        _, _, background = self.curve_sample.rows(MOST_ORDERS)
        if background.shape[1] > MOST_SIGNALS:
            return None
        # In random order: the first of the stream are not typical of it.
        background = np.random.default_rng(self._order_seed).permutation(background)
        signals = np.stack([entry.signals for entry in entries])
        alpha, tau = self.scorer.alphas[0], self.grid.tau
        read = None if entries[0].read is None else np.array([entry.read for entry in entries])
        return attribute(self.scorer.locus, signals, background, alpha, tau, self._order_seed, read)

    def _reasons(self, entry: Entry, values: FloatArray, names: list[str]) -> list[dict[str, Any]]:
        # Signals begin with the columns of X, unless they are a function.
        known = [] if self.scorer.locus.signals_.encoder is None else entry.features
        cells = [*known, *entry.signals[len(known) :].tolist()]
        order = np.argsort(-np.abs(values), kind="stable")[:MOST_REASONS]
        reasons = []
        for j in order[values[order] != 0]:
            value = cell(cells[j], as_text=not is_number([cells[j]]))
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
    names["probability"] = f"estimated P(loss > {tau:.4g})"
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
    cells = [
        [cell(value, as_text=not ok) for value, ok in zip(row, numeric, strict=True)]
        for row in table
    ]
    return columns, cells


def _null(_: float) -> None:
    """What a page shows of a number that JSON does not have."""
