"""What the path of a cascade should look like: ``make choices-cascade-path``.

Mean true cost of what `certify_cascade` certifies, on three kinds of scores: two models that err
independently, two that find the same questions hard, and the same with noisy scores. Nothing that
is certified costs what a person costs.
"""

from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.special import expit

from benchmarks.pages import write_section
from locuscore import certify_cascade
from locuscore._rules import cascade, cascade_path

PAGE = Path(__file__).with_name("RESULTS.md")
ETA = DELTA = 0.1
COSTS = (1.0, 10.0, 200.0)
REPEATS, N_POPULATION = 100, 8_000
KINDS = {"independent": (0.0, 0.7), "alike": (1.0, 0.5), "noisy": (1.0, 1.2)}
SIZES = (500, 2_000)
# thresholds of each model, steps between two vertices, share of the rows that fixes the path
CHOICES = {
    "chosen": (15, 8, 0.25),
    "8 thresholds": (8, 8, 0.25),
    "30 thresholds": (30, 8, 0.25),
    "60 thresholds": (60, 8, 0.25),
    "vertices only": (15, 1, 0.25),
    "a fifth of the rows": (15, 8, 0.2),
    "a third of the rows": (15, 8, 1 / 3),
}


def population(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and the chance of a bad answer, of both models."""
    rng = np.random.default_rng(99)
    alike, noise = KINDS[kind]
    own = (1.0 - alike) * rng.normal(size=(N_POPULATION, 2))
    log_odds = [-1.3, -2.6] + 1.5 * (alike * rng.normal(size=(N_POPULATION, 1)) + own)
    return log_odds + noise * rng.normal(size=log_odds.shape), expit(log_odds)


def mean_cost(kind: str, n: int) -> tuple[float, int]:
    """True cost per question over the repetitions, and how many certify nothing."""
    scores, chance = population(kind)
    rng = np.random.default_rng(1)
    total, nothing = 0.0, 0
    for _ in range(REPEATS):
        rows = rng.integers(len(scores), size=n)
        bad = rng.uniform(size=(n, 2)) < chance[rows]
        rule = certify_cascade(scores[rows], bad, 0.5, ETA, DELTA, costs=COSTS)
        total += np.cumsum(COSTS)[rule.choose(scores)].mean()
        nothing += rule.accepts_nothing
    return total / REPEATS, nothing


def main() -> None:
    head = ["path", *(f"{kind}, {n:,} rows" for kind in KINDS for n in SIZES)]
    what = f"Cost per question, and in brackets how many of {REPEATS} repetitions certify nothing."
    costs = f"Costs are {COSTS}; a person alone costs {sum(COSTS):g}."
    lines = ["## Path of a cascade", "", f"{what} {costs}", ""]
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, (thresholds, steps, share) in CHOICES.items():
        with (
            patch.dict(cascade_path.THRESHOLDS, {2: thresholds}),
            patch.object(cascade_path, "STEPS_BETWEEN", steps),
            patch.object(cascade, "PATH_SHARE", share),
        ):
            found = [mean_cost(kind, n) for kind in KINDS for n in SIZES]
        cells = [f"{cost:.1f} ({nothing})" for cost, nothing in found]
        lines.append("| " + " | ".join([name, *cells]) + " |")
        print(lines[-1], flush=True)
    write_section(PAGE, lines)


if __name__ == "__main__":
    main()
