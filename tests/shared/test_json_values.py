"""Values in the types JSON has, and back."""

import json

import numpy as np
import pytest

from locuscore._shared.json_values import from_json, read_only, to_json

VALUES = {"n": np.int64(3), "shares": (0.5, np.float64("inf"), -np.inf), "rows": np.array([1, 2])}


def test_numbers_that_json_lacks_are_texts_and_come_back():
    text = json.dumps(to_json(VALUES), allow_nan=False)
    assert json.loads(text) == {"n": 3, "shares": [0.5, "inf", "-inf"], "rows": [1, 2]}
    assert from_json(json.loads(text)) == {"n": 3, "shares": (0.5, np.inf, -np.inf), "rows": (1, 2)}
    assert np.isnan(from_json(to_json(np.nan)))


def test_they_may_be_null_instead():
    assert to_json(VALUES, lambda _: None)["shares"] == [0.5, None, None]


def test_a_read_only_copy_cannot_change():
    copy = read_only({"a": {"b": [1, np.float64(2.0)]}})
    assert copy["a"]["b"] == (1, 2.0)
    with pytest.raises(TypeError):
        copy["a"]["b"] = 1
