"""A summary as `locuscore.report` gives it, from simulated rows whose law of the loss is known."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, betabinom

from locuscore._laws.calibration import MarginalCalibration, conformal_rank

COLOURS = np.array(["D", "E", "F", "G"])
TAU, ETA, DELTA = 500.0, 0.05, 0.1
ALPHAS = np.arange(1, 100) / 100


def calibration_of(n: int) -> MarginalCalibration:
    """A calibration on n rows, for what depends on their number alone."""
    return MarginalCalibration(np.arange(1, n + 1) / (n + 1))


@dataclass(frozen=True)
class Rows:
    """Test rows: each loss is exponential with the row's own scale; and calibration tails."""

    scale: np.ndarray
    losses: np.ndarray
    tails: np.ndarray

    def tail(self, tau: float) -> np.ndarray:
        return np.exp(-tau / self.scale)

    def exceedance(self, tau: float) -> np.ndarray:
        """The smallest alpha whose bound is at most tau."""
        below = np.searchsorted(np.sort(self.tails), self.tail(tau), side="right")
        return (1 + below) / (len(self.tails) + 1)

    def bound(self, alpha: float) -> np.ndarray:
        k = conformal_rank(len(self.tails), alpha)
        if k > len(self.tails):
            return np.full(len(self.scale), np.inf)
        return -self.scale * np.log(np.sort(self.tails)[::-1][k - 1])


def simulated(n: int = 3000, n_calibration: int = 999, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.normal(np.log(150), 0.9, size=n))
    return Rows(scale, rng.exponential(scale), rng.uniform(size=n_calibration))


def interval(k: Any, n: Any, level: float = 0.95) -> tuple[Any, Any]:
    """Exact interval of a share, by scipy."""
    k, n = np.asarray(k, dtype=float), np.asarray(n, dtype=float)
    side = (1 - level) / 2
    low = np.where(k > 0, beta.ppf(side, np.maximum(k, 0.5), n - k + 1), 0.0)
    high = np.where(k < n, beta.ppf(1 - side, k + 1, np.maximum(n - k, 0.5)), 1.0)
    return low, high


def share(covered: np.ndarray, **more: Any) -> dict[str, Any]:
    n, k = len(covered), int(covered.sum())
    low, high = interval(k, n)
    return {
        "n": n,
        "covered": k,
        "rate": k / n,
        "ci_low": float(low),
        "ci_high": float(high),
    } | more


def coverage(rows: Rows, alpha: float) -> dict[str, Any]:
    n, n2 = len(rows.losses), len(rows.tails)
    covered = int(np.sum(rows.losses <= rows.bound(alpha)))
    k = conformal_rank(n2, alpha)
    law = betabinom(n, k, n2 + 1 - k)
    low, high = law.ppf([0.025, 0.975]) / n
    p_value = min(1.0, 2 * min(law.cdf(covered), law.sf(covered - 1)))
    rate, agrees = covered / n, bool(low <= covered / n <= high)
    words = "agrees with" if agrees else "is not explained by"
    sentence = f"At alpha = {alpha:g}, {rate:.1%} of {n:,} losses lie within: it {words} the bound."
    return {
        "alpha": alpha, "n": n, "covered": covered, "rate": rate, "low": low, "high": high,
        "level": 0.95, "agrees": agrees, "p_value": p_value, "expected": k / (n2 + 1),
        "sentence": sentence,
    }  # fmt: skip


def verdict(rows: Rows) -> dict[str, Any]:
    """Of a certificate and two alphas, all of them kept."""
    accepted = rows.tail(TAU) <= 0.12
    shares = [("conditional", None, "certificate", ETA, rows.losses[accepted] > TAU)]
    shares += [("coverage", a, "theorem", a, rows.losses > rows.bound(a)) for a in (0.1, 0.5)]
    claims = [
        {
            "kind": kind, "claim": f"share of {kind}", "standing": standing, "alpha": alpha,
            "promised": promised, "observed": float(wrong.mean()), "n": len(wrong),
            "p_value": 0.3, "verdict": "kept", "sentence": f"The {kind} is kept.",
            "tau": None if alpha else TAU, "where": "", "plain": f"Of 1,000 homes, {kind}.",
        }
        for kind, alpha, standing, promised, wrong in shares
    ]  # fmt: skip
    return {
        "kind": "good", "sentence": "These rows agree with every claim.", "broken": False,
        "headline": "All 3 promises hold up on these rows.", "notes": [], "error": 0.05,
        "claims": claims, "attention": ["By colour, worse than promised: D."],
    }  # fmt: skip


