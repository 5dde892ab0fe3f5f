"""Data to try the library on, included in the package: no network and no pickle are needed."""

from importlib.resources import as_file, files
from typing import Any

import numpy as np

from locuscore._protocols import FloatArray
from locuscore._shared.optional import require

__all__ = ["load_answers", "load_diamonds"]

_CATEGORIES = ("cut", "color", "clarity")
_FEATURES = ("carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z")


def load_diamonds(*, as_frame: bool = True) -> tuple[Any, Any]:
    """Prices in dollars of 53,940 round-cut diamonds and nine attributes of each.

    Carat is the weight; x, y and z are in millimetres, depth and table in percent. Cut, color and
    clarity are ordered from worst to best. Source: R package ggplot2 (see ``data/README.md``).

    Parameters
    ----------
    as_frame
        True for a pandas frame with ordered categoricals and a series of prices; False for float
        arrays of shape (53940, 9) and (53940,), categories as codes 0, 1, ... in their order.

    Returns
    -------
    X, y
        Attributes and prices.

    Examples
    --------
    >>> from locuscore.datasets import load_diamonds
    >>> X, y = load_diamonds(as_frame=False)
    >>> X.shape, y.min(), y.max()
    ((53940, 9), np.float64(326.0), np.float64(18823.0))
    """
    stored = _read("diamonds.npz")
    price = stored["price"].astype(np.float64)
    columns = {name: _plain(name, stored[name]) for name in _FEATURES}
    if not as_frame:
        return np.column_stack(list(columns.values())), price
    pandas = require("pandas", extra="demo")
    frame = pandas.DataFrame(
        {
            name: pandas.Categorical.from_codes(
                stored[name], categories=stored[f"{name}_levels"].tolist(), ordered=True
            )
            if name in _CATEGORIES
            else values
            for name, values in columns.items()
        }
    )
    return frame, pandas.Series(price, name="price")


def load_answers() -> Any:
    """Graded answers of two small text models to 4,000 support questions, as a pandas frame.

    The answer is one of 18 procedures. For each model, ``small`` and ``large``, there are the
    answer, its log-probability, the margin to the second best, the agreement of five answers to the
    question with words left out, a judge's confidence, and the loss: 0 for the right procedure, 0.5
    for another one of the same topic, 1 else. The judge is too sure of answers about contracts and
    legal matters. ``data/README.md`` says how they were made.

    Returns
    -------
    table
        One row per question: question, topic, length, embedding and the columns of both models.

    Examples
    --------
    >>> from locuscore.datasets import load_answers
    >>> table = load_answers()
    >>> table.shape
    (4000, 19)
    """
    pandas = require("pandas", extra="demo")
    with as_file(files("locuscore") / "data" / "answers.csv.gz") as path:
        return pandas.read_csv(path)


def _read(name: str) -> dict[str, np.ndarray]:
    source = files("locuscore") / "data" / name
    with as_file(source) as path, np.load(path, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def _plain(name: str, stored: np.ndarray) -> FloatArray:
    """Undo the storage in hundredths; category codes stay as they are."""
    values = stored.astype(np.float64)
    return values if name in _CATEGORIES else values / 100.0
