"""What a watch says of rows that are out of order, without groups, or labelled by choice."""

import json
from datetime import timedelta

import numpy as np
import pytest

from engines_for_tests import quick
from helpers import raises
from locuscore import Scorer
from locuscore.calibration import ByGroup

pd = pytest.importorskip("pandas")
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch import Watch, _clusters  # noqa: E402
from locuscore.watch._claim_test import ClaimTest  # noqa: E402
from locuscore.watch._claims import Claim  # noqa: E402
from locuscore.watch._estimates import Sums  # noqa: E402
from locuscore.watch._settings import WatchSettings  # noqa: E402

DAY = 86_400_000_000
COVERAGE = Claim(name="c", kind="coverage", promised=0.1, alpha=0.1, share=1.0, urn=(10, 90))


def columns(times, losses):
    n = len(times)
    return {
        "id": np.array([str(i) for i in range(n)], dtype=object),
        "time": np.asarray(times),
        "flagged": np.zeros(n, dtype=bool),
        "drawn": np.ones(n, dtype=bool),
        "chance": np.ones(n),
        "group_name": np.array([None] * n, dtype=object),
        "loss": losses,
        "bounds": np.full((n, 1), 0.9),
    }


def test_decisions_out_of_time_order_make_one_entry_of_each_day():
    rng = np.random.default_rng(0)
    times, losses = rng.integers(0, 5 * DAY, size=300), rng.uniform(size=300)
    test = ClaimTest(COVERAGE, WatchSettings(), b"k" * 32)
    for part in (slice(0, 100), slice(100, 300)):  # the course goes on in a later status
        test.see(columns(times[part], losses[part]), (0.1,))
    days = [day[0] for day in test.days]
    assert days == sorted(set(days))
    assert test.days[-1][1] == 300
    in_order = ClaimTest(COVERAGE, WatchSettings(), b"k" * 32)
    in_order.see(columns(np.arange(300), losses), (0.1,))
    assert test.alarm.log_value == pytest.approx(in_order.alarm.log_value, rel=1e-12)


def sums_of(settings):
    """Accepted rows are never missed and flagged ones always; all of them have a label."""
    cells = [(accepted, m) for accepted in (True, False) for m in ("rows", "labelled", "miss 0.1")]
    total = np.array([100.0 * (m != "miss 0.1" or not accepted) for accepted, m in cells])
    found = {
        "accepted": np.array([accepted for accepted, _ in cells]),
        "measure": np.array([measure for _, measure in cells]),
        "drawn": np.ones(len(cells), dtype=bool),
        "group_name": np.array([""] * len(cells), dtype=object),
        "total": total,
        "weighted": 2.0 * total,
    }
    return Sums(found, settings)


def test_nothing_is_estimated_of_all_rows_from_labels_of_accepted_ones():
    assert sums_of(WatchSettings(audit=0.5, audit_flagged=0.5)).estimate(COVERAGE) == 0.5
    assert sums_of(WatchSettings(audit=0.5)).estimate(COVERAGE) is None


def test_rows_without_groups_are_not_taken_for_rows_of_other_groups(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(size=400), "g": np.arange(400) % 2})
    locus = quick(calibration=ByGroup(by="g", pool_below=150)).fit(X, rng.normal(size=400))
    watch = Watch(tmp_path / "decisions.db", Scorer(locus))
    table = {"prediction": np.zeros(3), "bound_0.1": np.ones(3)}
    with raises(ValueError, "promises for groups", "pass groups"):
        watch.log(table)
    assert watch.log(table, groups=[0, 1, None]).new == 3
    watch.close()


BY_CLUSTER = Claim(
    name="a",
    kind="accepted",
    promised=0.1,
    among="accepted",
    labels="accepted",
    unit="cluster",
    share=1.0,
    tau=0.5,
)


MINUTE, HOUR = 60_000_000, 3_600_000_000


def clustered(cluster, bad, times):
    return columns(times, bad.astype(float)) | {
        "cluster": np.array([str(one) for one in cluster], dtype=object)
    }


def seen_clusters(*parts):
    """The test of rows that come in several looks, its state kept as JSON between them."""
    test = ClaimTest(BY_CLUSTER, WatchSettings(), b"k" * 32)
    for part in parts:
        test.see(part, (0.1,))
        kept = json.loads(json.dumps(test.to_state()))
        test = ClaimTest(BY_CLUSTER, WatchSettings(), b"k" * 32).restore(kept)
    return test


