"""The cases of `same_scores` that need no fit: rules, batches and plans from fixed arrays."""

from typing import Any

import numpy as np

import locuscore as lc
from locuscore import Score

ALPHAS = (0.01, 0.05, 0.1, 0.5)


def scored_losses(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores, some tied and one infinite, and losses that grow with them."""
    rng = np.random.default_rng(5)
    score = np.round(rng.uniform(size=n), 3)
    losses = score * rng.exponential(size=n)
    score[0] = np.inf
    return score, losses


def array_rules() -> Any:
    s, z = scored_losses(500)
    grid = np.linspace(0, 1, 41)
    return {
        "tau": lc.tau_rule(1.0, 0.1, n_calibration=100, level=0.08),
        "tau, too few": lc.tau_rule(1.0, 0.01, n_calibration=20),
        "tuned": lc.tune_threshold(s, z, 0.5, 0.1, of=Score.other("mine")),
        "tuned on a grid": lc.tune_threshold(s, z, 0.5, 0.1, grid=grid, min_acceptance=0.3),
        "alpha": lc.tune_alpha(np.minimum(s, 1), z, 0.5, 0.1),
        "matched": [lc.match_acceptance(s, rate) for rate in (0.0, 0.29, 0.7, 1.0)],
        "ranks": [lc.conformal_rank(n, a) for n in (9, 100, 999) for a in (0.7, *ALPHAS)],
    }


def array_certificates() -> Any:
    s, z = scored_losses(600)
    many = scored_losses(9000)
    grid = np.linspace(0.05, 1, 20)
    groups = np.array(list("aaaabbbccd"))[np.arange(600) % 10]
    wanted = 0.5, 0.2, 0.1
    capped_losses = np.minimum(z, 2.0)
    return {
        "threshold": lc.certify_threshold(s, z, *wanted),
        "reference": lc.certify_threshold(s, z, *wanted, reference=many[0][:300]),
        "starts": lc.certify_threshold(s, z, *wanted, reference=many[0][:300], starts=[0.1, 0.4]),
        "start too high": lc.certify_threshold(s, z, 0.5, 0.1, 0.1),
        "impossible": lc.certify_threshold(s[:20], z[:20], 0.01, 0.01, 0.01),
        "Holm": lc.certify_threshold_holm(s, z, *wanted, grid),
        "paper": lc.certify_threshold_paper(*many, 0.5, 0.3, 0.1, grid),
        "paper, too few": lc.certify_threshold_paper(s, z, *wanted, grid),
        "groups": dict(lc.certify_groups(s, z, groups, *wanted)),
        "pool": dict(lc.certify_groups(s, z, groups, *wanted, pool=["c", "d"])),
        "mean": lc.certify_mean_loss(s, capped_losses, 0.4, 0.1, support=(0, 2)),
        "mean, reference": lc.certify_mean_loss(
            s, capped_losses, 0.4, 0.1, support=(0, 2), reference=many[0][:300], n_thresholds=10
        ),
        "mean p-value": lc.mean_loss_p_value(capped_losses[:200], 0.6, 0, 2),
        "mean bound": lc.mean_loss_bound(capped_losses[:200], 0.1, 0, 2),
    }


def batches_and_routes() -> Any:
    s, z = scored_losses(400)
    new, (cal, losses) = s[:60], (s[60:], z[60:])
    batch = lc.select_batch(new, cal, losses, 0.5, 0.2)
    curve = lc.operating_curve(cal, losses, 0.5, 0.1)
    shares = np.minimum(new, 1)
    labelled = {"losses_cal": losses, "tau": 0.5}
    return {
        "batch": batch,
        "p-values": batch.p_values(new),
        "budget": lc.route(new, 12, score_cal=cal, **labelled),
        "share": lc.route(new, 0.25),
        "costs": lc.route_by_cost(shares, 1.0, 4.0, probability_cal=np.minimum(cal, 1), **labelled),
        "costs per row": lc.route_by_cost(shares, np.linspace(0.1, 2, 60), 4.0),
        "interval": lc.exceedance_interval(losses, cal < 0.4, 0.5),
        "curve": {name: column.to_numpy() for name, column in curve.to_frame().items()},
        "curve text": str(curve),
    }


def plans() -> Any:
    return [
        *(lc.rows_for_bound(alpha) for alpha in ALPHAS),
        lc.rows_for_coverage(0.1, within=0.02),
        lc.rows_for_coverage(0.3, within=0.05, delta=0.2),
        lc.rows_for_certificate(0.1, 0.05, bad_rate=0.05, acceptance=0.7),
        lc.rows_for_certificate(0.2, 0.1, bad_rate=0.0, acceptance=1.0, power=0.95),
    ]


CASES = {
    "rules on arrays": array_rules,
    "certificates on arrays": array_certificates,
    "batches, routes and curves": batches_and_routes,
    "plans": plans,
}
