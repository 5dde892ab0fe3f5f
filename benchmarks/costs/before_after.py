"""Time of two versions side by side: interleaved runs in fresh processes, medians and their ratio.

    python benchmarks/costs/before_after.py BEFORE_SRC AFTER_SRC [--rounds 5] [--only TEXT ...]

Each round starts two processes, one for each source folder, and has them run one line after another
in turns, so that a line is timed on both versions within seconds; the version that goes first
changes from round to round. Times are those of the processor with one thread, which other work on
the machine disturbs least. Only public names are used, so the same lines run on both versions.
Fails where the median ratio is above 1.10. About four minutes for five rounds on a quiet machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge

from locuscore import KNNGamma, Locus, Scorer
from locuscore.engines import MDN, Bagged, Forest, Gaussian
from locuscore.report import report

MOST = 1.10
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
IMPORT = "import time; t = time.process_time(); import locuscore; print(time.process_time() - t)"
IMPORT_LINE = "import locuscore"
TEN_ALPHAS = np.linspace(0.05, 0.5, 10)
OTHERS: dict[str, dict[str, Any]] = {
    "Gaussian": {"engine": Gaussian(Ridge(), Ridge())},
    "Bagged": {"engine": Bagged(Gaussian(Ridge(), Ridge()), n_draws=10)},
    "MDN": {"engine": MDN(n_draws=50, max_epochs=5)},
    "gamma": {"gamma": KNNGamma()},
}


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 10))
    return X, X.sum(axis=1) + X[:, 0] * rng.normal(size=n)


class Parts:
    """What the lines work on, each made when first wanted."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "kept.locus"
        self.labelled, self.few = rows(10_000, seed=1), rows(2000, seed=6)
        self.X = rows(50_000, seed=2)[0]
        self.frame = pd.DataFrame(self.X, columns=[f"x{j}" for j in range(10)])
        self.others: dict[str, Locus] = {}
        train = rows(1000, seed=3)
        self.linear = LinearRegression().fit(*train)
        self.forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0).fit(*train)

    @cached_property
    def locus(self) -> Locus:
        return Locus(self.linear, random_state=0).fit(*self.labelled)

    @cached_property
    def scorer(self) -> Scorer:
        return Scorer(self.locus, self.locus.certify(1.0, 0.2, 0.1))

    @cached_property
    def saved(self) -> Path:
        self.scorer.save(self.path)
        return self.path

    @cached_property
    def frame_scorer(self) -> Scorer:
        frame, y = pd.DataFrame(self.labelled[0], columns=self.frame.columns), self.labelled[1]
        g = LinearRegression().fit(frame[:1000], y[:1000])
        return Scorer(Locus(g, engine=Forest(20), random_state=0).fit(frame, y))

    def fit(self) -> None:
        self.locus = Locus(self.linear, random_state=0).fit(*self.labelled)

    def fit_forest(self) -> None:
        Locus(self.forest, engine=Forest(20), random_state=0).fit(*self.labelled)

    def other(self, name: str) -> Locus:
        """Another engine, on 2,000 rows."""
        if name not in self.others:
            self.others[name] = Locus(self.linear, random_state=0, **OTHERS[name]).fit(*self.few)
        return self.others[name]


