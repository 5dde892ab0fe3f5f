"""Verdicts: fidelity to the paper, better than the paper, better than every rival."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import betabinom, rankdata, t

from benchmarks.datasets import PAPER
from benchmarks.paper.summary import LOCUS_COLUMNS, OURS, Summary, paper

TEST_SHARE = 0.1 / 0.9  # test rows over the rows that everything else was made from
LEVEL = 0.05
FEWEST_SPLITS = 3  # two can agree by chance, and would then be certain
MARGIN = 0.005  # differences below half a point are ties
N_AVAILABLE = 11  # datasets of the paper that can be had
FEWEST_INSIDE = 7
FORMER = "Locus 0.1.0"
TOLERATED = 0.3  # points


@dataclass(frozen=True)
class Difference:
    """Our rate minus a rival's on one dataset; `p_value` is for "the rival is better".

    Holm's correction is over all comparisons, and, less cautious, over those of the dataset.
    """

    dataset: str
    rival: str
    kind: str
    mean: float
    p_value: float
    n: int
    standard_error: float
    holm: float = float("nan")
    holm_of_dataset: float = float("nan")

    @property
    def lost(self) -> bool:
        return self.mean > MARGIN and self.holm <= LEVEL


@dataclass(frozen=True)
class Fidelity:
    """One LOCUS column of one tuned table beside the paper's band."""

    key: str
    method: str
    above: list[str]
    inside: list[str]
    below: list[str]

    @property
    def n(self) -> int:
        return len(self.above) + len(self.inside) + len(self.below)

    @property
    def met(self) -> bool:
        """Not above the band on at least 10 of the 11 datasets, inside it on at least 7."""
        return self.n == N_AVAILABLE and len(self.above) <= 1 and len(self.inside) >= FEWEST_INSIDE


def nadeau_bengio(differences: np.ndarray) -> float:
    """One-sided p-value of "the mean difference is above zero" over overlapping splits.

    The variance of the mean is ``(1/J + n_test/n_rest) s^2`` (Nadeau and Bengio 2003), since the
    splits share rows. One where nothing differs, NaN with fewer than three splits.
    """
    n = len(differences)
    if n < FEWEST_SPLITS:
        return float("nan")
    error = standard_error(differences)
    if error == 0:
        return float(differences.mean() <= 0)
    return float(t.sf(differences.mean() / error, n - 1))


def standard_error(differences: np.ndarray) -> float:
    """Of their mean, corrected for splits that share rows."""
    n = len(differences)
    return float(np.std(differences, ddof=1) * np.sqrt(1 / n + TEST_SHARE)) if n > 1 else np.nan


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values; NaN stays and is not counted."""
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known])]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def differences(summary: Summary, measure: str = "rate") -> list[Difference]:
    """Our default, by tail probability, against every score of every rival, on shared seeds."""
    found = []
    for dataset in summary.datasets:
        ours = summary.values(dataset, OURS, f"alpha_{measure}")
        for rival in summary.rivals:
            for kind in ("lambda", "alpha"):
                theirs = summary.values(dataset, rival, f"{kind}_{measure}")
                seeds = sorted(set(ours) & set(theirs))
                if seeds:
                    gap = np.array([ours[seed] - theirs[seed] for seed in seeds])
                    p_value, error = nadeau_bengio(gap), standard_error(gap)
                    mean = float(gap.mean())
                    found.append(Difference(dataset, rival, kind, mean, p_value, len(seeds), error))
    everywhere = _holm_of(found)
    for dataset in summary.datasets:
        everywhere |= {
            one: replace(everywhere[one], holm_of_dataset=adjusted.holm)
            for one, adjusted in _holm_of([d for d in found if d.dataset == dataset]).items()
        }
    return list(everywhere.values())


@dataclass(frozen=True)
class Change:
    """Our default beside that of 0.1.0 on one dataset, on shared seeds; percent and points."""

    dataset: str
    n: int
    rates: tuple[float, float]  # mean tuned rate, before and now
    standard_error: float  # of the mean difference of the rates
    pinballs: tuple[float, float]  # of the mean loss, before and now

    @property
    def is_worse(self) -> bool:
        """By more than 0.3 points and two standard errors of the paired mean."""
        return self.rates[1] - self.rates[0] > TOLERATED + 2 * self.standard_error


def changes(summary: Summary) -> list[Change]:
    """What became of our default on each dataset."""
    found = []
    for dataset in summary.datasets:
        before, now = (summary.records(dataset, name) for name in (FORMER, OURS))
        seeds = sorted(set(before) & set(now))
        if not seeds:
            continue
        rates, pinballs = (
            100 * np.array([[value(records[seed]) for records in (before, now)] for seed in seeds])
            for value in (
                lambda record: record["alpha_rate"],
                lambda record: record["pinball"] / record["mean_loss"],
            )
        )
        gaps = rates[:, 1] - rates[:, 0]
        error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else np.nan
        means = (tuple(map(float, part.mean(axis=0))) for part in (rates, pinballs))
        found.append(Change(dataset, len(seeds), next(means), error, next(means)))
    return found


def _holm_of(found: list[Difference]) -> dict[Difference, Difference]:
    adjusted = holm(np.array([one.p_value for one in found]))
    return {
        one: replace(one, holm=float(value)) for one, value in zip(found, adjusted, strict=True)
    }


def detectable(found: list[Difference], dataset: str) -> float:
    """Smallest mean difference to a close rival that would be significant among all of `found`.

    Close rivals are the three with the smallest standard errors: those that err where we do.
    """
    known = [one for one in found if not np.isnan(one.p_value)]
    errors = sorted((d.standard_error, d.n) for d in known if d.dataset == dataset)[:3]
    if not errors:
        return float("nan")
    return float(np.median([t.isf(LEVEL / len(known), n - 1) * error for error, n in errors]))


def fidelity(summary: Summary) -> list[Fidelity]:
    """Where our median lies beside the paper's 5-95 % band, per tuned table and LOCUS column."""
    out = []
    for key in ("lambda_rate", "alpha_rate"):
        rows = paper()["tables"][key]["rows"]
        for method in LOCUS_COLUMNS:
            places: dict[str, list[str]] = {"above": [], "inside": [], "below": []}
            for dataset in PAPER:
                ours = summary.quantiles(dataset, method, key)
                if ours is not None:
                    _, low, high = rows[dataset][method]
                    # The paper prints one digit; so do we before comparing.
                    median = round(ours[0], 1)
                    place = "above" if median > high else "below" if median < low else "inside"
                    places[place].append(dataset)
            out.append(Fidelity(key, method, **places))
    return out


