"""How much a certificate accepts, on scores with known exceedance.

Run ``make choices-certificates``; about half an hour on one core. The comparison with MAPIE's
controller is left out where that package is not installed (``pip install mapie==1.6.0``).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.pages import write_section
from locuscore import (
    certify_threshold,
    certify_threshold_holm,
    certify_threshold_paper,
    match_acceptance,
    operating_curve,
    route,
    select_batch,
    tune_alpha,
    tune_threshold,
)

mpl.use("Agg")
import matplotlib.pyplot as plt

PAGE = Path(__file__).with_name("RESULTS.md")
FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "certificates.png"
ETA = DELTA = 0.1
REPEATS = {200: 500, 1_000: 4_000, 5_000: 200, 20_000: 200}
SIZES = tuple(REPEATS)
N_REFERENCE = 1_000
STARTS = np.round(np.linspace(0.05, 0.95, 19), 2)
GRID = np.linspace(0.05, 1.0, 20)

Risk = Callable[[np.ndarray], np.ndarray]
Certify = Callable[[np.ndarray, np.ndarray, np.random.Generator], float]


@dataclass(frozen=True)
class Generator:
    """A uniform score u, and P(bad | u)."""

    name: str
    formula: str
    risk: Risk

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw n scores, and whether each row is bad."""
        u = rng.uniform(size=n)
        return u, (rng.uniform(size=n) < self.risk(u)).astype(float)

    def exceedance(self) -> tuple[np.ndarray, np.ndarray]:
        """P(bad | u <= t) at many t."""
        middle = (np.arange(100_000) + 0.5) / 100_000
        return np.arange(1, 100_001) / 100_000, np.cumsum(self.risk(middle)) / np.arange(1, 100_001)

    def largest_valid(self) -> float:
        """The largest t with P(bad | u <= t) <= eta."""
        t, q = self.exceedance()
        return float(t[q <= ETA].max())


GENERATORS = (
    Generator("A", "0.02 + 0.6 u^2", lambda u: 0.02 + 0.6 * u**2),
    Generator(
        "B",
        "0.085 for u < 0.3, then 0.02 + 0.6 (u - 0.3)",
        lambda u: np.where(u < 0.3, 0.085, 0.02 + 0.6 * (u - 0.3)),
    ),
)


def own(u: np.ndarray, bad: np.ndarray, rng: np.random.Generator) -> float:
    return certify_threshold(u, bad, 0.5, ETA, DELTA).threshold


def reference(u: np.ndarray, bad: np.ndarray, rng: np.random.Generator) -> float:
    other = rng.uniform(size=N_REFERENCE)
    return certify_threshold(u, bad, 0.5, ETA, DELTA, reference=other).threshold


def holm(u: np.ndarray, bad: np.ndarray, rng: np.random.Generator) -> float:
    return certify_threshold_holm(u, bad, 0.5, ETA, DELTA, GRID).threshold


def paper(u: np.ndarray, bad: np.ndarray, rng: np.random.Generator) -> float:
    return certify_threshold_paper(u, bad, 0.5, ETA, DELTA, GRID).threshold


def mapie_controller(method: str, n_thresholds: int) -> Certify:
    """MAPIE's controller of precision: class 1 is "not bad", predicted where 1 - u is large."""
    from mapie.risk_control import BinaryClassificationController  # noqa: PLC0415 - optional

    def certify(u: np.ndarray, bad: np.ndarray, rng: np.random.Generator) -> float:
        controller = BinaryClassificationController(
            lambda X: np.column_stack([X[:, 0], 1.0 - X[:, 0]]),
            "precision",
            target_level=1 - ETA,
            confidence_level=1 - DELTA,
            list_predict_params=np.linspace(1.0, 0.0, n_thresholds + 1)[1:],
            fwer_method=method,
        )
        controller.calibrate(u[:, None], (bad == 0).astype(int))
        best = controller.best_predict_param
        return -np.inf if best is None else float(1.0 - best)

    return certify


def certificates() -> dict[str, Certify]:
    ours = {
        "ours, no reference": own,
        "ours, reference scores": reference,
        "ours, Holm on 20": holm,
        "paper's bound": paper,
    }
    if find_spec("mapie") is None:
        print("mapie is not installed, its rows are left out: pip install mapie==1.6.0")
        return ours
    return ours | {
        "MAPIE, Holm on 20": mapie_controller("bonferroni_holm", 20),
        "MAPIE, Holm on 100": mapie_controller("bonferroni_holm", 100),
        "MAPIE, fixed sequence on 20": mapie_controller("fixed_sequence", 20),
    }


def accepted(thresholds: list[float]) -> np.ndarray:
    return np.clip(np.array(thresholds), 0.0, 1.0)


def best_of(single: dict[float, list[float]]) -> list[float]:
    return max(single.values(), key=lambda values: accepted(values).mean())


def measure(generator: Generator, n: int) -> dict[str, tuple[float, float, float]]:
    """Mean accepted share, its standard error and the share of repetitions above eta."""
    t, q = generator.exceedance()
    found: dict[str, list[float]] = {name: [] for name in CERTIFICATES}
    single: dict[float, list[float]] = {start: [] for start in STARTS}
    referenced: dict[float, list[float]] = {start: [] for start in STARTS}
    for repeat in range(REPEATS[n]):
        rng = np.random.default_rng([repeat, n])
        u, bad = generator.sample(n, rng)
        for name, certify in CERTIFICATES.items():
            found[name].append(certify(u, bad, rng))
        other = rng.uniform(size=N_REFERENCE)
        for start in STARTS:
            rule = certify_threshold(u, bad, 0.5, ETA, DELTA, starts=[start])
            single[start].append(rule.threshold)
            rule = certify_threshold(u, bad, 0.5, ETA, DELTA, starts=[start], reference=other)
            referenced[start].append(rule.threshold)
    found["best single start (needs the truth), no reference"] = best_of(single)
    found["best single start (needs the truth), reference scores"] = best_of(referenced)
    out = {}
    for name, values in found.items():
        share = accepted(values)
        out[name] = (
            float(share.mean()),
            float(share.std(ddof=1) / np.sqrt(len(share))),
            float(np.mean(np.interp(share, t, q) * (share > 0) > ETA)),
        )
    return out