def explorer(rows: Rows) -> dict[str, Any]:
    top = np.quantile(rows.losses, 0.995)
    taus = np.unique(np.append(np.geomspace(10, top, 199), TAU))
    exceedance = np.array([rows.exceedance(tau) for tau in taus])
    accepts = exceedance[:, :, None] <= ALPHAS
    bad = rows.losses > taus[:, None]
    thresholds = np.unique(np.append(np.linspace(0.001, 0.6, 199), 0.12))
    score = rows.tail(TAU)
    return {
        "taus": taus.tolist(), "alphas": ALPHAS.tolist(),
        "accepted": accepts.sum(axis=1).tolist(),
        "bad": (accepts & bad[:, :, None]).sum(axis=1).tolist(),
        "losses_above": bad.sum(axis=1).tolist(),
        "start": {"tau_index": int(np.flatnonzero(taus == TAU)[0]), "alpha_index": 9},
        "threshold": {
            "score": "tail probability at tau = 500",
            "thresholds": thresholds.tolist(),
            "accepted": [int(np.sum(score <= t)) for t in thresholds],
            "bad": [[int(np.sum(b[score <= t])) for t in thresholds] for b in bad],
            "certified": {"tau": TAU, "eta": ETA, "delta": DELTA,
                          "passed": [bool(0.02 <= t <= 0.12) for t in thresholds],
                          "contradicted": [False for t in thresholds]},
            "start": int(np.flatnonzero(thresholds == 0.12)[0]),
        },
        "interval_level": 0.95, "archive": "guard.locus", "loss": "absolute",
    }  # fmt: skip


def table(rows: Rows, colour: np.ndarray) -> dict[str, Any]:
    bound = rows.bound(0.1)
    order = np.argsort(bound)

    def row(i: int) -> dict[str, Any]:
        values = [
            round(20 * rows.scale[i], 2), bound[i], rows.losses[i], float(rows.tail(TAU)[i]),
            bool(rows.tail(TAU)[i] > 0.12), round(rows.scale[i] / 200, 2), str(colour[i]), 2021,
        ]  # fmt: skip
        ratio = float(rows.scale[i] / 150)
        reasons = [
            {"name": "spread", "value": float(rows.scale[i]), "factor": ratio**0.7},
            {"name": "carat", "value": round(rows.scale[i] / 200, 2), "factor": ratio**0.2},
            {
                "name": "second opinion",
                "value": None,
                "factor": ratio**-0.1,
                "text": f"a second model expects {rows.scale[i]:,.0f}, g says 7,000",
            },
            {"name": "colour", "value": str(colour[i]), "factor": ratio**-0.01},
        ]
        return {"row": str(i), "values": values, "reasons": reasons}

    names = ["prediction", "bound_0.1", "loss", "score", "flag", "carat", "colour", "year"]
    roles = ["prediction", "bound", "loss", "score", "flag", "feature", "feature", "feature"]
    columns = [
        {"key": n, "name": n, "kind": "text" if n in ("flag", "colour") else "number", "role": r}
        for n, r in zip(names, roles, strict=True)
    ]
    return {
        "columns": columns,
        "riskiest": [row(i) for i in order[::-1][:25]],
        "safest": [row(i) for i in order[:25]],
    }


def curves(rows: Rows) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    noise = {"Locus": 0.0, "spread of the predictor": 0.7, "isolation forest": 2.0}
    series = []
    for name, size in noise.items():
        order = np.argsort(np.log(rows.scale) + size * rng.normal(size=len(rows.scale)))
        n = np.unique(np.linspace(1, len(order), 200).astype(int))
        k = np.cumsum(rows.losses[order] > TAU)[n - 1]
        low, high = interval(k, n, 0.999)
        locus = name == "Locus"
        series.append(
            {"name": name, "acceptance": (n / len(order)).tolist(), "exceedance": (k / n).tolist(),
             "low": low.tolist() if locus else None, "high": high.tolist() if locus else None,
             "area": float(np.mean(k / n))}
        )  # fmt: skip
    return {"tau": TAU, "series": series, "band_level": 0.95}


def money(rows: Rows) -> dict[str, Any]:
    """Accepted and flagged rows, with costs."""
    accepted = rows.tail(TAU) <= 0.12

    def pile(z: np.ndarray) -> dict[str, Any]:
        return {"n": len(z), "total": float(z.sum()), "mean": float(z.mean()),
                "worst": float(z.max()), "bad": int(np.sum(z > TAU))}  # fmt: skip

    flagged = pile(rows.losses[~accepted])
    review, avoidable = 20.0 * flagged["n"], 300.0 * flagged["bad"]
    costs = {"unit": "dollars", "review_each": 20.0, "bad_each": 300.0, "loss_each": None,
             "review": review, "avoidable": avoidable, "net": avoidable - review,
             "break_even": review / avoidable, "sentences": ["Review costs."]}  # fmt: skip
    return {"tau": TAU, "accepted": pile(rows.losses[accepted]), "flagged": flagged,
            "costs": costs, "sentences": ["Some are accepted.", "Review costs."]}  # fmt: skip