def best_of_paper(dataset: str) -> tuple[float, str]:
    """Lowest LOCUS cell of the paper's two tuned tables, and where it stands."""
    tables = paper()["tables"]
    return min(
        (tables[key]["rows"][dataset][method][0], f"{method}, {key.split('_')[0]}")
        for key in ("lambda_rate", "alpha_rate")
        for method in LOCUS_COLUMNS
    )


@dataclass(frozen=True)
class CoverageCheck:
    """Coverage of one method over all its splits, against its beta-binomial law."""

    method: str
    n_splits: int
    mean: float
    expected: float
    smallest: float  # p-value of "too low", times the number of splits of the method
    n_low: int  # splits that are too low at the corrected level


def coverage_checks(summary: Summary) -> list[CoverageCheck]:
    """Per split, covered rows follow a beta-binomial law with k and n2 + 1 - k, or are more."""
    splits = {
        method: [
            record
            for dataset in summary.datasets
            for record in summary.records(dataset, method).values()
            if record.get("k") is not None
        ]
        for method in summary.methods
    }
    out = []
    for method, found in splits.items():
        if not found:
            continue
        total = len(found)
        p_values = np.array(
            [betabinom.cdf(r["covered"], r["n_test"], r["k"], r["n2"] + 1 - r["k"]) for r in found]
        )
        expected = float(np.mean([r["k"] / (r["n2"] + 1) for r in found]))
        mean = float(np.mean([r["coverage"] for r in found]))
        smallest = min(1.0, float(p_values.min()) * total)
        n_low = int(np.sum(p_values * total < LEVEL))
        out.append(CoverageCheck(method, len(found), mean, expected, smallest, n_low))
    return out


def mean_ranks(summary: Summary, measure: str) -> dict[str, float]:
    """Mean rank over the datasets, best first; give it methods on shared seeds."""
    keys = {name: f"{summary.kind(name)}_{measure}" for name in summary.methods}
    if measure == "pinball":
        bounds = [n for n in summary.methods if summary.values(summary.datasets[0], n, "pinball")]
        keys = dict.fromkeys(bounds, "pinball")
    means = [
        [summary.mean(dataset, name, key) for name, key in keys.items()]
        for dataset in summary.datasets
    ]
    ranks = np.mean([rankdata(row) for row in means], axis=0)
    return dict(sorted(zip(keys, ranks.tolist(), strict=True), key=lambda pair: pair[1]))


def win_tie_loss(summary: Summary, method: str) -> tuple[int, int, int, float]:
    """Datasets on which our default is better, equal within half a point, or worse; mean gap."""
    gaps = []
    for dataset in summary.datasets:
        ours = summary.values(dataset, OURS, "alpha_rate")
        theirs = summary.values(dataset, method, f"{summary.kind(method)}_rate")
        seeds = sorted(set(ours) & set(theirs))
        if seeds:
            gaps.append(np.mean([ours[seed] - theirs[seed] for seed in seeds]))
    gap = np.array(gaps)
    won, lost = int(np.sum(gap < -MARGIN)), int(np.sum(gap > MARGIN))
    return won, len(gap) - won - lost, lost, float(gap.mean()) if len(gap) else float("nan")