# The first row of a cluster is bad with chance 1/2 and the others with 1/20: together .0725.
CLUSTER, PLACE = np.repeat(np.arange(100), 20), np.tile(np.arange(20), 100)
BAD = np.random.default_rng(0).uniform(size=2_000) < np.where(PLACE == 0, 0.5, 0.05)
MIXED = np.lexsort((CLUSTER, PLACE, CLUSTER // 20))  # 20 clusters at a time


def test_clusters_may_mix_within_an_hour():
    apart = seen_clusters(clustered(CLUSTER, BAD, np.arange(2_000) * 4 * MINUTE))
    assert apart.alarm.n == 99  # the last one is not over
    times = np.arange(2_000) * MINUTE // 10 + CLUSTER // 20 * 2 * HOUR
    rows = clustered(CLUSTER[MIXED], BAD[MIXED], times)
    parts = [{name: v[part] for name, v in rows.items()} for part in (slice(777), slice(777, None))]
    for found in (seen_clusters(rows), seen_clusters(*parts)):
        assert found.cluster.trouble is None
        assert not found.alarm.alarm
        assert found.alarm.n == 80
        assert found.total == pytest.approx(apart.total - sum_of_values(range(80, 99)))


def sum_of_values(clusters):
    return sum(0.1 + np.mean(BAD[one == CLUSTER] - 0.1) for one in clusters)


def test_a_pause_does_not_end_a_cluster():
    times = np.arange(2_000) * 2 * HOUR
    assert seen_clusters(clustered(CLUSTER, BAD, times)).alarm.n == 99


def test_clusters_that_come_back_later_are_not_tested():
    rows = clustered(CLUSTER[MIXED], BAD[MIXED], np.arange(2_000) * 10 * MINUTE)
    test = seen_clusters(rows)
    assert "rows of one came back later" in test.cluster.trouble
    assert test.alarm.n == 14  # nothing after the first row that came back


def test_clusters_that_come_back_in_turns_are_noticed_however_many_they_are():
    """Customers who are scored every day, in the same order: their days are no new clusters."""
    n = 5_000
    first = clustered(np.arange(n), np.zeros(n), np.arange(n) * HOUR)
    again = clustered(np.arange(n), np.zeros(n), np.arange(n, 2 * n) * HOUR)
    test = seen_clusters(first, again)
    assert "came back" in test.cluster.trouble
    assert test.alarm.n < n + 50


def test_only_so_many_clusters_are_open_at_a_time(monkeypatch):
    monkeypatch.setattr(_clusters, "MOST_OPEN", 3)
    test = seen_clusters(clustered(np.arange(10), np.zeros(10), np.arange(10)))
    assert (test.alarm.n, len(test.cluster.open)) == (7, 3)


def test_decisions_without_clusters_are_not_tested_by_clusters():
    test = ClaimTest(BY_CLUSTER, WatchSettings(), b"k" * 32)
    nobody = {"cluster": np.array([None] * 50, dtype=object)}
    test.see(columns(np.arange(50), np.zeros(50)) | nobody, (0.1,))
    assert "pass clusters=" in test.cluster.trouble


def test_the_order_of_rows_in_a_file_raises_no_alarm(tmp_path):
    """A file that is sorted, as by region, has its misses together."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4_000, 2))
    y = (X[:, 1] > 0.8) * rng.normal(size=4_000)  # the others have no loss
    scorer = Scorer(quick(signals=lambda X: X[:, :1]).fit(X[:2_000], y[:2_000]))
    order = 2_000 + np.argsort(X[2_000:, 1])
    watch = Watch(tmp_path / "decisions.db", scorer, age=timedelta(0))
    table = scorer(X[order])
    watch.log(table | {"id": [str(i) for i in order]})
    watch.label([str(i) for i in order], y[order])
    assert not watch.status().alarm
    kept = watch.ledger.matured(watch.digest, after_seq=0, written_before=2**60)
    assert sorted(kept["id"].tolist()) == sorted(map(str, order))
    watch.log(table | {"id": [f"t{i}" for i in order]}, times=np.arange(2_000) % 2)
    kept = watch.ledger.matured(watch.digest, after_seq=2_000, written_before=2**60)
    assert np.all(np.diff(kept["time"]) >= 0)  # times that are given say more
    with raises(ValueError, "time has 3 entries for 2000 ids"):
        watch.log(table | {"id": [f"u{i}" for i in order]}, times=np.arange(3))
    watch.close()