def parts(rows: Rows, colour: np.ndarray) -> list[dict[str, Any]]:
    """By colour, and over four months."""
    accepted, bad = rows.tail(TAU) <= 0.12, rows.losses > TAU
    month = np.array(["May 2026", "June 2026", "July 2026", "(missing)"])[
        np.arange(len(bad)) // 7 % 4
    ]

    def part(label: str, inside: np.ndarray) -> dict[str, Any]:
        k, of = int(np.sum(inside & accepted & bad)), int(np.sum(inside & accepted))
        low, high = interval(k, of, 0.99)
        standing = "worse" if label == "D" else "as promised"
        return {
            "group": label, "n": int(inside.sum()), "accepted": of, "k": k, "of": of,
            "share": k / of, "low": float(low), "high": float(high), "standing": standing,
            "loss": float(rows.losses[inside].sum()), "loss_accepted": 1.0,
        }  # fmt: skip

    found = []
    for name, labels in (("colour", colour), ("sold", month)):
        told = [part(str(label), labels == label) for label in dict.fromkeys(labels)]
        is_time = name == "sold"
        found.append({"name": f"{name}, by month" if is_time else name, "column": name,
                      "is_time": is_time, "rows": told, "finding": "Something is worse.",
                      "trend": {"sentence": "A rise.", "differs": True} if is_time else None,
                      "sentence": "The intervals are simultaneous."})  # fmt: skip
    return found


PROVENANCE = {
    "data": "rows.parquet", "data_digest": "ab" * 32, "archive": "guard.locus",
    "archive_digest": "cd" * 32, "signature": "none", "approved": "A. Reader",
    "scorer_digest": "0123456789abcdef", "first_day": "2026-05-02", "last_day": "2026-08-30",
    "valid_until": "2027-01-31", "is_expired": False, "versions": {"numpy": "2.0"},
    "reported_by": "0.2.0",
}  # fmt: skip


def simulated_summary(rows: Rows | None = None) -> dict[str, Any]:
    """Everything the page shows."""
    rows = simulated() if rows is None else rows
    bound, colour = rows.bound(0.1), COLOURS[np.arange(len(rows.scale)) % 4]
    within = rows.losses <= bound
    cuts = np.array_split(np.argsort(bound), 10)
    deciles = [
        share(within[c], low=bound[c[0]], high=bound[c[-1]], mean_loss=float(rows.losses[c].mean()))
        for c in cuts
    ]
    groups = [share(within[colour == c], group=str(c), mean_bound=float(bound[colour == c].mean()))
              for c in COLOURS]  # fmt: skip
    counts, edges = np.histogram(bound, bins=40)
    pit, _ = np.histogram(1 - rows.tail(rows.losses), bins=20, range=(0, 1))
    importance = {"spread": 0.62, "carat": 0.21, "prediction": 0.12, "colour": 0.04, "year": 0.01}
    return {
        "format": 2, "title": "Locus report", "created": "2026-11-16", "locuscore": "0.1.0",
        "unit": "dollars", "noun": "diamonds", "n_rows": len(rows.scale), "provenance": PROVENANCE,
        "money": money(rows), "parts": parts(rows, colour), "has_clusters": False,
        "measure": {"kind": "conditional", "what": "bad", "among": "accepted", "promised": ETA,
                    "name": "accepted diamonds that were off by more than $500"},
        "guarantee": {
            "card": "=== Guarantee card ===\naccept if    tail probability at tau = 500 <= 0.12",
            "standing": "certificate",
            "sentences": [
                "Of all new rows like the calibration rows, at most 10 % have a loss above their "
                "bound (Theorem 1).",
                "With confidence 90 %, at most 5 % of the accepted rows have a loss above 500.",
                "Not promised: anything about a part of the rows, or about rows of another kind.",
            ],
        },
        "facts": [{"name": "test rows", "value": f"{len(rows.scale):,}"},
                  {"name": "loss", "value": "absolute"}, {"name": "engine", "value": "Forest"}],
        "verdict": verdict(rows),
        "coverage": [coverage(rows, alpha) for alpha in (0.1, 0.5)],
        "explorer": explorer(rows),
        "bound_vs_loss": {
            "alpha": 0.1, "points": np.column_stack([bound, rows.losses])[:2000].tolist(),
            "n_points": len(bound), "n_infinite": 0,
            "axis_max": [float(bound.max()), float(rows.losses.max())],
        },
        "deciles": deciles,
        "groups": {"name": "colour", "rows": groups, "sentence": "The intervals are simultaneous."},
        "pit": {"counts": pit.tolist(), "p_value": 0.4, "sentence": "The values look even."},
        "curve": curves(rows),
        "bounds": {"alpha": 0.1, "edges": edges.tolist(), "counts": counts.tolist(),
                   "n_infinite": 0,
                   "quantiles": {str(q): float(np.quantile(bound, q)) for q in (0.1, 0.5, 0.9)}},
        "rows": table(rows, colour),
        "attribution": {
            "method": "Shapley values of the logarithm of the bound, over random orders.",
            "n_rows": 100, "n_background": 20, "evaluations": 24_000, "seconds": 3.2,
            "baseline": float(np.median(bound)),
            "importance": [{"name": k, "mean_abs_log": v} for k, v in importance.items()],
        },
    }  # fmt: skip
