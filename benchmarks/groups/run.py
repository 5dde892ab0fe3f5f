"""Which calibration keeps its promise in every group, and what that costs. ``make groups``.

The predictor, the loss model and the split are the same for all; only the level of each row
differs. crepes' Mondrian regressor and MAPIE's conditional one are given the same tails.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from crepes import ConformalRegressor
from mapie.conditional_conformal_prediction import ConditionalSplitConformalRegressor
from scipy.stats import betabinom
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.groups.tables import TABLES, Table
from benchmarks.pages import write_section
from locuscore import Locus
from locuscore._laws.calibration import conformal_rank
from locuscore._protocols import Part
from locuscore.calibration import ByGroup, Marginal

PAGE, RECORDS = (Path(__file__).with_name(name) for name in ("RESULTS.md", "records.jsonl"))
ALPHA, N_SEEDS, ERROR = 0.1, 5, 0.05
ENOUGH = 200  # calibration rows of a group
# MAPIE solves a problem for each set of groups. That took over ten minutes on some splits of
# flights, and ended in a singular matrix on bike.
SEEDS_OF_MAPIE = {"flights": 3, "homes": 0, "bike": 0}
Levels = Callable[["Fitted"], np.ndarray]  # one level per test row


class Fitted:
    """A loss model of one split, with the tails of D2 and the laws of the test rows."""

    def __init__(self, table: Table, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ends = np.cumsum(table.sizes)
        train, labelled, test = np.split(rng.permutation(len(table.y))[: ends[-1]], ends[:-1])
        g = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
        g.fit(table.X.iloc[train], table.y[train])
        self.table, self.X = table, table.X.iloc[labelled]
        self.locus = Locus(g, random_state=seed).fit(self.X, table.y[labelled])
        self.new, y_new = table.X.iloc[test], table.y[test]
        self.z = np.asarray(self.locus.losses(self.new, y_new))
        model = self.locus.loss_model_
        self.tails = model.tails(self.locus.calibration_signals_, self.locus.calibration_losses_)
        self.cal = self.X.iloc[self.locus.calibration_rows_]

    def levels(self, choice: Any) -> np.ndarray:
        """Levels of the test rows under a choice of calibration."""
        locus = self.locus
        fit = Part(self.X.iloc[locus.fit_rows_], locus.fit_rows_, locus.fit_signals_)
        cal = replace(fit, X=self.cal, positions=locus.calibration_rows_, tails=self.tails)
        cal = replace(cal, signals=locus.calibration_signals_)
        found = choice.calibrate(fit, cal, None, 0)
        rows = None if found.reads is None else found.reads(self.new)
        return np.broadcast_to(found.level(ALPHA, rows), len(self.new))

    def bounds(self, levels: np.ndarray) -> np.ndarray:
        """Bounds of the test rows at these levels."""
        out = np.empty(len(levels))
        S = self.locus.row_signals(self.new)
        for rows, law in self.locus.loss_model_.blocks(S):
            out[rows] = law.isf(levels[rows, None])[:, 0]
        return out


def crepes_mondrian(column: str) -> Levels:
    """The level of each group from crepes: the residuals are ``1 - tail``."""

    def levels(fitted: Fitted) -> np.ndarray:
        model = ConformalRegressor().fit(
            1.0 - fitted.tails, bins=fitted.cal[column].astype(str).to_numpy()
        )
        zeros = np.zeros(len(fitted.new))
        bins = fitted.new[column].astype(str).to_numpy()
        found = model.predict_int(zeros, bins=bins, confidence=1 - ALPHA)
        return np.clip(1.0 - np.asarray(found)[:, 1], 0.0, 1.0)

    return levels


def mapie_conditional(columns: tuple[str, ...]) -> Levels:
    """The level of each set of groups from MAPIE, one problem for each set that is new."""

    def levels(fitted: Fitted) -> np.ndarray:
        both = pd.concat([fitted.cal, fitted.new])[list(columns)].astype(str)
        dummies = pd.get_dummies(both).to_numpy(float)
        basis = np.hstack([np.ones((len(dummies), 1)), dummies])
        seen = basis[: len(fitted.cal)].any(axis=0)
        cal, new = basis[: len(fitted.cal), seen], basis[len(fitted.cal) :, seen]
        # One dummy of each column is the rest of the others.
        keep = np.unique(np.linalg.qr(cal.T @ cal)[1].diagonal().nonzero())
        cal, new = cal[:, keep], new[:, keep]
        zero = DummyRegressor(strategy="constant", constant=0.0).fit(cal, np.zeros(len(cal)))
        model = ConditionalSplitConformalRegressor(lambda x: x, zero, 1 - ALPHA)
        model.conformalize(cal, 1.0 - fitted.tails)
        sets, which = np.unique(new, axis=0, return_inverse=True)
        found = model.predict_interval(sets, allow_infinite_bounds=True)[1][:, 1, 0]
        return np.clip(1.0 - found, 0.0, 1.0)[which.ravel()]

    return levels


def methods(columns: tuple[str, ...]) -> dict[str, Levels]:
    """All that is compared, by name."""
    ours: dict[str, Any] = {"marginal": Marginal()}
    for column in columns:
        ours[f"by {column}"] = ByGroup(column)
    ours["by both, overlapping"] = ByGroup(list(columns))
    found: dict[str, Levels] = {
        name: lambda fitted, choice=choice: fitted.levels(choice) for name, choice in ours.items()
    }
    for column in columns:
        found[f"crepes Mondrian by {column}"] = crepes_mondrian(column)
    return found | {"MAPIE conditional on both": mapie_conditional(columns)}


def by_group(fitted: Fitted, column: str, bound: np.ndarray) -> Iterator[dict[str, Any]]:
    """Coverage in each group, and whether it is too low for what the calibration rows allow."""
    groups, cal = (frame[column].astype(str).to_numpy() for frame in (fitted.new, fitted.cal))
    names = np.unique(groups)
    for name in names:
        here, n = groups == name, int(np.sum(cal == name))
        covered, m, k = int(np.sum(fitted.z[here] <= bound[here])), int(here.sum()), 0
        k = conformal_rank(n, ALPHA)
        p = betabinom(m, k, n + 1 - k).cdf(covered) if k <= n else 1.0
        yield {
            "group": name, "n": n, "m": m, "coverage": covered / m,
            "is_low": bool(p < ERROR / len(names)),
        }  # fmt: skip


def record(table: str, seed: int, fitted: Fitted, name: str, levels: Levels) -> dict[str, Any]:
    started = time.process_time()
    bound = fitted.bounds(levels(fitted))
    finite = np.isfinite(bound)
    loss = np.where(fitted.z > bound, (1 - ALPHA) * (fitted.z - bound), ALPHA * (bound - fitted.z))
    found: dict[str, Any] = {
        "table": table, "seed": seed, "method": name,
        "seconds": time.process_time() - started,
        "coverage": float(np.mean(fitted.z <= bound)),
        "infinite": float(1 - finite.mean()),
        "pinball": float(loss[finite].mean() / fitted.z.mean()) if finite.any() else None,
    }  # fmt: skip
    marginal = fitted.bounds(fitted.levels(Marginal()))
    for column in fitted.table.columns:
        groups = list(by_group(fitted, column, bound))
        large = {part["group"] for part in groups if part["n"] >= ENOUGH}
        rows = fitted.new[column].astype(str).isin(large).to_numpy() & finite
        found[column] = {
            "worst": min(part["coverage"] for part in groups if part["m"] >= ENOUGH / 2),
            "n_low": sum(part["is_low"] for part in groups),
            "n_groups": len(groups),
            "width": float(bound[rows].mean() / marginal[rows].mean()) if rows.any() else None,
        }
    return found


def run(names: list[str]) -> None:
    known = read_records()
    done = {(part["table"], part["seed"], part["method"]) for part in known}
    for name in names or TABLES:
        table = TABLES[name]()
        for seed in range(N_SEEDS):
            wanted = {
                method: levels
                for method, levels in methods(table.columns).items()
                if (name, seed, method) not in done
                and not (method.startswith("MAPIE") and seed >= SEEDS_OF_MAPIE[name])
            }
            if not wanted:
                continue
            fitted = Fitted(table, seed)
            for method, levels in wanted.items():
                found = record(name, seed, fitted, method, levels)
                with RECORDS.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                print(name, seed, method, round(found["coverage"], 3), flush=True)
    write_page()


def read_records() -> list[dict[str, Any]]:
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def write_page() -> None:
    records = read_records()
    for name in dict.fromkeys(part["table"] for part in records):
        own = [part for part in records if part["table"] == name]
        write_section(PAGE, table_lines(name, own))


def table_lines(name: str, records: list[dict[str, Any]]) -> list[str]:
    columns = [key for key, value in records[0].items() if isinstance(value, dict)]
    n_seeds = len({part["seed"] for part in records})
    head = ["method", "coverage", "infinite bounds", "pinball, % of the mean loss"]
    for column in columns:
        head += [f"worst {column}", f"{column}: groups too low", f"{column}: width"]
    n_mapie = SEEDS_OF_MAPIE[name]
    fewer = f"; MAPIE, which is slow here, over {n_mapie} of them" if n_mapie else "; not MAPIE"
    lines = [f"## {name}", "", f"Means over {n_seeds} splits{fewer}.", ""]
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for method in dict.fromkeys(part["method"] for part in records):
        own = [part for part in records if part["method"] == method]
        pinball = [100 * part["pinball"] for part in own if part["pinball"] is not None]
        cells = [
            method,
            f"{np.mean([part['coverage'] for part in own]):.3f}",
            f"{100 * np.mean([part['infinite'] for part in own]):.1f} %",
            f"{np.mean(pinball):.1f}",
        ]
        for column in columns:
            parts = [part[column] for part in own]
            widths = [part["width"] for part in parts if part["width"] is not None]
            low, n = (sum(part[key] for part in parts) for key in ("n_low", "n_groups"))
            cells += [
                f"{np.mean([part['worst'] for part in parts]):.3f}",
                f"{low} of {n}",
                f"{np.mean(widths):.3f}" if widths else "",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    run(sys.argv[1:])
