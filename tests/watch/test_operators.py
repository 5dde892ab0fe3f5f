"""What an operator gets wrong in a long run: one sentence, and nothing is harmed for ever."""

import logging
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from archives_for_tests import rows, small_scorer
from engines_for_tests import quick
from helpers import raises
from ledger_for_tests import DAY, NOON, Clock, assert_same_sums, new_schema, opened, sums_of
from locuscore import Scorer, certify_groups
from locuscore.calibration import ByGroup

pd = pytest.importorskip("pandas")
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch import Watch  # noqa: E402
from locuscore.watch._claims import claims_of  # noqa: E402
from locuscore.watch._estimates import Sums  # noqa: E402
from locuscore.watch._ledger import labels  # noqa: E402

X, Y = rows(40, seed=7)
IDS = [f"r{i}" for i in range(40)]


@pytest.fixture(scope="module")
def scorer():
    return small_scorer()


@pytest.fixture
def watch(scorer, tmp_path):
    found = Watch(tmp_path / "decisions.db", scorer, age=timedelta(0))
    found.score(X, IDS)
    return found


@pytest.fixture
def ledger(url):
    found = opened(url, Clock())
    one = {"bounds": np.ones((4, 2)), "time": np.full(4, NOON), "drawn": np.ones(4, bool)}
    found.append_decisions("first", one | {"id": list("abcd"), "chance": np.full(4, 0.3)})
    yield found
    found.close()


def test_a_label_from_the_future_is_refused(ledger):
    """No later correction would count."""
    with raises(ValueError, "more than a day ahead", "no correction"):
        ledger.append_labels(["a"], losses=[1.0], times=[NOON + 2 * DAY])
    ledger.append_labels(["a"], losses=[9.0], times=[NOON + DAY // 2])  # a clock that goes wrong
    assert ledger.append_labels(["a"], losses=[1.0], times=[NOON + DAY]).new == 1


def test_a_huge_loss_that_is_corrected_leaves_its_day_as_it_was(ledger):
    ledger.append_labels(list("abc"), losses=[0.5, 0.25, 2.0])
    before = sums_of(ledger)
    wrong = [1e50, -9.96921e36, 2.0**41 + 0.5, 1e99]
    for k, huge in enumerate(wrong):
        ledger.append_labels(["d"], losses=[huge], times=[NOON + 2 * k + 1])
        ledger.append_labels(["c"], losses=[-huge], times=[NOON + 2 * k + 1])
        cells = Sums(ledger.daily("first"), None)
        assert cells.total("loss") == pytest.approx(0.75, abs=1e-3 * abs(huge) + 1e-9)
        ledger.append_labels(["d"], losses=[huge], times=[NOON + 2 * k + 2])
        assert cells.total("labelled") == 4.0
    ledger.append_labels(["c", "d"], losses=[2.0, 0.125], times=[NOON + 99] * 2)
    key = next(key for key in before if key[-1] == "loss")
    before[key] = [2.875, 2.875 / 0.3]
    found = {key: value for key, value in sums_of(ledger).items() if key[-1].startswith("loss")}
    assert_same_sums(found, {key: before[key]})


def test_labels_of_unknown_ids_are_limited_in_number(ledger, monkeypatch):
    monkeypatch.setattr(labels, "MOST_WAITING", 3)
    ledger.append_labels(["x", "y", "z"], losses=[1.0] * 3)
    with raises(ValueError, "3 labels", "unknown ids", "forget"):
        ledger.append_labels(["a", "w"], losses=[1.0] * 2)
    assert ledger.waiting_labels() == 3
    assert ledger.append_labels(["a"], losses=[1.0]).new == 1  # of a known one
    ledger.append_decisions("first", {"id": ["x"], "bounds": np.ones((1, 2)), "time": [NOON]})
    assert ledger.append_labels(["w"], losses=[1.0]).new == 1


def test_a_text_is_no_label_of_a_numeric_loss(watch):
    with raises(ValueError, "y of 'r1'", "'none'", "needs numbers"):
        watch.label(["r0", "r1"], [1.5, "none"])
    assert watch.status().data["counts"]["labelled"] == 0
    watch.label(["r0", "r1"], [1.5, 2])
    assert watch.status().data["counts"]["labelled"] == 2


def test_postgresql_notices_a_connection_that_is_gone(postgres):
    found = opened(new_schema(postgres))
    with found._database.reading() as connection:
        told = connection.connection.driver_connection.info.get_parameters()
    found.close()
    assert {"keepalives", "keepalives_idle", "tcp_user_timeout"} <= told.keys()


def test_names_of_claims_fit_into_any_ledger(ledger):
    rng = np.random.default_rng(0)
    locus = quick().fit(rng.uniform(size=(400, 2)), rng.normal(size=400))
    names = [f"a rather long name of a region, {k}" for k in range(24)]
    score, group = np.tile(np.arange(60) / 60, 24), np.repeat(names, 60)
    rule = certify_groups(score, score > 0.7, group, tau=0.5, eta=0.3, delta=0.1, pool=names[:12])
    claims = claims_of(SimpleNamespace(locus=locus, rule=rule, alphas=(0.1,)))
    assert len({claim.name for claim in claims}) == len(claims)
    assert 190 < max(len(claim.name) for claim in claims) <= 200
    ledger.save_evidence(
        "first", {claim.name: {} for claim in claims}, cursor=1, expected_version=0
    )
    assert ledger.evidence("first").states.keys() == {claim.name for claim in claims}


def test_the_empty_name_is_a_group(tmp_path):
    """Its rows would otherwise be tested by the promise for other groups, or not at all."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(size=400), "g": np.where(np.arange(400) % 2, "b", "")})
    locus = quick(calibration=ByGroup(by="g")).fit(X, rng.normal(size=400))
    watch = Watch(tmp_path / "decisions.db", Scorer(locus), age=timedelta(0))
    table = {"prediction": np.zeros(4), "bound_0.1": np.ones(4)}
    watch.log(table, list("abcd"), groups=["", "b", None, np.nan])
    watch.label(list("abcd"), losses=np.zeros(4))
    coverage = [claim for claim in watch.status().data["claims"] if claim["kind"] == "coverage"]
    counts = {claim["group"]: claim["n"] for claim in coverage}
    assert counts == {'""': 1, "b": 1}
    watch.close()


def test_rows_of_the_scorer_before_are_tested_too(scorer, tmp_path, caplog):
    clock = Clock()
    first = Watch(tmp_path / "x.db", scorer, age=timedelta(days=7), clock=clock)
    X, _ = rows(400, seed=3)
    ids = [str(i) for i in range(400)]
    first.score(X, ids)
    second = first.followed_by(small_scorer(None, *rows(200, seed=3)))
    second.ledger.deploy(second.deployment)
    second.label(ids, losses=np.full(400, 1e6))  # they come after the change
    clock.now += 8 * DAY
    status = second.status()
    assert not status.alarm  # it is not about the scorer that decides now
    before, now = status.data["deployments"]
    assert (before["alarm"], now["alarm"]) == (True, False)
    (event,) = [event for event in status.data["events"] if event["kind"] == "alarm"][:1]
    assert first.digest[:12] in event["detail"]
    cursor = second.ledger.evidence(first.digest).cursor
    assert cursor == 400
    with second.ledger._database.writing() as connection:
        connection.exec_driver_sql(
            "UPDATE locuscore_evidence SET state = '{}' WHERE deployment = 1"
        )
    first.score(X[:1], ["late"])
    clock.now += 8 * DAY
    with caplog.at_level(logging.WARNING):
        second.status()
    assert "the ledger is damaged" in caplog.text
    second.close()
