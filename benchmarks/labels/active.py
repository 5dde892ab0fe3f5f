"""Which rows should be labelled, so that a certificate accepts most? ``make labels-active``.

With a budget of labels and a pool of scores, ceiling and start planned on D1's out-of-fold pairs:

* everything: a random sample of all rows, exact tests from a planned start
* below: what `plan_labels` does, a random sample of the rows below the planned ceiling, exact tests

and four others. Their tests are weaker, so ceiling and start are planned twice, for the budget and
for half of it, and the plan that turns out better counts for them:

* weights: labels with a chance that goes with the root of the estimated second moment of ``bad -
  eta``, and bets with the inverse chances as weights (the game of `betting`)
* strata: two fifths of the labels for the lower half of the rows; the exact test of two binomials
* two stages: half of the labels, a new ceiling planned with these, the other half below that; the
  two exact p-values combined by their normal scores
* sequential: ten batches, each below the largest threshold whose estimated rate is still below eta;
  bets that hold at all times

A run may be killed at any moment: the next one makes the cells that are missing. ``--report`` only
writes the page.
"""

import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.special import bdtr, logsumexp, ndtr, ndtri
from scipy.stats import binom, binomtest
from sklearn.isotonic import IsotonicRegression

from benchmarks.labels.risks import ISSUE, Risk, risks
from benchmarks.pages import write_section
from locuscore._rules.anytime_bets import WEIGHTS, bet_sizes
from locuscore._rules.betting import Games, rejected
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.labels import SIMULATIONS, _Bins, _mean_acceptance, _passed

PAGE, RECORDS = (Path(__file__).with_name(name) for name in ("RESULTS.md", "active.jsonl"))
DELTA, SAMPLES = 0.1, 40
BUDGETS = (50, 100, 200, 400, 800)
COMPARED = (100, 200, 400)  # budgets of the baseline for which ratios are taken
FEWER = 12  # thresholds of the tests that take long
CELLS_OF_RATES = 40
LOW, LOW_SHARE = 0.5, 0.4
BATCHES = 10
PARTS = 30  # of the rows below a threshold, for the limits
STAGE_SIMULATIONS = 30


@dataclass(frozen=True, eq=False)
class Plan:
    """What all ways below the ceiling share."""

    risk: Risk
    budget: int
    edges: np.ndarray  # up to the ceiling
    start: int
    bins: _Bins

    def rows(self, rng: np.random.Generator, n: int, ceiling: float | None = None) -> np.ndarray:
        """Positions of random rows of the population below a ceiling."""
        top = self.edges[-1] if ceiling is None else ceiling
        return rng.integers(max(int(np.searchsorted(self.risk.score, top, "right")), 1), size=n)

    def few(self) -> np.ndarray:
        """Some of the positions from the start up."""
        at = np.linspace(self.start, len(self.edges) - 1, FEWER).round().astype(int)
        return np.unique(at)


Way = Callable[[Plan, np.random.Generator], float]


def _last(edges: np.ndarray, passed: np.ndarray) -> float:
    """The threshold before the first failure."""
    failed = np.flatnonzero(~passed)
    end = int(failed[0]) if len(failed) else len(edges)
    return float(edges[end - 1]) if end else -np.inf


def _counts(score: np.ndarray, bad: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.searchsorted(np.sort(s), edges, "right") for s in (score, score[bad]))


def below(plan: Plan, rng: np.random.Generator) -> float:
    at = plan.rows(rng, plan.budget)
    edges = plan.edges[plan.start :]
    n, bad = _counts(plan.risk.score[at], plan.risk.bad[at], edges)
    return _last(edges, binomial_p_value(bad, n, plan.risk.eta) <= DELTA)


def everything(plan: Plan, rng: np.random.Generator) -> float:
    edges = plan.bins.edge[_start_of_all(plan) :]
    n, bad = _counts(*plan.risk.sample(rng, plan.budget), edges)
    return _last(edges, binomial_p_value(bad, n, plan.risk.eta) <= DELTA)


@lru_cache(maxsize=1)
def _start_of_all(plan: Plan) -> int:
    """The best start on a sample of all rows, planned on D1 too."""
    bins, rng = plan.bins, np.random.default_rng(plan.budget)
    drawn = _resampled(bins, rng)
    passed = _passed(*drawn, plan.budget, plan.risk.eta, DELTA, rng)
    means = _mean_acceptance(passed, np.cumsum(drawn[0], axis=1) / bins.n_rows)
    return int(np.argmax(means))


