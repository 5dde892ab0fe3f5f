"""New rows from another mix: what weights do for coverage, and how they are best learned.

Homes are tilted by living area: new rows come with density proportional to ``exp(c v)`` times that
of the labelled rows, v the standardised logarithm of the area, cut at 3. Of each seed, 3,000 rows
train g, 4,000 fit a `Locus` (500 of them are D2), 8,000 are thinned out to an unlabelled sample of
the target, and the others, weighted by the tilt, say how many new rows are covered. Beside the
default loss model there is none at all: one bound for all rows from the losses of D2, as plain
split conformal prediction has it. Run ``make choices-shift``; about ten minutes.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.ensemble import RandomForestRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore import Locus
from locuscore._inputs.opinion_models import (
    boosted_classes,
    folds_of,
    linear_classes,
    log_loss,
)
from locuscore.calibration._density_ratio import CLIP, SHARES, learn_ratio
from locuscore.calibration._weighted import WeightedCalibration

PAGE = Path(__file__).with_name("RESULTS.md")
AREA = 2  # the column of homes
TILTS = (0.5, 1.0, 1.6, 2.2)
SEEDS = range(8)
ALPHA = 0.1
CLIPS = (10.0, 30.0, 100.0, 1e9)
DEFAULT, PLAIN = "default", "none"
Ratio = Callable[[np.ndarray], np.ndarray]


def gap(told: np.ndarray, true: np.ndarray) -> float:
    """``E|w_hat - w| / 2``, both of mean one: what coverage may lose."""
    return float(0.5 * np.mean(np.abs(told / told.mean() - true / true.mean())))


class Fitted:
    """A default `Locus` on one split of homes, and held-out rows to weigh."""

    def __init__(self, X: np.ndarray, y: np.ndarray, seed: int) -> None:
        rows = np.random.default_rng(seed).permutation(len(y))
        train, fit, pool, held_out = np.split(rows, np.cumsum([3_000, 4_000, 8_000]))
        g = RandomForestRegressor(100, min_samples_leaf=3, n_jobs=-1, random_state=0)
        self.locus = locus = Locus(g.fit(X[train], y[train]), random_state=seed).fit(X[fit], y[fit])
        self.seed, self.pool, self.held_out = seed, X[pool], X[held_out]
        self.fit, self.cal = X[fit[locus.fit_rows_]], X[fit[locus.calibration_rows_]]
        self.held_out_losses = z = locus.losses(self.held_out, y[held_out])
        model = locus.loss_model_
        S, z_cal = locus.row_signals(self.held_out), locus.calibration_losses_
        unit = z_cal.mean()
        # Tails of D2, tails of the held-out rows, and the bound at a level for each of these.
        self.models = {
            DEFAULT: (
                model.tails(locus.calibration_signals_, z_cal),
                model.tails(S, z),
                model.dist(S).isf,
            ),
            # The same law for every row, so that levels are quantiles of the losses.
            PLAIN: (np.exp(-z_cal / unit), np.exp(-z / unit), lambda s: -unit * np.log(s)),
        }

    def target(self, tilt: Ratio) -> np.ndarray:
        """Rows of the target, each of the pool at most once."""
        w, rng = tilt(self.pool), np.random.default_rng(self.seed)
        return self.pool[rng.uniform(size=len(w)) < w / w.max()]

    def measure(self, model: str, ratio: Ratio, tilt: Ratio) -> tuple[float, ...]:
        """Effective size, coverage of new rows, share of infinite bounds, median bound, gap."""
        cal_tails, tails, isf = self.models[model]
        order = np.argsort(cal_tails)
        found = WeightedCalibration(cal_tails[order], ratio(self.cal)[order])
        told, true = ratio(self.held_out), tilt(self.held_out)
        levels = found.level(ALPHA, told)
        share = true / true.sum()
        with np.errstate(divide="ignore"):
            bounds = isf(levels)
        by_size = np.argsort(bounds)
        median = bounds[by_size][np.searchsorted(np.cumsum(share[by_size]), 0.5)]
        covered = float(share @ (tails >= levels))
        infinite = float(share @ (levels == 0))
        return found.effective_size, covered, infinite, float(median), gap(told, true)


def tilts(X: np.ndarray) -> Iterator[tuple[float, Ratio]]:
    area = np.log(X[:, AREA])
    mean, spread = area.mean(), area.std()
    for c in TILTS:
        yield (
            c,
            lambda rows, c=c: np.exp(
                c * np.clip((np.log(rows[:, AREA]) - mean) / spread, -3.0, 3.0)
            ),
        )


def corrections(odds: np.ndarray, codes: np.ndarray) -> dict[str, Ratio]:
    """From the log-odds of a classifier to calibrated ones, learned on rows left out."""
    line = LogisticRegression(C=1e6).fit(odds[:, None], codes)
    slope, start = line.coef_[0, 0], line.intercept_[0]
    steps = IsotonicRegression(out_of_bounds="clip").fit(odds, codes)
    return {
        "none": lambda o: o,
        "logistic": lambda o: slope * o + start,
        "isotonic": lambda o: logit(np.clip(steps.predict(o), 1e-6, 1 - 1e-6)),
    }


def ways(
    fitted: Fitted, target: np.ndarray, tilt: Ratio
) -> Iterator[tuple[tuple[str, ...], float]]:
    """The gap of each way to learn the ratio."""
    n = len(fitted.fit)
    S, codes = np.vstack([fitted.fit, target]), np.repeat([0, 1], [n, len(target)])
    folds = folds_of(len(S), fitted.seed)
    linear, boosted = linear_classes(S, codes, folds, 2), boosted_classes(S, codes, folds, 0, 2)
    true = tilt(fitted.held_out)

    def average(share: float, parts: list[np.ndarray]) -> np.ndarray:
        return share * parts[0] + (1 - share) * parts[1]

    left_out = [boosted.out_of_fold, linear.out_of_fold]
    new = [one.model.predict_proba(fitted.held_out) for one in (boosted, linear)]
    best = min(SHARES, key=lambda share: log_loss(codes, average(share, left_out)))
    for name, share in (("linear", 0.0), ("boosted", 1.0), ("average", best)):
        odds, new_odds = (
            logit(np.clip(average(share, parts)[:, 1], 1e-6, 1 - 1e-6)) for parts in (left_out, new)
        )
        for correction, correct in corrections(odds, codes).items():
            ratio = np.exp(correct(new_odds)) * n / len(target)
            for clip in CLIPS:
                cut = np.clip(ratio, 1 / clip, clip)
                yield (name, correction, f"{clip:g}" if clip < 1e9 else "none"), gap(cut, true)


def tables(results: dict[Any, list[Any]], gaps: dict[Any, list[float]]) -> list[str]:
    lines = [
        "## New rows from another mix",
        "",
        f"Made by `make choices-shift`: homes, new rows tilted by living area, {len(SEEDS)} seeds, "
        f"500 calibration rows, 1 - alpha = {1 - ALPHA:g}. Tilt: exponent c per standard deviation "
        "of the log of the area. Loss model: the default, or none, which is plain split conformal "
        "prediction. Gap: E|w_hat - w| / 2, what coverage may lose at most. Bound: median over new "
        "rows, in units of that without weights.",
        "",
        "| loss model | tilt | target rows | weights | effective size | coverage | its spread "
        "| infinite, % | bound | gap |",
        "|" + "---|" * 10,
    ]
    for (model, c, name), runs in results.items():
        n, size, covered, infinite, bound, far = np.mean(runs, axis=0)
        default = np.mean([run[4] for run in results[model, c, "none"]])
        spread = np.std([run[2] for run in runs])
        lines.append(
            f"| {model} | {c:g} | {n:.0f} | {name} | {size:.0f} | {covered:.3f} | {spread:.3f} | "
            f"{100 * infinite:.1f} | {bound / default:.2f} | {far:.2f} |"
        )
    lines += [
        "",
        f"How to learn the ratio: the gap, mean over seeds. `Shifted` averages both models, "
        f"corrects by a logistic regression and clips at {CLIP:g}.",
        "",
        "| model | correction | clip | " + " | ".join(f"c = {c:g}" for c in TILTS) + " |",
        "|" + "---|" * (3 + len(TILTS)),
    ]
    for way in dict.fromkeys(way for _, way in gaps):
        cells = [f"{np.mean(gaps[c, way]):.3f}" for c in TILTS]
        lines.append("| " + " | ".join([*way, *cells]) + " |")
    return lines


def main() -> None:
    X, y = load("homes")
    results, gaps = defaultdict(list), defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in SEEDS:
            fitted = Fitted(X, y, seed)
            for c, tilt in tilts(X):
                target = fitted.target(tilt)
                learned = learn_ratio(fitted.fit, target, seed)
                known = {
                    "none": lambda rows: np.ones(len(rows)),
                    "known": tilt,
                    "learned": learned,
                }
                for model, (name, ratio) in product((DEFAULT, PLAIN), known.items()):
                    found = fitted.measure(model, ratio, tilt)
                    results[model, c, name].append((len(target), *found))
                for way, far in ways(fitted, target, tilt):
                    gaps[c, way].append(far)
            print(f"seed {seed}", flush=True)
    ordered = dict(sorted(results.items(), key=lambda item: item[0][:2]))
    write_section(PAGE, tables(ordered, gaps))


if __name__ == "__main__":
    main()
