"""From labelled rows, however many, to one plain dict: all that a report shows."""

import datetime
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
from locuscore._shared.targets import as_targets
from locuscore.metrics import randomized_tails
from locuscore.report import _pictures as pictures
from locuscore.report import _words as words
from locuscore.report._attribution import MOST_ORDERS
from locuscore.report._claims import Accepted, coverage_claim, rule_claim, untested_in_clusters
from locuscore.report._clusters import ClusterCounts
from locuscore.report._counts import AcceptedLosses, ExplorerCounts
from locuscore.report._entries import EntryCounts
from locuscore.report._explained import ExplainedRows
from locuscore.report._explorer import explorer, null
from locuscore.report._grid import Grid, make_grid
from locuscore.report._laws import Block, Laws, spread_column
from locuscore.report._measure import measure_of
from locuscore.report._money import Costs, Money
from locuscore.report._parts import Measure, Parts, attention
from locuscore.report._plain import Wording
from locuscore.report._provenance import Provenance, expiry_note
from locuscore.report._provenance import told as provenance_told
from locuscore.report._reuse import with_note, with_reuse
from locuscore.report._rows import Extremes
from locuscore.report._rule_groups import RuleGroupCounts
from locuscore.report._verdict import judge
from locuscore.report._weights import WeightCounts

