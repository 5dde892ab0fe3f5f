"""How often do rules for sending answers break their limit? ``make llm``.

Each deployment grades answers of two simulated models (`locuscore.testing.Answers`), chooses its
rules from them, and is judged by the known truth on the whole population, so no verdict has
sampling error. Beside the certificates stand a fixed threshold on a judge's confidence, and one
tuned on the graded answers.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.pages import write_section
from locuscore import (
    CascadeRule,
    Locus,
    Score,
    certify_cascade,
    certify_groups,
    certify_threshold,
    tune_threshold,
)
from locuscore.engines import Forest
from locuscore.testing import Answers

PAGE, RECORDS = (Path(__file__).with_name(name) for name in ("RESULTS.md", "records.jsonl"))
DEPLOYMENTS, N_POPULATION, N_GRADED = 200, 8_000, 3_000
TAU, ETA, DELTA = 0.25, 0.05, 0.1  # bad: more than a quarter of the marks lost
COSTS = (1.0, 10.0, 100.0)  # small model, large model, person
JUDGE = 0.85
MODELS = ("small", "large")
COMMON = ("topic", "embedding_0", "embedding_1", "embedding_2", "embedding_3")
OWN = ("logprob", "length", "agreement", "judge")


class World:
    """The population, with the chance that each answer to each question is bad."""

    def __init__(self) -> None:
        self.answers = Answers.sample(N_POPULATION, rng=0)
        self.bad = self.answers.exceedance(TAU)
        self.topic = self.answers.signals["topic"].to_numpy()

    def signals(self, frame: Any, model: str) -> Any:
        return frame[[*COMMON, *(f"{model}_{name}" for name in OWN)]]

    def sent(self, accepted: np.ndarray) -> dict[str, Any]:
        """What follows from sending these answers of the large model, and asking a person else."""
        chosen = np.where(accepted, 1, 2)
        # Without a small model, nobody has asked it.
        return self.outcome(chosen) | {"cost": float(COSTS[1] + COSTS[2] * np.mean(~accepted))}

    def outcome(self, chosen: np.ndarray) -> dict[str, Any]:
        """What follows from these choices: 0 and 1 are models, 2 is a person."""
        is_sent = chosen < 2
        bad = self.bad[np.arange(len(chosen)), np.minimum(chosen, 1)]
        by_topic = [
            float(bad[is_sent & (self.topic == name)].mean())
            for name in np.unique(self.topic[is_sent])
        ]
        return {
            "sent": float(is_sent.mean()),
            "bad": float(bad[is_sent].mean()) if is_sent.any() else 0.0,
            "worst_topic": max(by_topic, default=0.0),
            "cost": float(np.cumsum(COSTS)[chosen].mean()),
        }


def deployment(world: World, seed: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every rule made from one set of graded answers: task, name, and what follows in truth."""
    graded = world.answers.graded(N_GRADED, np.random.default_rng([seed, 1]))
    losses = graded[["small_loss", "large_loss"]].to_numpy()
    doubt = 1.0 - graded[["small_judge", "large_judge"]].to_numpy()
    doubt_all = 1.0 - world.answers.signals[["small_judge", "large_judge"]].to_numpy()
    fitted = {}
    for model in MODELS:
        locus = Locus(engine=Forest(n_trees=20), signals="x", support=(0, 1), calibration_size=0.5,
                      random_state=seed)  # fmt: skip
        X = world.signals(graded, model)
        fitted[model] = locus.fit_losses(X, graded[f"{model}_loss"])
    # Both split alike, so D2 is the same half of the rows for both.
    held = fitted["large"].calibration_rows_
    assert (held == fitted["small"].calibration_rows_).all()
    tail = Score.tail(TAU)
    score = np.column_stack([
        fitted[model].scores(world.signals(graded, model).iloc[held], tail) for model in MODELS
    ])  # fmt: skip
    score_all = np.column_stack([
        fitted[model].scores(world.signals(world.answers.signals, model), tail) for model in MODELS
    ])  # fmt: skip
    target = (TAU, ETA, DELTA)

    one, by = "large model", "large model, every topic"
    z = losses[:, 1]
    rule = fitted["large"].certify(*target)
    yield one, "certificate, all signals", world.sent(rule.accepts(score_all[:, 1], tail))
    rule = certify_threshold(doubt[:, 1], z, *target)
    yield one, "certificate, the judge alone", world.sent(rule.accepts(doubt_all[:, 1]))
    fixed = world.sent(doubt_all[:, 1] <= 1 - JUDGE)
    tuned = world.sent(tune_threshold(doubt[:, 1], z, TAU, ETA).accepts(doubt_all[:, 1]))
    for task in (one, by):
        yield task, f"judge at least {JUDGE}", fixed
        yield task, "judge, threshold tuned on the graded answers", tuned
    rules = fitted["large"].certify_groups("topic", *target)
    accepted = rules.accepts(score_all[:, 1], tail, groups=world.topic)
    yield by, "certificate by topic, all signals", world.sent(accepted)
    rules = certify_groups(doubt[:, 1], z, graded["topic"], *target)
    accepted = rules.accepts(doubt_all[:, 1], groups=world.topic)
    yield by, "certificate by topic, the judge alone", world.sent(accepted)

    task = "cascade"
    cascade = certify_cascade(score, losses[held], *target, costs=COSTS)
    yield task, "certificate, all signals", world.outcome(cascade.choose(score_all))
    cascade = certify_cascade(doubt, losses, *target, costs=COSTS)
    yield task, "certificate, the judge alone", world.outcome(cascade.choose(doubt_all))
    by_hand = CascadeRule(MODELS, (1 - JUDGE, 1 - JUDGE), "heuristic", "")
    yield task, f"judge at least {JUDGE}, for both", world.outcome(by_hand.choose(doubt_all))
    tuned_pair = cheapest_pair(doubt, losses > TAU)
    by_hand = CascadeRule(MODELS, tuned_pair, "heuristic", "")
    name = "judge, thresholds tuned on the graded answers"
    yield task, name, world.outcome(by_hand.choose(doubt_all))


