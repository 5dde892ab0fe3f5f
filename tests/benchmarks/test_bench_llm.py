"""The records of ``make llm``: complete, and the certificates as reliable as they say."""

import pytest
from scipy.stats import binomtest

from benchmarks.llm import run

pytestmark = pytest.mark.extra


def test_certificates_break_their_limit_no_more_often_than_delta():
    records = run.read_records()
    assert sorted(record["seed"] for record in records) == list(range(run.DEPLOYMENTS))
    broken = {}
    for record in records:
        for rule in record["rules"]:
            measure = "worst_topic" if "topic" in rule["task"] else "bad"
            key = rule["task"], rule["rule"]
            broken[key] = broken.get(key, 0) + (rule[measure] > run.ETA)
    assert len(broken) == 12
    for (_, name), count in broken.items():
        p = binomtest(count, run.DEPLOYMENTS, run.DELTA, "greater").pvalue
        assert (p > 0.001) if "certificate" in name else (p < 1e-6), name


def test_the_page_has_what_the_records_say():
    text = run.PAGE.read_text(encoding="utf-8")
    rules = [rule for record in run.read_records() for rule in record["rules"]]
    for task in {rule["task"] for rule in rules}:
        own = [rule for rule in rules if rule["task"] == task]
        for line in run.table_lines(task, own, run.DEPLOYMENTS):
            assert line in text
