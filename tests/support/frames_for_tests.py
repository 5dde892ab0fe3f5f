"""A frame with a column of every kind, in the libraries that rows come from."""

import numpy as np


def frame_of_all_kinds():
    import pandas as pd

    return pd.DataFrame(
        {
            "number": [0.1, -0.0, np.nan, 1e15 + 0.5],
            "single": np.array([0.1, 2.5, -7.25, 1e-3], dtype=np.float32),
            "whole": [3, -4, 5, 2**40],
            "truth": [True, False, True, True],
            "text": ["north", "süd", None, "12"],
            "kind": pd.Categorical(["a", "b", None, "a"], categories=["b", "a", "never"]),
            "time": pd.to_datetime(
                ["2024-03-01 10:00", "1969-12-31 23:59:59.5", None, "2024-01-01"], format="mixed"
            ),
            "zoned": pd.to_datetime(
                ["2024-03-01 10:00", "2024-07-01", "2024-03-31 01:30", "2024-01-01"],
                format="mixed",
            ).tz_localize("Europe/Berlin"),
        }
    )


def to_polars(frame, _):
    import polars as pl

    return pl.from_pandas(frame)


def to_arrow(frame, _):
    import pyarrow as pa

    return pa.Table.from_pandas(frame)