FORMAT = 2
NO_ROWS = "a report needs at least one labelled row; got none."
SAMPLE_ROWS = 100_000  # for quantiles, deciles and the PIT test; with fewer rows all of them
CURVE_ROWS = 20_000  # for the curves, which need every row's signals
CURVE_FLOATS = 4_000_000


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
        time_name: str = "time",
        tau: float | None = None,
        random_state: int | None = 0,
        allow_rows_used_in_fit: bool = False,
    ) -> None:
        self.scorer = scorer
        self.reuse: Reuse | None = None
        self._allows_reuse = allow_rows_used_in_fit
        rows_seed, curve_seed, pit_seed, self._order_seed, self._forest_seed = spawn_seeds(
            random_state, 5
        )
        self.grid = self._make_grid(pilot, tau)
        self.counts = ExplorerCounts(self.grid)
        self.laws = Laws(scorer, self.grid.tau, self.counts.add)
        self.extremes = Extremes(scorer)
        self.parts = Parts(group_name, time_name, self.grid.tau)
        self.money = Money(self.grid.tau)
        self.clusters: ClusterCounts | None = None
        is_by_entry = scorer.locus.calibration_.n_entries is not None
        self.entries = EntryCounts(scorer, self.grid.tau) if is_by_entry else None
        is_weighted = scorer.locus.calibration_.knows_weights
        self.weights = WeightCounts(scorer, self.grid.tau, rows_seed) if is_weighted else None
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
        weights: ArrayLike | None = None,
        by: Mapping[str, ArrayLike] | None = None,
        time: ArrayLike | None = None,
    ) -> None:
        """See a batch of labelled rows, possibly empty."""
        rows = self.scorer.schema.conform(as_batch(X)[0])
        labels = self.parts.labels(groups, by, time, n_rows(rows))
        whole = self._cluster_labels(clusters, n_rows(rows))
        realised = []
        for block in self.laws.blocks(rows, y, losses, groups, weights):
            realised.append(block.losses)
            if len(block):
                at = slice(block.source.start, block.source.start + len(block))
                self._add(block)
                self.parts.add(block, [part[at] for part in labels])
                if self.clusters is not None and whole is not None:
                    self.clusters.add(whole[at], block)
        self._look_up(rows, y, realised)

    def _look_up(self, rows: Rows, y: ArrayLike | None, losses: list[FloatArray]) -> None:
        """Count the rows that `fit` has seen; `losses` are those of each block."""
        used = self.scorer.locus.used_rows_
        if used is None or not losses:
            return
        by_y = y if used.labels == "y" else None
        if self.reuse is None:
            self.reuse = Reuse(used, self.scorer.schema, "losses" if by_y is None else "y")
        self.reuse.add(rows, np.concatenate(losses) if by_y is None else as_targets(by_y))

    def _add(self, block: Block) -> None:
        z, bound = block.losses, block.bounds[:, 0]
        self.money.add(z, block.accepted)
        self.counts.add_losses(z, block.score)
        if self.accepted is not None and block.accepted is not None:
            self.accepted.add(z[block.accepted])
            if self.rule_groups is not None and block.labels is not None:
                self.rule_groups.add(block.labels, block.accepted, z)
        self.covered += np.sum(z[:, None] <= block.bounds, axis=0)
        for counts in (self.entries, self.weights):
            if counts is not None:
                counts.add(block)
        self.n_infinite += int(np.sum(np.isinf(bound)))
        self.loss_sum += float(z.sum())
        # The margin for rounding may put a tail below where the law has no atom.
        at_least = np.maximum(block.above, block.at_least)
        tails = randomized_tails(at_least, block.above, self._pit_rng)
        self.pit_counts += np.histogram(1.0 - tails, pictures.PIT_BINS, (0.0, 1.0))[0]
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
        noun: str = "rows",
        archive: str = "guard.locus",
        costs: Costs | None = None,
        provenance: Provenance | None = None,
        created: datetime.date | None = None,
    ) -> dict[str, Any]:
        """Return the summary of all rows, in the types JSON has; null stands for infinity."""
        if not self.n_rows or self.curve_sample is None:
            raise ValueError(NO_ROWS)
        scorer, n = self.scorer, self.n_rows
        unit, created = unit or scorer.locus.unit_, created or datetime.date.today()
        wording = Wording(noun, unit, scorer.locus.loss_.name)
        bound, loss, _ = self.sample.rows()
        points = np.column_stack(self.sample.rows(pictures.MOST_POINTS)[:2])
        mean, alpha = self.loss_sum / n, scorer.alphas[0]
        covered = zip(scorer.alphas, self.covered.tolist(), strict=True)
        coverage = [words.coverage(scorer.locus.calibration_, a, n, k) for a, k in covered]
        verdict = self._verdict(coverage, wording)
        verdict, coverage = with_reuse(verdict, coverage, self.reuse, self._allows_reuse)
        origin = provenance_told(provenance or Provenance(), scorer, created, self.parts.days)
        verdict = with_note(verdict, expiry_note(origin))
        measure = measure_of(scorer, self.grid.tau, wording)
        parts = self._parts(measure)
        found = {
            "format": FORMAT,
            "title": title,
            "created": str(created),
            "locuscore": scorer.manifest["written_by"].get("locuscore", ""),
            "unit": unit,
            "noun": noun,
            "n_rows": n,
            "provenance": origin,
            "money": self.money.told(wording, costs),
            "measure": measure._asdict(),
            "has_clusters": scorer.locus.calibration_.n_clusters is not None,
            "guarantee": words.guarantee(scorer),
            "facts": words.facts(scorer, n, loss, mean, unit),
            "verdict": verdict | {"attention": attention(parts["parts"], measure.name)},
            "coverage": coverage,
            "bound_vs_loss": pictures.bound_against_loss(
                alpha, bound, loss, points, self.n_infinite
            ),
            "deciles": pictures.deciles(bound, loss),
            **parts,
            "rule_groups": self._rule_groups(verdict),
            "pit": pictures.pit(self.pit_counts, self.sample.rows(pictures.PIT_ROWS)[2]),
            "curve": self._curves(),
            "bounds": pictures.bounds(alpha, bound),
        }
        plain: dict[str, Any] = to_json(found | self._explained(), null)
        # Large, and made of plain numbers.
        shown = explorer(scorer, self.grid, self.counts, archive, verdict)
        return plain | {"explorer": shown}

    def _verdict(self, coverage: list[dict[str, Any]], wording: Wording) -> dict[str, Any]:
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
            of_rule = self.rule_groups.claims(wording.unit)
        else:
            one = rule if isinstance(rule, FlagRule) else None
            of_rule = [rule_claim(one, seen, calibration, wording.unit)]
        if calibration.n_clusters is not None:
            of_rule = [untested_in_clusters(claim) for claim in of_rule]
        claims = [coverage_claim(calibration, c["alpha"], c["n"], c["covered"]) for c in coverage]
        whole = self.clusters or self.entries or self.weights
        if whole is not None:
            if isinstance(rule, FlagRule):
                of_rule = [whole.of_rule(claim, rule) for claim in of_rule]
            claims = [whole.retested(claim) for claim in claims]
        claims = [*(claim for claim in of_rule if claim is not None), *claims]
        notes = [words.HIGHER] if any(map(words.is_high, coverage)) else []
        large = "" if self.clusters is None else self.clusters.too_large
        return judge(claims, [large, *notes] if large else notes, wording, self.n_rows)

    def _make_grid(self, pilot: Iterable[Sequence[Any]], tau: float | None) -> Grid:
        laws, found = Laws(self.scorer), []
        for X, y, losses, *more in pilot:
            rows = self.scorer.schema.conform(as_batch(X)[0])
            groups, _, weights = [*more, None, None, None][:3]
            found += list(laws.blocks(rows, y, losses, groups, weights))
        z = np.concatenate([block.losses for block in found] or [np.empty(0)])
        if not len(z):
            raise ValueError(NO_ROWS)
        bounds = np.concatenate([block.bounds[:, 0] for block in found])
        scores = [block.score for block in found if block.score is not None]
        score = np.concatenate(scores) if scores else None
        return make_grid(self.scorer, z, bounds, score, tau)

    def _cluster_labels(self, clusters: ArrayLike | None, n: int) -> list[Any] | None:
        if clusters is not None and self.clusters is None and not self.n_rows:
            self.clusters = ClusterCounts(self.scorer, self.grid.tau)
        if (self.clusters is None) != (clusters is None):
            raise ValueError("clusters must be given for every batch, or for none.")
        return None if clusters is None else read_labels(as_array(clusters), n, "clusters")

    def _explained(self) -> dict[str, Any]:
        assert self.curve_sample is not None
        _, _, background = self.curve_sample.rows(MOST_ORDERS)
        rows = ExplainedRows(self.scorer, self.grid.tau, background, self._order_seed)
        return rows.tables(self.extremes)

    def _parts(self, measure: Measure) -> dict[str, Any]:
        """All partitions, and the first of the groups by itself."""
        has_clusters = self.scorer.locus.calibration_.n_clusters is not None
        parts = self.parts.told(measure, has_clusters)
        return {
            "parts": parts,
            "groups": next((part for part in parts if not part["is_time"]), None),
        }

    def _rule_groups(self, verdict: Mapping[str, Any]) -> dict[str, Any] | None:
        """The table of a rule by group, with the verdict on what is claimed of each."""
        if self.rule_groups is None:
            return None
        judged = iter(verdict["claims"])  # in the order of the groups, coverage after them
        verdicts = [
            None if claim is None else str(next(judged)["verdict"])
            for claim in self.rule_groups.claims("")
        ]
        return self.rule_groups.table(verdicts)

    def _curves(self) -> dict[str, Any]:
        assert self.curve_sample is not None
        loss, tail, signals = self.curve_sample.rows()
        scores = {"Locus": tail}
        width = signals.shape[1]
        spread = spread_column(self.scorer, width)
        if spread is not None:
            scores[spread[0]] = signals[:, spread[1]]
        locus = self.scorer.locus
        # Rows without columns are unusual by what else the engine sees of them.
        features = signals[:, : locus.signals_.x_width(locus.n_features_in_) or width]
        scores["isolation forest"] = pictures.outlier_score(features, self._forest_seed)
        return pictures.curves(self.grid.tau, loss, scores, self._forest_seed)