def cheapest_pair(doubt: np.ndarray, bad: np.ndarray) -> tuple[float, float]:
    """The cheapest pair of thresholds whose share of bad answers on these rows is at most ETA."""
    grid = [np.append(-np.inf, np.quantile(column, np.linspace(0.02, 1, 50))) for column in doubt.T]
    best, found = float(np.sum(COSTS)), (-np.inf, -np.inf)
    for first in grid[0]:
        small = doubt[:, 0] <= first
        large = ~small & (doubt[:, 1][:, None] <= grid[1]).T  # (thresholds, rows)
        n = small.sum() + large.sum(axis=1)
        n_bad = (small & bad[:, 0]).sum() + (large & bad[:, 1]).sum(axis=1)
        cost = COSTS[0] + COSTS[1] * np.mean(~small) + COSTS[2] * (1 - n / len(doubt))
        cost = np.where(n_bad <= ETA * n, cost, np.inf)
        if cost.min() < best:
            best = float(cost.min())
            found = float(first), float(grid[1][int(np.argmin(cost))])
    return found


def run() -> None:
    done = {record["seed"] for record in read_records()}
    world = World()
    for seed in range(DEPLOYMENTS):
        if seed in done:
            continue
        started = time.process_time()
        rules = [{"task": t, "rule": r} | found for t, r, found in deployment(world, seed)]
        rules = [{k: round(v, 6) if isinstance(v, float) else v for k, v in r.items()}
                 for r in rules]  # fmt: skip
        with RECORDS.open("a") as file:
            file.write(json.dumps({"seed": seed, "rules": rules}) + "\n")
        print(seed, round(time.process_time() - started, 1), "s", flush=True)
    write_page()


def read_records() -> list[dict[str, Any]]:
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def write_page() -> None:
    records = read_records()
    rows = [rule for record in records for rule in record["rules"]]
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        write_section(PAGE, table_lines(task, own, len(records)))


def table_lines(task: str, rows: list[dict[str, Any]], n: int) -> list[str]:
    measure = "worst_topic" if "topic" in task else "bad"
    what = "bad answers in the worst topic" if "topic" in task else "bad answers among the sent"
    head = ["rule", "sent", what, f"deployments above {ETA:g}", f"p-value of at most {DELTA:g}",
            "cost per question"]  # fmt: skip
    lines = [f"## {task[0].upper()}{task[1:]}", "", f"Means over {n} deployments.", ""]
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in dict.fromkeys(row["rule"] for row in rows):
        own = [row for row in rows if row["rule"] == name]
        broken = sum(row[measure] > ETA for row in own)
        p = binomtest(broken, len(own), DELTA, "greater").pvalue
        cells = [
            name,
            f"{100 * np.mean([row['sent'] for row in own]):.1f} %",
            f"{100 * np.mean([row[measure] for row in own]):.1f} %",
            f"{broken} of {len(own)}",
            f"{p:.2g}" if p > 1e-15 else "< 1e-15",
            f"{np.mean([row['cost'] for row in own]):.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["page"]:
        write_page()
    else:
        run()
