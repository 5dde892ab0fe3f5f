"""How far off `Locus.probability` is, by decile, on held-out rows.

A quarter of each dataset, at most 6,000 rows, trains g, as many fit a default `Locus`, and all
others are held out. Losses without atoms are absolute errors, with tau at two quantiles of the
losses of D1; losses with atoms are the errors of a classifier of the target's thirds. Run
``make choices-probability``; about five minutes.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore import Locus

PAGE = Path(__file__).with_name("RESULTS.md")
NAMES = [
    "winewhite",
    "cycle",
    "electric",
    "bike",
    "homes",
    "superconductivity",
    "protein",
    "kin40k",
]
MOST_ROWS = 6_000
QUANTILES = (0.7, 0.9)
N_DECILES = 10


@dataclass(frozen=True)
class Result:
    """Mean probability and share of losses above tau, by decile of the probability."""

    name: str
    what: str
    n_fit: int
    n_held_out: int
    said: np.ndarray
    seen: np.ndarray

    @property
    def error(self) -> np.ndarray:
        return self.said - self.seen

    def is_off(self, with_d1: bool) -> np.ndarray:
        """Above 0.02 and three standard errors, of a tenth of the held-out rows, or of D1 too."""
        rows = 1 / self.n_held_out + (1 / self.n_fit if with_d1 else 0.0)
        allowed = 3 * np.sqrt(self.seen * (1 - self.seen) * N_DECILES * rows)
        return np.asarray(np.abs(self.error) > np.maximum(0.02, allowed))


def by_decile(p: np.ndarray, bad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = np.array_split(np.argsort(p, kind="stable"), N_DECILES)
    return np.array([p[part].mean() for part in parts]), np.array(
        [bad[part].mean() for part in parts]
    )


def measure(name: str) -> list[Result]:
    X, y = load(name)
    rows = np.random.default_rng(0).permutation(len(y))
    n = min(MOST_ROWS, len(y) // 4)
    train, cal, new = rows[:n], rows[n : 2 * n], rows[2 * n :]
    thirds = np.digitize(y, np.quantile(y[train], [1 / 3, 2 / 3]))
    regressor = RandomForestRegressor(100, n_jobs=-1, random_state=0).fit(X[train], y[train])
    classifier = RandomForestClassifier(100, n_jobs=-1, random_state=0).fit(X[train], thirds[train])
    absolute = Locus(regressor, random_state=0).fit(X[cal], y[cal])
    zero_one = Locus(classifier, loss="zero_one", random_state=0).fit(X[cal], thirds[cal])
    z_fit = absolute.losses(X[cal], y[cal])[absolute.fit_rows_]
    cases = [
        (f"absolute, tau at {q:g}", absolute, y, float(np.quantile(z_fit, q))) for q in QUANTILES
    ]
    cases.append(("0-1, tau = 0", zero_one, thirds, 0.0))
    found = []
    for what, locus, target, tau in cases:
        bad = locus.losses(X[new], target[new]) > tau
        said, seen = by_decile(locus.probability(X[new], tau), bad)
        found.append(Result(name, what, len(locus.fit_rows_), len(new), said, seen))
    return found


def tables(results: list[Result]) -> list[str]:
    n_deciles = N_DECILES * len(results)
    off, far_off = (sum(int(r.is_off(with_d1).sum()) for r in results) for with_d1 in (False, True))
    errors = np.abs([r.error for r in results])
    lines = [
        "## Error of the probabilities",
        "",
        "Made by `make choices-probability`. Held-out rows are ordered by `Locus.probability(X, "
        "tau)` and cut into ten parts; an entry is the mean probability of a part less the share "
        "of its losses above tau, in points. A star marks errors above 2 points and above three "
        "standard errors of the part: chance in the held-out rows does not explain them. Two "
        "stars: nor does chance in a tenth of D1, from which the model was learned.",
        "",
        f"{n_deciles - off} of {n_deciles} parts are within 2 points or the sampling error of the "
        f"held-out rows, {n_deciles - far_off} if that of D1 is added; the mean absolute error is "
        f"{100 * errors.mean():.1f} points, the largest {100 * errors.max():.1f}.",
        "",
        "| dataset | loss | D1 | held out | mean | "
        + " | ".join(str(j + 1) for j in range(N_DECILES))
        + " |",
        "|" + "---|" * (N_DECILES + 5),
    ]
    for r in results:
        stars = r.is_off(False).astype(int) + r.is_off(True)
        cells = [f"{100 * e:+.1f}{'*' * n}" for e, n in zip(r.error, stars, strict=True)]
        head = [r.name, r.what, f"{r.n_fit:,}", f"{r.n_held_out:,}", f"{100 * r.error.mean():+.1f}"]
        lines.append("| " + " | ".join(head + cells) + " |")
    return lines


def main() -> None:
    results = [result for name in NAMES for result in measure(name)]
    write_section(PAGE, tables(results))


if __name__ == "__main__":
    main()
