"""Alarms after deployment: while a promise is kept, the chance of ever raising one is delta.

A few short streams of each setting are made here. The long run has 2,000 of each, and its record is
checked by the same exact test.
"""

import zlib
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from benchmarks.watch import validity
from benchmarks.watch.healthy import DELTA, RUN_LENGTH, SETTINGS, TWINS, run_length
from helpers import assert_binomial

pytestmark = pytest.mark.extra


def alarms(streams, name, repeats, rows):
    seeds = ([zlib.crc32(name.encode()), i] for i in range(repeats))
    return sum(streams[name](np.random.default_rng(seed), rows) for seed in seeds)


@pytest.mark.parametrize("name", SETTINGS)
def test_while_a_promise_is_kept_alarms_are_rare(name):
    assert_binomial(alarms(SETTINGS, name, 60, 600), 60, DELTA, "greater")


@pytest.mark.parametrize(
    ("name", "repeats"), [("at_most_alpha", 300), ("increasing_bet", 30), ("clusters_as_rows", 30)]
)
def test_wrong_instruments_would_be_noticed(name, repeats):
    with pytest.raises(AssertionError):
        assert_binomial(alarms(TWINS, name, repeats, 1_500), repeats, DELTA, "greater")


def test_the_record_of_the_long_run_agrees():
    streams, found = Counter(), Counter()
    for record in validity.records():
        streams[record["setting"]] += record["streams"]
        found[record["setting"]] += record.get("alarms", 0)
    assert {streams[name] for name in validity.ALL} == {validity.STREAMS}
    for name in SETTINGS:
        assert_binomial(found[name], streams[name], DELTA, "greater")
    for name in TWINS:
        with pytest.raises(AssertionError):
            assert_binomial(found[name], streams[name], DELTA, "greater")


@pytest.mark.parametrize("of_urn", [False, True])
def test_a_detector_runs_as_long_as_it_says(of_urn):
    def mean_and_error(promised):
        runs = [run_length(np.random.default_rng([7, i]), of_urn, promised) for i in range(80)]
        return np.mean(runs), np.std(runs) / np.sqrt(len(runs))

    mean, error = mean_and_error(RUN_LENGTH)
    assert mean + 5 * error > RUN_LENGTH
    short, error = mean_and_error(RUN_LENGTH / 20)
    assert short + 5 * error < RUN_LENGTH  # so one that calls too soon would be noticed
