"""How much each certificate accepts on samples of one risk; several may share their work."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from benchmarks.certificates.risks import Risk
from locuscore._laws.scores import UNNAMED
from locuscore._rules.binomial_tests import most_bad
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.certify import certify_planned, paper_slacks
from locuscore._rules.planned_starts import planned_start, start_ranks
from locuscore._rules.thresholds import (
    CandidateThresholds,
    distinct_reference,
    largest_certified,
    quantile_starts,
    rank_starts,
    ties_heavily,
)
from locuscore._shared.accepted import sorted_finite

DELTA = 0.1
PLANNED, EARLIER, HINDSIGHT = "planned start", "fixed starts", "best single start in hindsight"
PAPER, MAPIE_HOLM, MAPIE_SEQUENCE = "paper's bound", "MAPIE, Holm on 20", "MAPIE, sequence on 20"
N_GRID = 20

# One threshold for each sample; the name of the method.
Certified = dict[str, np.ndarray]
Sample = tuple[np.ndarray, np.ndarray]


def claim_of(risk: Risk, n: int) -> ExceedanceCertificate:
    """The claim, on n rows; losses are 1 for bad rows and 0 for others."""
    return ExceedanceCertificate(n_rows=n, tau=0.5, eta=risk.eta, delta=DELTA)


def sequences(risk: Risk, n: int, samples: list[Sample]) -> Certified:
    """Ours, with the start planned on D1 and with those that were fixed before; and in hindsight.

    The plan depends on D1 and n alone, so it is made once. On the first sample the shipped call is
    made too, and must agree.
    """
    claim = claim_of(risk, n)
    ranked = sorted_finite(risk.reference)
    edge = distinct_reference(ranked)
    planned = planned_start(risk.pilot, edge, n, claim)
    by_rank = rank_starts(n, claim, None)
    found: dict[str, list[float]] = {PLANNED: [], EARLIER: []}
    for score, bad in samples:
        own = CandidateThresholds.own_scores(score, bad)
        known = CandidateThresholds.on_grid(score, bad, edge)
        fixed = (own, by_rank)
        if ties_heavily(risk.reference):  # as before there was a plan
            fixed = (known, quantile_starts(known, ranked, len(risk.reference), claim, None))
        chosen = (own, by_rank)
        if planned is not None:
            chosen = (own if planned.on_ranks else known, [planned.start])
        for name, (candidates, starts) in {PLANNED: chosen, EARLIER: fixed}.items():
            at, _ = largest_certified(candidates, starts, risk.eta)
            found[name].append(
                -np.inf if at is None else float(candidates.thresholds(np.array([at]))[0])
            )
    shipped = certify_planned(*samples[0], claim, UNNAMED, risk.reference, risk.pilot)
    assert shipped.threshold == found[PLANNED][0], "the shipped call does something else"
    result = {name: np.array(values) for name, values in found.items()}
    return result | {HINDSIGHT: _hindsight(risk, n, samples)}


@lru_cache(maxsize=100)
def allowed(n: int, eta: float, level: float) -> np.ndarray:
    """Bad rows allowed among 0, 1, ..., n."""
    return most_bad(np.arange(n + 1), eta, level)


def own_counts(score: np.ndarray, bad: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges of the rows' own thresholds, rows strictly below each, and the bad ones of them."""
    edge = np.append(score, np.inf)
    n = np.searchsorted(score, edge, side="left")
    return edge, n, np.append(0, np.cumsum(bad))[n]


def ends(failed: np.ndarray) -> np.ndarray:
    """The first failure at or after each position; the number of positions if there is none."""
    size = len(failed)
    return np.minimum.accumulate(np.where(failed, np.arange(size), size)[::-1])[::-1]


def below(edge: np.ndarray, at: np.ndarray, passed: np.ndarray) -> np.ndarray:
    """The largest score accepted strictly below an edge; -inf where nothing passed."""
    return np.where(passed, np.nextafter(edge[np.maximum(at, 0)], -np.inf), -np.inf)


def _hindsight(risk: Risk, n: int, samples: list[Sample]) -> np.ndarray:
    """The start that accepts most on these very samples, which nobody can know."""
    starts, found = start_ranks(n, claim_of(risk, n)), []
    for score, bad in samples:
        edge, rows, n_bad = own_counts(score, bad)
        end = ends(n_bad > allowed(n, risk.eta, DELTA)[rows])[starts]
        found.append(below(edge, end - 1, end > starts))
    thresholds = np.array(found)
    shares = np.array([risk.outcome(column)[0].mean() for column in thresholds.T])
    return thresholds[:, int(np.argmax(shares))]


def grid_of(risk: Risk) -> np.ndarray:
    """Twenty thresholds from D1: quantiles of its tails."""
    return np.quantile(risk.reference, np.arange(1, N_GRID + 1) / N_GRID)


def paper(risk: Risk, n: int, samples: list[Sample]) -> Certified:
    """Theorem 5 on the grid."""
    grid, found = grid_of(risk), []
    slack_accepted, slack_joint = paper_slacks(n, DELTA)
    for score, bad in samples:
        rows = np.searchsorted(score, grid, side="right")
        joint = np.append(0, np.cumsum(bad))[rows] / n
        fits = np.flatnonzero(joint + slack_joint <= risk.eta * (rows / n - slack_accepted))
        found.append(grid[fits[-1]] if len(fits) else -np.inf)
    return {PAPER: np.array(found)}


def mapie(risk: Risk, n: int, samples: list[Sample]) -> Certified:
    """MAPIE's controller of precision on the grid; class 1 is "not bad", predicted below it."""
    from mapie.risk_control import BinaryClassificationController  # noqa: PLC0415 - optional

    grid = np.unique(grid_of(risk))
    methods = {MAPIE_HOLM: "bonferroni_holm", MAPIE_SEQUENCE: "fixed_sequence"}
    found: dict[str, list[float]] = {name: [] for name in methods}
    for score, bad in samples:
        for name, method in methods.items():
            controller = BinaryClassificationController(
                lambda X: np.column_stack([X[:, 0], 1.0 - X[:, 0]]),
                "precision",
                target_level=1 - risk.eta,
                confidence_level=1 - DELTA,
                list_predict_params=1.0 - grid,
                fwer_method=method,
            )
            controller.calibrate(score[:, None], (~bad).astype(int))
            best = controller.best_predict_param
            found[name].append(-np.inf if best is None else float(1.0 - best) + 1e-12)
    return {name: np.array(values) for name, values in found.items()}


METHODS: dict[str, tuple[Callable[[Risk, int, list[Sample]], Certified], int]] = {
    "sequences": (sequences, 1),
    "paper": (paper, 1),
    "mapie": (mapie, 5),  # every fifth sample: a call takes a hundred times as long
}
