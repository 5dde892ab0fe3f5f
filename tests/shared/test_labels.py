"""Labels of groups are read in one place."""

import datetime

import numpy as np
import pytest

from locuscore import metrics
from locuscore._shared.labels import label_codes, read_labels


@pytest.mark.parametrize(
    ("groups", "distinct", "codes"),
    [
        (["b", "a", "b"], ["b", "a"], [0, 1, 0]),
        (np.array([3, 1, 3], dtype=np.int8), [3, 1], [0, 1, 0]),
        ([("a", 1), ("a", 2), ("a", 1)], [("a", 1), ("a", 2)], [0, 1, 0]),
        (
            np.array(["2024-01-31", "2024-02-01", "2024-01-31"], dtype="datetime64[ns]"),
            [datetime.datetime(2024, 1, 31), datetime.datetime(2024, 2, 1)],
            [0, 1, 0],
        ),
    ],
)
def test_codes_number_the_labels_as_they_appear(groups, distinct, codes):
    found, member = label_codes(groups, 3)
    assert found == distinct
    assert member.tolist() == codes


def test_missing_labels_can_be_read_and_have_no_code():
    labels = ["a", None, np.nan]
    assert len(read_labels(labels, 3)) == 3
    with pytest.raises(ValueError, match="2 of 3"):
        label_codes(labels, 3)


@pytest.mark.parametrize("groups", ["a", 1, ["a", "b"], np.ones((3, 2)), np.array("a")])
def test_other_than_one_label_per_row_is_refused(groups):
    with pytest.raises(ValueError, match="3"):
        read_labels(groups, 3)


def test_a_missing_label_among_text_is_no_group():
    with pytest.raises(ValueError, match="1 of 2"):
        metrics.local_coverage([1.0, 2.0], [1.0, 1.0], ["a", np.nan])
