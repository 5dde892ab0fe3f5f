"""The two predictors whose errors are bounded, on frames as they are."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

N_TREES = 300
Fit = Callable[[pd.DataFrame, np.ndarray, int], Pipeline]  # rows, target, seed
MOST_LEVELS = 200  # boosting takes at most 255; rarer levels share one


def forest(X: pd.DataFrame, y: np.ndarray, seed: int, n_trees: int = N_TREES) -> Pipeline:
    """A random forest; text as codes, missing numbers as medians."""
    levels = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1
    )
    model = RandomForestRegressor(n_trees, n_jobs=1, random_state=seed)
    return make_pipeline(_columns(X, levels), SimpleImputer(strategy="median"), model).fit(X, y)


def boosting(X: pd.DataFrame, y: np.ndarray, seed: int) -> Pipeline:
    """Boosted trees that split categories by their levels; what is missing or new is NaN."""
    levels = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        encoded_missing_value=np.nan,
        max_categories=MOST_LEVELS,
    )
    model = HistGradientBoostingRegressor(
        categorical_features=list(range(len(_text(X)))), random_state=seed
    )
    return make_pipeline(_columns(X, levels), model).fit(X, y)


def _columns(X: pd.DataFrame, levels: OrdinalEncoder) -> ColumnTransformer:
    """All columns as floats, those of text first."""
    text, dates = _text(X), list(X.select_dtypes("datetime").columns)
    numbers = [name for name in X if name not in [*text, *dates]]
    return ColumnTransformer(
        [
            ("text", levels, text),
            ("dates", FunctionTransformer(_calendar), dates),
            ("numbers", FunctionTransformer(_floats), numbers),
        ]
    )


def _text(X: pd.DataFrame) -> list[str]:
    return list(X.select_dtypes(["object", "category"]).columns)


def _floats(X: pd.DataFrame) -> np.ndarray:
    return X.to_numpy(dtype=np.float64)


def _calendar(X: pd.DataFrame) -> np.ndarray:
    """Day, month and weekday: the trend and the seasons of a date."""
    parts: list[Callable[[pd.Series], pd.Series]] = [
        lambda when: (when - pd.Timestamp(0)).dt.days,
        lambda when: when.dt.month,
        lambda when: when.dt.day_of_week,
    ]
    return np.column_stack([part(X[name]) for name in X for part in parts]).astype(np.float64)


PREDICTORS: dict[str, Fit] = {"forest": forest, "boosting": boosting}