def cost(n: int = 1_000_000) -> list[tuple[str, float, float]]:
    """Processor seconds of each call on n rows, and as a multiple of one argsort of the scores."""
    rng = np.random.default_rng(0)
    u, bad = GENERATORS[0].sample(n, rng)
    other, new = rng.uniform(size=N_REFERENCE), rng.uniform(size=n)
    clean = np.zeros(n)  # no bad row: every threshold is tested

    def seconds(call: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        return min(times)

    def columns() -> list[np.ndarray]:
        curve = operating_curve(u, bad, 0.5)
        return [curve.acceptance, curve.exceedance, curve.low, curve.high]

    sort = seconds(lambda: np.argsort(u))
    calls = {
        "tune_threshold": lambda: tune_threshold(u, bad, 0.5, ETA),
        "tune_alpha": lambda: tune_alpha(u, bad, 0.5, ETA),
        "match_acceptance": lambda: match_acceptance(u, 0.7),
        "certify_threshold": lambda: certify_threshold(u, bad, 0.5, ETA, DELTA),
        "certify_threshold, no bad row": lambda: certify_threshold(u, clean, 0.5, ETA, DELTA),
        "certify_threshold, reference of as many": lambda: certify_threshold(
            u, bad, 0.5, ETA, DELTA, reference=new
        ),
        "certify_threshold, reference of 1,000": lambda: certify_threshold(
            u, bad, 0.5, ETA, DELTA, reference=other
        ),
        "certify_threshold_holm, grid of 20": lambda: holm(u, bad, rng),
        "certify_threshold_paper, grid of 20": lambda: paper(u, bad, rng),
        "select_batch, as many new rows": lambda: select_batch(new, u, bad, 0.5, ETA),
        "operating_curve": lambda: operating_curve(u, bad, 0.5),
        "operating_curve, all columns": columns,
        "route": lambda: route(new, 0.3, score_cal=u, losses_cal=bad, tau=0.5),
    }
    plain = seconds(lambda: np.sort(u))
    rows = [
        ("np.argsort of the scores", sort, 1.0),
        ("np.sort of the scores (vectorised, loses the rows)", plain, plain / sort),
    ]
    for name, call in calls.items():
        spent = seconds(call)
        rows.append((name, spent, spent / sort))
    return rows


def report(results: dict[tuple[str, int], dict[str, tuple[float, float, float]]]) -> list[str]:
    counts = ", ".join(str(count) for count in REPEATS.values())
    lines = [
        "## Certificates: how much they accept",
        "",
        f"Made by `make choices-certificates`. eta = delta = {ETA}, {counts} repetitions, score "
        "u uniform on (0, 1). Cells: mean accepted share as a fraction of the largest valid "
        "one, its standard error, and in brackets the share of repetitions above eta (allowed: "
        f"{DELTA}). All "
        f"certificates see the same rows; the reference has {N_REFERENCE:,} scores without labels.",
        "",
    ]
    for generator in GENERATORS:
        top = generator.largest_valid()
        lines += [
            f"### Generator {generator.name}: P(bad | u) = {generator.formula}",
            "",
            f"Largest valid acceptance {top:.3f}.",
            "",
            "| certificate | " + " | ".join(f"N = {n:,}" for n in SIZES) + " |",
            "|---|" + "---|" * len(SIZES),
        ]
        for name in results[generator.name, SIZES[0]]:
            cells = [results[generator.name, n][name] for n in SIZES]
            lines.append(
                f"| {name} | "
                + " | ".join(f"{a / top:.3f} ± {e / top:.3f} ({b:.2f})" for a, e, b in cells)
                + " |"
            )
        lines.append("")
    lines += ["![accepted share](../../docs/figures/certificates.png)", "", "### Cost", ""]
    lines += ["1,000,000 rows, best of three.", "", "| call | seconds | times one argsort |"]
    lines.append("|---|---|---|")
    lines += [f"| {name} | {spent:.3f} | {ratio:.1f} |" for name, spent, ratio in cost()]
    return lines


def draw(results: dict[tuple[str, int], dict[str, tuple[float, float, float]]]) -> None:
    figure, axes = plt.subplots(1, len(GENERATORS), figsize=(9, 3.6), sharey=True)
    for ax, generator in zip(axes, GENERATORS, strict=True):
        top = generator.largest_valid()
        for name in results[generator.name, SIZES[0]]:
            values = [results[generator.name, n][name][0] / top for n in SIZES]
            style = {"ours": "-o", "MAPI": "--s"}.get(name[:4], ":")
            ax.plot(SIZES, values, style, label=name, markersize=4)
        ax.set(xscale="log", xlabel="labelled rows N", title=f"Generator {generator.name}")
        ax.set_ylim(-0.02, 1.02)
    axes[0].set_ylabel("accepted / largest valid")
    axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=130)


CERTIFICATES = certificates()

if __name__ == "__main__":
    table = {}
    for chosen in GENERATORS:
        for size in SIZES:
            table[chosen.name, size] = measure(chosen, size)
            print(chosen.name, size, table[chosen.name, size], flush=True)
    draw(table)
    write_section(PAGE, report(table))
