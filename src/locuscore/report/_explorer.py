"""What the page needs to let a reader choose tolerance, level and threshold."""

from collections.abc import Mapping
from typing import Any

from locuscore import FlagRule, Scorer
from locuscore._shared.json_values import to_json
from locuscore.report import _words as words
from locuscore.report._counts import ExplorerCounts
from locuscore.report._grid import ALPHAS, Grid, certified
from locuscore.report._plain import CONTRADICTED
from locuscore.report._verdict import contradicted_thresholds


def explorer(
    scorer: Scorer, grid: Grid, counts: ExplorerCounts, archive: str, verdict: Mapping[str, Any]
) -> dict[str, Any]:
    """Counts at every tolerance and level of the grid, and at every threshold of a rule."""
    rule = scorer.rule
    threshold = None
    if grid.thresholds is not None and grid.passed is not None and isinstance(rule, FlagRule):
        proven, shown = certified(rule), None
        if proven is not None:
            by_score = counts.accepted_by_score, counts.bad_by_score[grid.tau_start]
            is_broken = verdict["claims"][0]["verdict"] == CONTRADICTED
            broken = contradicted_thresholds(*by_score, grid.passed, proven.eta, is_broken)
            if scorer.locus.calibration_.n_clusters is not None:  # rows are no draws
                broken &= False
            shown = {"tau": proven.tau, "eta": proven.eta, "delta": proven.delta}
            shown |= {"passed": grid.passed.tolist(), "contradicted": broken.tolist()}
        threshold = {
            "score": str(rule.score),
            "thresholds": to_json(grid.thresholds, null),
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
        "loss": scorer.locus.loss_.name,
    }


def null(_: float) -> None:
    """What a page shows of a number that JSON does not have."""
