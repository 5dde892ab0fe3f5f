"""Would the choice be as good on a table that took no part in it?

The rule that chooses is judged, not its winner: for each table, the candidate with the lowest mean
rank on all other tables is what a table outside the panel would get.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

Record = dict[str, Any]


@dataclass(frozen=True)
class LeftOut:
    """One table, the candidate that the others choose, and what each candidate gives on it."""

    table: str
    chosen: str
    values: dict[str, float]

    @property
    def value(self) -> float:
        return self.values[self.chosen]

    @property
    def ranks(self) -> dict[str, float]:
        """Rank of each candidate on this table, ties shared."""
        return dict(zip(self.values, rankdata(list(self.values.values())).tolist(), strict=True))


def table_of(dataset: str) -> str:
    """The table of a dataset, which is a table and a predictor."""
    return dataset.rsplit(" ", 1)[0]


def means(records: Sequence[Record], methods: Sequence[str], key: str) -> pd.DataFrame:
    """Mean over seeds, one row per dataset and one column per method that has any value.

    A split counts if all of these methods have it, so that all are judged on the same ground.
    """
    there = pd.DataFrame(records, columns=["dataset", "seed", "method", key])
    there = there[there["method"].isin(methods)].dropna(subset=key)
    wide = there.pivot(index=["dataset", "seed"], columns="method", values=key).dropna()
    kept = [name for name in methods if name in wide]
    return wide[kept].groupby("dataset").mean()


def mean_ranks(values: pd.DataFrame) -> pd.Series:
    """Mean rank of each column over the rows; 1 is best."""
    return values.rank(axis=1).mean()


def leave_one_out(
    records: Sequence[Record], candidates: Sequence[str], key: str = "validation_tail"
) -> list[LeftOut]:
    """For each table, what the others choose and what it gives there.

    The predictors of a table are left out together, since they share its rows. Of candidates with
    the same mean rank the first is chosen.
    """
    values = means(records, candidates, key)
    tables = np.array([table_of(dataset) for dataset in values.index])
    out = []
    for table in dict.fromkeys(tables):
        if (tables == table).all():
            continue  # there is no other to choose on
        ranks = mean_ranks(values[tables != table])
        here = values[tables == table].mean()
        out.append(LeftOut(table, str(ranks.idxmin()), here.to_dict()))
    return out
