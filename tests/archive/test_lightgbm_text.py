"""A LightGBM model written anew from its numbers predicts the same bits."""

import json
import re

import numpy as np
import pytest

from locuscore._archive.lightgbm_text import LISTS, canonical_lightgbm

pytestmark = pytest.mark.extra

rng = np.random.default_rng(0)
N = 300
X = rng.normal(size=(N, 3)) * 10.0 ** rng.integers(-9, 9, size=(N, 1))
X[:, 2] = np.round(rng.uniform(0, 7, size=N))
X[rng.uniform(size=N) < 0.1, 1] = np.nan
Y = np.abs(rng.normal(size=N) + X[:, 2] % 2)
CLASSES = (X[:, 2] % 3).astype(int)


def raw_loss(prediction, data):
    return np.sin(np.arange(prediction.size)).reshape(prediction.shape), np.ones_like(prediction)


MODELS = {
    "numbers": {},
    "absolute": {"objective": "regression_l1"},
    "quantile": {"objective": "quantile", "alpha": 0.9},
    "tweedie": {"objective": "tweedie"},
    "of square roots": {"reg_sqrt": True},
    "two classes": {"objective": "binary", "sigmoid": 0.7},
    "three classes": {"objective": "multiclass", "num_class": 3},
    "one class against all": {"objective": "multiclassova", "num_class": 3},
    "forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "monotone": {"monotone_constraints": [1, -1, 0]},
    "categories": {"min_data_per_group": 5, "cat_smooth": 1},
    "zeros are missing": {"zero_as_missing": True},
    "nothing is missing": {"use_missing": False},
    "one leaf": {"min_data_in_leaf": 10**6},
    "a loss of its own": {"objective": raw_loss},
    "a loss of its own of three classes": {"objective": raw_loss, "num_class": 3},
}


def trained(settings, data=X):
    import lightgbm

    given = {"verbose": -1, "num_leaves": 7, "min_data_in_leaf": 5, "num_threads": 1} | settings
    labels = CLASSES % 2 if settings.get("objective") == "binary" else Y
    labels = CLASSES if "num_class" in settings else labels
    categories = [2] if "cat_smooth" in settings and data is X else "auto"
    rows = lightgbm.Dataset(data, labels, categorical_feature=categories)
    return lightgbm.train(given, rows, num_boost_round=5)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_are_predicted(name):
    import lightgbm

    model = trained(MODELS[name])
    text = canonical_lightgbm(model.model_to_string())
    again = lightgbm.Booster(model_str=text)
    for raw in (False, True):
        before, after = model.predict(X, raw_score=raw), again.predict(X, raw_score=raw)
        assert before.tobytes() == after.tobytes()
    assert canonical_lightgbm(again.model_to_string()) == text
    assert (again.feature_importance() == model.feature_importance()).all()


def test_columns_of_a_frame_keep_names_and_levels():
    import lightgbm
    import pandas as pd

    kinds = pd.Categorical(X[:, 2].astype(int).astype(str))
    frame = pd.DataFrame({"a b": X[:, 0], "größe=1": X[:, 1], "kind": kinds})
    model = trained({"min_data_per_group": 5, "cat_smooth": 1}, frame)
    text = canonical_lightgbm(model.model_to_string())
    again = lightgbm.Booster(model_str=text)
    assert "num_cat=1" in text
    assert again.feature_name() == model.feature_name()
    assert model.predict(frame).tobytes() == again.predict(frame).tobytes()


@pytest.mark.parametrize("what", ["absent", "empty"])
@pytest.mark.parametrize(
    "key", [key for key, (_, _, is_followed) in LISTS.items() if not is_followed]
)
def test_lists_that_nothing_follows_are_written_in_full_or_not_at_all(key, what):
    """LightGBM ends the process over an empty one."""
    import lightgbm

    model = trained({})
    text, left = model.model_to_string(), "" if what == "absent" else f"{key}=\n"
    again = canonical_lightgbm(re.sub(rf"^{key}=.*\n", left, text, flags=re.MULTILINE))
    assert not re.search(rf"^{key}=", again, flags=re.MULTILINE)
    assert lightgbm.Booster(model_str=again).predict(X).tobytes() == model.predict(X).tobytes()


def test_linear_trees_are_refused():
    with pytest.raises(ValueError, match="linear trees"):
        canonical_lightgbm(trained({"linear_tree": True}, np.nan_to_num(X)).model_to_string())


@pytest.mark.parametrize("levels", ["{}", "[1]", '[["a"], 3]', '[[["a"]]]'])
def test_levels_of_a_frame_are_lists_of_plain_values(levels):
    text = canonical_lightgbm(trained({}).model_to_string())
    assert text.endswith("pandas_categorical:null\n")
    json.loads(levels)
    with pytest.raises(ValueError, match="categories"):
        canonical_lightgbm(text.replace("categorical:null", f"categorical:{levels}"))
