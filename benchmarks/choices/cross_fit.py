"""Few rows: a split, `CrossFit`, `OutOfBag`, MAPIE's CV+ and coverforest, on the same rows.

g is a forest of other rows of the same table. CV+ and coverforest model the loss by a forest of the
same signals. MAPIE's scores are signed, so the upper end at level 1 - 2 alpha is one-sided CV+;
those of coverforest are absolute, and as losses are skewed to the right, the upper end at level 1 -
alpha is taken. coverforest 0.0.3 does not import beside scikit-learn 1.9, so it runs in an
environment of its own with scikit-learn 1.7, whose Python is named by ``COVERFOREST_PYTHON``;
without it that column is left out. Run ``make choices-cross-fit``; about an hour,
resumable.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks.datasets import load
from benchmarks.pages import write_section
from benchmarks.small.methods import ALPHAS, Problem
from benchmarks.small.run import make_problem, measure
from locuscore import Locus
from locuscore.calibration import CrossFit, OutOfBag
from locuscore.calibration._cross_fit import CrossFitCalibration

PAGE = Path(__file__).with_name("RESULTS.md")
KEPT = Path(__file__).with_name("cross_fit.jsonl")
FEW = ("concrete", "airfoil", "star", "homes")
TABLES = {60: FEW, 150: FEW, 500: FEW, 2_000: ("homes", "bike", "electric")}
SEEDS = {60: 4, 150: 4, 500: 4, 2_000: 4}  # seeds by number of rows
N_FOR_G, N_TREES, K = 300, 100, 10
OTHER_PYTHON = os.environ.get("COVERFOREST_PYTHON")
COVERFOREST = """
import sys
import numpy as np
from coverforest import CoverForestRegressor
given = np.load(sys.argv[1])
peer = CoverForestRegressor(100, method="cv", cv=10, min_samples_leaf=3, random_state=0)
peer.fit(given["S"], given["z"])
ends = [peer.predict(given["S_new"], alpha=float(a))[1][:, 1] for a in given["alphas"]]
np.save(sys.argv[2], np.array(ends))
"""

Bounds = list[np.ndarray]


def ours(calibration: object) -> Callable[[Problem], Bounds]:
    def bounds(problem: Problem) -> Bounds:
        locus = Locus(problem.g, calibration=calibration, random_state=problem.seed)
        locus.fit(problem.labelled.x, problem.labelled.y)
        return list(locus.loss_bound(problem.test.x, ALPHAS).T)

    return bounds


def mapie_cv_plus(problem: Problem) -> Bounds:
    from mapie.conformity_scores import AbsoluteConformityScore  # noqa: PLC0415 - optional
    from mapie.regression import CrossConformalRegressor  # noqa: PLC0415 - optional

    forest = RandomForestRegressor(100, min_samples_leaf=3, random_state=problem.seed)
    peer = CrossConformalRegressor(
        forest,
        confidence_level=[1 - 2 * alpha for alpha in ALPHAS],
        conformity_score=AbsoluteConformityScore(sym=False),
        method="plus",
        cv=K,
        random_state=problem.seed,
    )
    peer.fit_conformalize(problem.labelled.signals, problem.labelled.z)
    return list(peer.predict_interval(problem.test.signals)[1][:, 1, :].T)


def coverforest(problem: Problem) -> Bounds:
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npy"
        new = problem.test.signals
        labelled = problem.labelled
        np.savez(given, S=labelled.signals, z=labelled.z, S_new=new, alphas=np.array(ALPHAS))
        command = [str(OTHER_PYTHON), "-W", "ignore", "-c", COVERFOREST, str(given), str(found)]
        subprocess.run(command, check=True)
        return list(np.load(found))


METHODS: dict[str, Callable[[Problem], Bounds]] = {
    "split (default)": ours(None),
    "CrossFit(10)": ours(CrossFit(K)),
    "OutOfBag": ours(OutOfBag()),
    "MAPIE CV+": mapie_cv_plus,
}
if OTHER_PYTHON:
    METHODS["coverforest"] = coverforest


def records(n: int) -> dict[str, list[dict[str, float]]]:
    """Records by method; each is written when it is made, and not made again."""
    kept = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    known = {(one["rows"], one["table"], one["seed"], one["method"]): one for one in kept}
    found: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    for name, seed in product(TABLES[n], range(SEEDS[n])):
        problem = None
        for method, bounds in METHODS.items():
            key = (n, name, seed, method)
            if key not in known:
                X, y = load(name)
                problem = problem or make_problem(X, y, N_FOR_G, n, seed, N_TREES)
                numbers = measure(problem, bounds(problem))
                known[key] = dict(zip(("rows", "table", "seed", "method"), key, strict=True))
                known[key] |= {what: round(number, 5) for what, number in numbers.items()}
                with KEPT.open("a") as file:
                    print(json.dumps(known[key]), file=file)
            found[method].append(known[key])
    return found


def lines(n: int) -> list[str]:
    """One line per method: means over tables and seeds, in units of the mean loss."""
    found = records(n)
    out = []
    for method, runs in found.items():
        cells = []
        for alpha in ALPHAS:
            coverage = [record[f"coverage_{alpha}"] for record in runs]
            cells.append(f"{np.mean(coverage):.3f} ({np.std(coverage):.3f})")
            for what in ("bound", "pinball"):
                cells.append(f"{np.mean([record[f'{what}_{alpha}'] for record in runs]):.3f}")
        out.append(f"| {n:,} | {method} | {' | '.join(cells)} |")
    return out


def main() -> None:
    heads = [f"coverage at {a} | bound | pinball" for a in ALPHAS]
    body = [text for n in SEEDS for text in lines(n)]
    seeds = ", ".join(f"{count} at {n:,} rows" for n, count in SEEDS.items())
    promised = {n: CrossFitCalibration(np.zeros(n), K).promised(ALPHAS[0]) for n in SEEDS}
    floors = ", ".join(f"{1 - share:.3f} with {n:,} rows" for n, share in promised.items())
    write_section(
        PAGE,
        [
            "## Few rows",
            "",
            f"Means over the tables {', '.join(FEW)} (with enough rows; at 2,000 rows "
            f"{', '.join(TABLES[2_000])}) and seeds ({seeds}), in units of the mean loss of the "
            f"test rows; in brackets the standard deviation of the coverage over tables "
            f"and seeds. At alpha = {ALPHAS[0]} `CrossFit` promises a coverage of {floors}.",
            "",
            f"| rows | method | {' | '.join(heads)} |",
            "|---:|---|" + "---:|" * 3 * len(ALPHAS),
            *body,
        ],
    )


if __name__ == "__main__":
    main()