def _resampled(bins: _Bins, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    parts = np.concatenate([bins.bad, bins.count - bins.bad])
    drawn = rng.multinomial(parts.sum(), parts / parts.sum(), size=SIMULATIONS)
    m = len(bins.edge)
    return drawn[:, :m] + drawn[:, m:], drawn[:, :m]


def weights(plan: Plan, rng: np.random.Generator) -> float:
    risk, eta = plan.risk, plan.risk.eta
    rate = IsotonicRegression(out_of_bounds="clip").fit(risk.score_fit, risk.bad_fit * 1.0)
    candidates = plan.rows(rng, 20 * plan.budget)
    chance = np.sqrt(rate.predict(risk.score[candidates]) * (1 - 2 * eta) + eta**2)
    kept = candidates[rng.choice(len(candidates), plan.budget, p=chance / chance.sum())]
    u = eta / np.sqrt(rate.predict(risk.score[kept]) * (1 - 2 * eta) + eta**2)  # eta is the least
    x = np.clip(eta + u * (risk.bad[kept] - eta), 0.0, 1.0)
    edges = plan.edges[plan.few()]
    games = Games.of([x[risk.score[kept] <= edge] for edge in edges])
    return _last(edges, rejected(games, eta, np.array(DELTA)))


def strata(plan: Plan, rng: np.random.Generator) -> float:
    risk, m = plan.risk, len(plan.edges)
    cut = plan.edges[max(int(LOW * m) - 1, 0)]
    n_low = round(LOW_SHARE * plan.budget)
    size = int(np.searchsorted(risk.score, cut, "right"))
    top = int(np.searchsorted(risk.score, plan.edges[-1], "right"))
    if top <= size or not size:
        return below(plan, rng)
    low = risk.bad[rng.integers(size, size=n_low)]
    at = rng.integers(size, top, size=plan.budget - n_low)
    edges = plan.edges[plan.few()]
    edges = edges[edges > cut]
    n, bad = _counts(risk.score[at], risk.bad[at], edges)
    known, is_bad = risk.score_fit, risk.bad_fit
    passed = []
    for edge, n_high, k_high in zip(edges, n, bad, strict=True):
        inside = [known <= cut, (known > cut) & (known <= edge)]
        expected = [(is_bad[part].sum() + 1) / (part.sum() + 2) for part in inside]
        share = size / np.searchsorted(risk.score, edge, "right")
        p = two_binomials((low.sum(), n_low), (k_high, n_high), share, risk.eta, expected)
        passed.append(p <= DELTA)
        if p > DELTA:
            break
    return _last(edges[: len(passed)], np.array(passed, dtype=bool))


def two_binomials(low, high, share, eta, expected) -> float:
    """P-value of ``share r1 + (1 - share) r2 > eta``, exact.

    The rates r1 fall into cells. All rates of the claim with r1 in a cell are at least the corner
    (its lower end, the r2 that belongs to its upper end), at which the test is the likelihood ratio
    to the expected rates where these are lower. It falls with both counts, so its p-value at the
    corner is valid for all of them; the largest over the cells is valid for the claim.
    """
    (k1, n1), (k2, n2) = low, high
    ends = np.linspace(0.0, min(1.0, eta / share), CELLS_OF_RATES + 1)
    rates = [
        np.append(ends[:-1], ends[-1]),
        np.append(np.clip((eta - share * ends[1:]) / (1 - share), 0, 1), 0),
    ]
    odds = (np.maximum(r, 1e-12) / (1 - np.minimum(r, 1 - 1e-12)) for r in rates)
    pairs = zip(odds, expected, strict=True)
    c1, c2 = (np.maximum(np.log(one) - np.log(e / (1 - e)), 0) for one, e in pairs)
    left = (c1 * k1 + c2 * k2)[:, None] - c1[:, None] * np.arange(n1 + 1)
    most = np.where(c2[:, None] > 0, np.floor(left / np.maximum(c2, 1e-12)[:, None] + 1e-9), n2)
    most = np.where(left >= -1e-9, np.minimum(most, n2), -1)
    cdf = np.where(most >= 0, bdtr(np.maximum(most, 0), n2, rates[1][:, None]), 0.0)
    return float((binom.pmf(np.arange(n1 + 1), n1, rates[0][:, None]) * cdf).sum(axis=1).max())


def two_stages(plan: Plan, rng: np.random.Generator) -> float:
    risk, half = plan.risk, plan.budget // 2
    first = plan.rows(rng, half)
    known = np.append(risk.score_fit, risk.score[first])
    is_bad = np.append(risk.bad_fit, risk.bad[first])
    # The labels of the first stage may choose the second ceiling, not the order of the thresholds.
    bins = _Bins.of(known, is_bad)
    ceiling, *_ = bins.best(plan.budget, risk.eta, DELTA, rng, STAGE_SIMULATIONS)
    top = min(float(bins.edge[ceiling]), float(plan.edges[-1]))
    second = plan.rows(rng, plan.budget - half, top)
    edges = plan.edges[plan.start :]
    p = [
        binomial_p_value(*_counts(risk.score[at], risk.bad[at], edges)[::-1], risk.eta)
        for at in (first, second)
    ]
    p[1] = np.where(edges <= top, p[1], 1.0)
    combined = ndtr(sum(ndtri(np.clip(one, 1e-12, 1 - 1e-12)) for one in p) / np.sqrt(2))
    return _last(edges, combined <= DELTA)


def sequential(plan: Plan, rng: np.random.Generator) -> float:
    risk, eta, edges = plan.risk, plan.risk.eta, plan.edges
    prior = [np.searchsorted(np.sort(s), edges, "right")
             for s in (risk.score_fit, risk.score_fit[risk.bad_fit])]  # fmt: skip
    seen = np.zeros((2, len(edges)))
    gains, largest = np.zeros((len(edges), len(WEIGHTS))), np.zeros(len(edges))
    for _ in range(BATCHES):
        rate = (prior[1] + seen[1] + 1) / (prior[0] + seen[0] + 2)
        hopeful = np.flatnonzero(rate <= eta)
        top = int(hopeful[-1]) if len(hopeful) else plan.start
        at = plan.rows(rng, plan.budget // BATCHES, float(edges[top]))
        n, bad = _counts(risk.score[at], risk.bad[at], edges)
        inside = np.arange(len(edges)) <= top  # others have not been labelled with one chance
        seen[:, inside] += np.array([n, bad])[:, inside]
        steps = [np.log1p(bet_sizes(eta) * (eta - one)) for one in (0.0, 1.0)]
        gains[inside] += (np.outer(n - bad, steps[0]) + np.outer(bad, steps[1]))[inside]
        largest = np.maximum(largest, logsumexp(gains, axis=1, b=WEIGHTS))
    return _last(edges[plan.start :], largest[plan.start :] >= -np.log(DELTA))


WAYS: dict[str, Way] = {
    "everything": everything,
    "below": below,
    "weights": weights,
    "strata": strata,
    "two stages": two_stages,
    "sequential": sequential,
}


def lines_kept() -> list[dict]:
    """The lines there are: one for each risk and each of the two plans."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [json.loads(line) for line in lines]


def records() -> list[dict]:
    """One record for each risk, with the better of the two plans for each way and budget."""
    found: dict[str, dict] = {}
    for line in lines_kept():
        record = found.setdefault(line["cell"], {})
        for key, value in line.items():
            if key not in record or (isinstance(value, list) and value[0] > record[key][0]):
                record[key] = value
    return list(found.values())


def run() -> None:
    """Make the lines that are missing."""
    done = {(line["cell"], line["planned_for"]) for line in lines_kept()}
    for part in (1.0, 0.5):
        for risk in risks(ISSUE):
            if (risk.name, part) not in done:
                with RECORDS.open("a") as file:
                    file.write(json.dumps(measured(risk, part)) + "\n")
                print(risk.name, part, flush=True)


def measured(risk: Risk, part: float) -> dict:
    """Accepted and wrong shares of each way and budget, planned for a part of the budget."""
    record: dict = {"cell": risk.name, "planned_for": part, "samples": SAMPLES}
    bins = _Bins.of(risk.score_fit, risk.bad_fit)
    for budget in BUDGETS:
        rng = np.random.default_rng([zlib.crc32(risk.name.encode()), budget, round(10 * part)])
        ceiling, start, _ = bins.best(round(part * budget), risk.eta, DELTA, rng)
        plan = Plan(risk, budget, bins.edge[: ceiling + 1], start, bins)
        for name, way in WAYS.items():
            if part == 1.0 or name not in ("everything", "below"):
                found = [way(plan, rng) for _ in range(SAMPLES)]
                accepted = np.mean([risk.accepted(t) for t in found]) / risk.best
                wrong = np.mean([risk.exceedance(t) > risk.eta for t in found])
                record[f"{name} {budget}"] = [round(float(accepted), 4), round(float(wrong), 4)]
    return record


def needed(record: dict, way: str, accepted: float) -> float:
    """Labels with which a way accepts so much, between budgets on the scale of their logarithm."""
    shares = np.maximum.accumulate([record[f"{way} {budget}"][0] for budget in BUDGETS])
    if accepted > shares[-1]:
        return 2.0 * BUDGETS[-1]  # or more
    j = int(np.argmax(shares >= accepted))
    if j == 0:
        return float(BUDGETS[0])
    part = (accepted - shares[j - 1]) / (shares[j] - shares[j - 1])
    return float(np.exp(np.interp(part, [0, 1], np.log(BUDGETS[j - 1 : j + 1]))))


def ratios(found: list[dict], way: str, baseline: str) -> np.ndarray:
    """Labels that a way needs over those of the baseline, for equal acceptance."""
    return np.array(
        [
            needed(record, way, record[f"{baseline} {budget}"][0]) / budget
            for record in found
            for budget in COMPARED
            if record[f"{baseline} {budget}"][0] > 0.02
        ]
    )


def limits(risk: Risk) -> tuple[float, float]:
    """Labels over those of the plain sample that weights, and two strata, need in the limit.

    Ratios of variances with perfect knowledge, just below the largest valid threshold: for weights
    of the second moment of ``bad - eta``, with chances in proportion to its root; for strata of the
    estimated rate, with the best cut and the best shares.
    """
    bad = risk.bad[: int(0.95 * risk.best * len(risk.bad))].astype(np.float64)
    parts = [part.mean() for part in np.array_split(bad, PARTS)]
    rate = IsotonicRegression().fit_transform(np.arange(PARTS), parts)
    moment = rate * (1 - 2 * risk.eta) + risk.eta**2
    by_strata = []
    for cut in range(1, PARTS):
        rates = np.array([rate[:cut].mean(), rate[cut:].mean()])
        shares = np.array([cut, PARTS - cut]) / PARTS
        by_strata.append(float((shares @ np.sqrt(rates * (1 - rates))) ** 2))
    whole = rate.mean()
    return float(np.sqrt(moment).mean() ** 2 / moment.mean()), min(by_strata) / (
        whole * (1 - whole)
    )


def page() -> None:
    """Write the section of the page."""
    found = records()
    n_both = sum(line["planned_for"] == 0.5 for line in lines_kept())
    lines = [
        "## Which rows to label",
        "",
        f"`make labels-active`: {len(found)} risks of bike, homes and protein, {SAMPLES} samples "
        f"for each budget, delta = {DELTA:g}. Accepted share over the largest valid one, mean over "
        "the risks; labels needed for the acceptance that `plan_labels` (below) has with "
        f"{', '.join(map(str, COMPARED))} labels, over these, median and quartiles; and the share "
        'of wrong certificates, with the p-value of "at most delta". Of the last four the better '
        f"of two plans counts, in hindsight, where both were measured ({n_both} of "
        f"{len(found)} risks).",
        "",
        f"| labelled | {' | '.join(map(str, BUDGETS))} | labels needed | wrong | p-value |",
        f"|{'---|' * (len(BUDGETS) + 4)}",
    ]
    for way in WAYS:
        shares = [np.mean([r[f"{way} {budget}"][0] for r in found]) for budget in BUDGETS]
        low, middle, high = np.quantile(ratios(found, way, "below"), [0.25, 0.5, 0.75])
        n = SAMPLES * len(BUDGETS) * len(found)
        wrong = round(SAMPLES * sum(r[f"{way} {budget}"][1] for r in found for budget in BUDGETS))
        p = binomtest(wrong, n, DELTA, "greater").pvalue
        told = " | ".join(f"{share:.2f}" for share in shares)
        needs = f"{middle:.2f} ({low:.2f} to {high:.2f})"
        lines.append(f"| {way} | {told} | {needs} | {wrong / n:.1%} | {p:.2g} |")
    of_weights, of_strata = np.median([limits(risk) for risk in risks(ISSUE)], axis=0)
    lines += [
        "",
        "What could be gained at most: with perfect knowledge of the risk and very many labels, "
        f"weights would need {of_weights:.2f} of the labels of the plain sample and two strata "
        f"{of_strata:.2f}, in the median of the risks (ratios of variances).",
    ]
    write_section(PAGE, lines)


if __name__ == "__main__":
    if "--report" not in sys.argv:
        run()
    page()