# What is timed, and how often in one run. A call before that is not counted, except for those that
# take long: fits, and many rows, before which one row is scored.
LINES: dict[str, tuple[Callable[[Parts], Any], int]] = {
    "fit, 10,000 rows, linear g": (lambda p: p.fit(), 1),
    "fit, 10,000 rows, forest g": (lambda p: p.fit_forest(), 1),
    "loss_bound, 1 row": (lambda p: p.locus.loss_bound(p.X[:1], 0.1), 200),
    "loss_bound, 50,000 rows": (lambda p: p.locus.loss_bound(p.X, 0.1), 1),
    "loss_bound, 50,000 rows, ten alphas": (lambda p: p.locus.loss_bound(p.X, TEN_ALPHAS), 1),
    "exceedance, 50,000 rows": (lambda p: p.locus.exceedance(p.X, 1.0), 1),
    "Scorer, 1 row": (lambda p: p.scorer(p.X[:1]), 200),
    "Scorer, 50,000 rows": (lambda p: p.scorer(p.X), 1),
    "Scorer, frame of 1 row": (lambda p: p.frame_scorer(p.frame[:1]), 100),
    "Scorer, frame of 50,000 rows": (lambda p: p.frame_scorer(p.frame), 3),
    "certify": (lambda p: p.locus.certify(1.0, 0.2, 0.1), 5),
    "certify, 5,000 fresh rows": (lambda p: p.locus.certify(1.0, 0.2, 0.1, *rows(5000, 4)), 3),
    "save": (lambda p: p.scorer.save(p.path), 5),
    "load": (lambda p: Scorer.load(p.saved), 3),
    "loss_bound, 5,000 rows, Gaussian": (lambda p: p.other("Gaussian").loss_bound(p.X[:5000]), 50),
    "loss_bound, 5,000 rows, Bagged": (lambda p: p.other("Bagged").loss_bound(p.X[:5000]), 10),
    "loss_bound, 2,000 rows, MDN": (lambda p: p.other("MDN").loss_bound(p.X[:2000]), 5),
    "loss_bound, 5,000 rows, KNNGamma": (lambda p: p.other("gamma").loss_bound(p.X[:5000]), 3),
    "report, 5,000 rows": (lambda p: report(p.scorer, *rows(5000, seed=5)).to_html(), 1),
}


def child() -> None:
    """Time the lines whose names come in, one at a time."""
    parts = Parts()
    for name in map(str.strip, sys.stdin):
        function, repeats = LINES[name]
        if "fit" not in name and "50,000" not in name:
            function(parts)
        print(median(seconds(function, parts) for _ in range(repeats)), flush=True)


def seconds(function: Callable[[Parts], Any], parts: Parts) -> float:
    start = time.process_time()
    function(parts)
    return time.process_time() - start


class Version:
    """A process that has one of the two versions on its path."""

    def __init__(self, source: Path) -> None:
        self.env = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(source.resolve())}
        self.process = self._start(__file__, "--child")

    def _start(self, *arguments: str) -> Any:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-Wignore", *arguments], env=self.env, **pipes)

    def __call__(self, name: str) -> float:
        if name == IMPORT_LINE:
            return min(float(self._start("-c", IMPORT).communicate()[0]) for _ in range(2))
        print(name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def one_round(sources: list[Path], names: list[str], first: int) -> np.ndarray:
    """Seconds of each line, before and after, shape (lines, 2)."""
    versions, found = [Version(source) for source in sources], np.empty((len(names), 2))
    for j, name in enumerate(names):
        for side in (first, 1 - first):
            found[j, side] = versions[side](name)
    for version in versions:
        version.process.communicate()
    return found


def show(names: list[str], times: np.ndarray) -> bool:
    """Print a table of times (rounds, lines, 2); whether no line is slower than it may be."""
    print("| line | before, ms | after, ms | after / before | range |\n|---|---:|---:|---:|---:|")
    ratios = times[..., 1] / times[..., 0]
    for j, name in enumerate(names):
        before, after = 1e3 * np.median(times[:, j], axis=0)
        low, ratio, high = np.quantile(ratios[:, j], [0, 0.5, 1])
        cells = f"{before:.2f} | {after:.2f} | {ratio:.2f} | {low:.2f} to {high:.2f}"
        print(f"| {name} | {cells} |{' above' if ratio > MOST else ''}")
    return bool((np.median(ratios, axis=0) <= MOST).all())


def main() -> None:
    if sys.argv[1:] == ["--child"]:
        child()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path, nargs=2, metavar="SRC", help="before, after")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], help="lines that contain one of these")
    options = parser.parse_args()
    names = [name for name in (IMPORT_LINE, *LINES) if any(text in name for text in options.only)]
    start, times = time.perf_counter(), []
    for number in range(options.rounds):
        times.append(one_round(options.sources, names, first=number % 2))
        print(f"round {number + 1}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    sys.exit(not show(names, np.array(times)))


if __name__ == "__main__":
    main()
