"""A service with a ledger: ids, labels, the status, its page, keys of their own, metrics."""

import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from archives_for_tests import rows, small_scorer
from helpers import LONGEST_WAIT
from service_for_tests import (
    ARROW,
    arrow_stream,
    frame,
    frame_scorer,
    json_rows,
    read_stream,
    running,
)

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra


def settings(tmp_path, api_key=None, **changed):
    from locuscore.service import LedgerSettings, Settings

    given = {"age": timedelta(0), "status_seconds": 0.001} | changed
    ledger = LedgerSettings(tmp_path / "decisions.db", tmp_path / "spool", **given)
    return Settings(api_key=api_key, ledger=ledger)


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def ledger_of(tmp_path):
    """Everything in the ledger, by id."""
    from locuscore.watch import Watch

    watch = Watch(tmp_path / "decisions.db")
    names = ("id", "bounds", "flagged", "drawn", "score", "time")
    found = watch.ledger.matured(
        watch.digest, after_seq=0, written_before=2**60, columns=(*names, "seq")
    )
    watch.close()
    return found


@pytest.fixture(scope="module")
def scorer():
    return frame_scorer()


@pytest.mark.parametrize("kind", ["json", "arrow"])
def test_decisions_are_kept_under_their_ids(kind, scorer, tmp_path):
    import pyarrow as pa

    X, _ = frame(20, seed=1)
    expected = scorer(X)
    with running(scorer, settings(tmp_path, audit=0.5, audit_flagged=0.5)) as client:
        if kind == "json":
            sent = [row | {"id": f"a{i}"} for i, row in enumerate(json_rows(X))]
            got = client.post("/score", json={"rows": sent}).json()["rows"]
            ids, asked = [row["id"] for row in got], [row["audit"] for row in got]
            bounds = [row["bound_0.1"] for row in got]
        else:
            column = pa.array([f"a{i}" for i in range(20)])
            table = pa.Table.from_pandas(X).append_column("id", column)
            body = arrow_stream(table)
            answer = client.post("/score", content=body, headers={"content-type": ARROW})
            got = read_stream(answer.content)
            ids, asked = got["id"].to_pylist(), got["audit"].to_pylist()
            bounds = got["bound_0.1"].to_pylist()
    assert ids == [f"a{i}" for i in range(20)]
    np.testing.assert_allclose(bounds, expected["bound_0.1"], rtol=1e-9)
    kept = ledger_of(tmp_path)
    assert kept["id"].tolist() == ids
    np.testing.assert_allclose(kept["bounds"][:, 0], bounds, rtol=1e-12)
    assert kept["flagged"].tolist() == expected["flag"].tolist()
    assert kept["drawn"].tolist() == asked
    assert 0 < sum(asked) < 20


def test_ids_are_made_given_beside_the_rows_and_never_a_feature(tmp_path):
    X, _ = rows(4, seed=5)
    with running(small_scorer(), settings(tmp_path)) as client:
        made = client.post("/score", json={"rows": X.tolist()}).json()["rows"]
        given = client.post("/score", json={"rows": X.tolist(), "ids": ["p", "q", 7, "s"]}).json()
        twice = client.post("/score", json={"rows": X[:2].tolist(), "ids": ["p", "p"]})
        short = client.post("/score", json={"rows": X.tolist(), "ids": ["p"]})
        wrong = client.post("/score", json={"rows": X[:1].tolist(), "ids": [None]})
        empty = client.post("/score", json={"rows": []})
    assert len({row["id"] for row in made}) == 4
    assert [row["id"] for row in given["rows"]] == ["p", "q", "7", "s"]
    assert [one.status_code for one in (twice, short, wrong, empty)] == [422, 422, 422, 200]
    assert "same id" in twice.json()["error"]
    assert len(ledger_of(tmp_path)["id"]) == 8


def test_without_a_ledger_ids_come_back(scorer):
    import pyarrow as pa

    X, _ = frame(3, seed=1)
    with running(scorer) as client:
        sent = [row | {"id": i} for i, row in enumerate(json_rows(X))]
        got = client.post("/score", json={"rows": sent}).json()["rows"]
        table = pa.Table.from_pandas(X).append_column("id", pa.array([1, 2, 3]))
        body = arrow_stream(table)
        answer = client.post("/score", content=body, headers={"content-type": ARROW})
        mixed = client.post("/score", json={"rows": [sent[0], json_rows(X)[1]]})
        assert client.get("/watch").status_code == 404
    assert [row["id"] for row in got] == ["0", "1", "2"]
    assert "audit" not in got[0]
    assert read_stream(answer.content)["id"].to_pylist() == ["1", "2", "3"]
    assert mixed.status_code == 422
    assert "missing: ['id']" in mixed.json()["error"]


def test_a_feature_called_id_is_a_feature():
    from locuscore import Locus, Scorer

    X, y = frame(200)
    named = X[["size", "rooms"]].rename(columns={"size": "id"})
    locus = Locus(lambda X: np.asarray(X["id"]), random_state=0).fit(named, y)
    scorer = Scorer(locus)
    with running(scorer) as client:
        sent = [row | {"row_id": f"r{i}"} for i, row in enumerate(json_rows(named[:2]))]
        got = client.post("/score", json={"rows": sent}).json()["rows"]
    assert [row["id"] for row in got] == ["r0", "r1"]
    np.testing.assert_allclose([row["prediction"] for row in got], named["id"][:2])


def test_labels_join_and_the_status_says_so(tmp_path):
    X, y = rows(300, seed=5)
    ids = [f"r{i}" for i in range(300)]
    scorer = small_scorer()
    with running(scorer, settings(tmp_path)) as client:
        client.post("/score", json={"rows": X.tolist(), "ids": ids})
        ahead = (datetime.now(UTC) + timedelta(hours=10)).isoformat()
        sent = {"ids": ids, "y": y.tolist(), "times": [ahead] * 300}
        found = client.post("/labels", json=sent).json()
        again = client.post("/labels", json=sent).json()
        late = client.post("/labels", json={"ids": ["none"], "losses": [0.5], "source": "audit"})
        status = wait_for(client, lambda data: data["counts"]["labelled"] == 300)
        page = client.get("/watch", headers={"Accept": "text/html,application/xhtml+xml"})
        same = client.get("/watch/page")
        wait_for(client, lambda data: True)
        text = client.get("/metrics").text
    assert (found, again) == ({"new": 300, "known": 0}, {"new": 0, "known": 300})
    assert late.json() == {"new": 1, "known": 0}
    assert status["counts"]["waiting_labels"] == 1
    assert "<html" in page.text.lower()
    assert page.headers["content-type"].startswith("text/html")
    assert "'none'" in same.headers["content-security-policy"]
    for name in ("watch_log_e{", "watch_estimate{", "watch_audit_share 1.0", "spool_bytes"):
        assert f"locuscore_{name}" in text
    assert "locuscore_watch_label_lag_seconds 3" in text  # about 36,000
    assert "locuscore_unlogged_rows_total 0.0" in text


def wait_for(client, is_there):
    """The status, once the spool has handed on what it has."""
    end = time.monotonic() + LONGEST_WAIT
    while True:
        data = client.get("/watch").json()
        if is_there(data):
            return data
        assert time.monotonic() < end, data["counts"]
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"[1]", "one object"),
        (b'{"ids": ["a"]}', "y or the loss"),
        (b'{"ids": ["a"], "y": [1], "losses": [1]}', "y or the loss"),
        (b'{"ids": "a", "y": [1]}', "must be a list"),
        (b'{"ids": ["a", "b"], "y": [1]}', "1 entries for 2"),
        (b'{"ids": ["a", "a"], "y": [1, 2]}', "same id"),
        (b'{"ids": ["a"], "y": [null]}', "y takes numbers"),
        (b'{"ids": ["a"], "losses": ["x"]}', "finite numbers"),
        (b'{"ids": ["a"], "y": [1], "times": ["2020-01-01"]}', "have a zone"),
        (b'{"ids": ["a"], "y": [1], "times": ["1820-01-01T00:00:00Z"]}', "between 1970"),
        (b'{"ids": ["a"], "y": [1], "source": ""}', "source"),
        (b'{"ids": ["a"], "y": [1], "sql": "x"}', "one object"),
        (b'{"ids": ["\\u0000"], "y": [1]}', "an id is a text"),
    ],
)
def test_a_wrong_label_is_one_sentence(labelling, body, sentence):
    answer = labelling.post("/labels", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


@pytest.fixture(scope="module")
def labelling(tmp_path_factory):
    with running(small_scorer(), settings(tmp_path_factory.mktemp("labels"))) as client:
        yield client


def test_a_label_that_can_have_no_loss_is_refused_and_holds_up_no_other(labelling):
    X, y = rows(2, seed=6)
    labelling.post("/score", json={"rows": X.tolist(), "ids": ["bad", "good"]})
    before = labelling.get("/watch").json()["counts"]["labelled"]
    refused = labelling.post("/labels", json={"ids": ["bad"], "y": ["text"]})
    assert refused.status_code == 422
    assert "text" in refused.json()["error"]
    labelling.post("/labels", json={"ids": ["good"], "y": [y[1]]})
    wait_for(labelling, lambda data: data["counts"]["labelled"] == before + 1)


def test_labels_and_status_ask_for_their_own_keys(tmp_path):
    given = settings(tmp_path, "scores", labels_key="labels", watch_key="looks")
    basic = {"Authorization": "Basic " + b64encode(b"anybody:looks").decode()}
    body = {"ids": ["a"], "losses": [0.1]}
    with running(small_scorer(), given) as client:
        codes = {
            key: (
                client.post("/labels", json=body, headers=bearer(key)).status_code,
                client.get("/watch", headers=bearer(key)).status_code,
                client.get("/model", headers=bearer(key)).status_code,
            )
            for key in ("scores", "labels", "looks", "none")
        }
        refused = client.get("/watch/page")
        assert client.get("/watch/page", headers=basic).status_code == 200
        assert client.post("/labels", json=body, headers=basic).status_code == 401
    assert codes == {
        "scores": (401, 401, 200),
        "labels": (200, 401, 401),
        "looks": (401, 200, 401),
        "none": (401, 401, 401),
    }
    assert refused.headers["www-authenticate"].startswith("Basic")


def test_with_an_api_key_these_routes_are_shut_until_they_have_keys(tmp_path):
    with running(small_scorer(), settings(tmp_path, "scores")) as client:
        for path in ("/watch", "/watch/page"):
            answer = client.get(path, headers=bearer("scores"))
            assert answer.status_code == 403
            assert "key of its own" in answer.json()["error"]
            assert "LOCUSCORE_WATCH_KEY" in answer.json()["error"]
        assert client.post("/labels", headers=bearer("scores"), json={}).status_code == 403


def test_keys_differ_and_the_password_is_not_shown():
    from locuscore.service import LedgerSettings, Settings

    ledger = LedgerSettings("postgresql://me:secret@host/x", labels_key="k", watch_key="w")
    assert "secret" not in repr(Settings(ledger=ledger))
    assert "'k'" not in repr(ledger)
    with pytest.raises(ValueError, match="two agree"):
        Settings(api_key="k", ledger=ledger)
    with pytest.raises(ValueError, match="labels_key is empty"):
        LedgerSettings("x.db", labels_key=" ")
    with pytest.raises(ValueError, match="status_seconds"):
        LedgerSettings("x.db", status_seconds=0)


def test_a_scorer_in_memory_needs_a_folder(tmp_path):
    from locuscore.service import LedgerSettings, Settings, create_app

    with pytest.raises(ValueError, match="spool"):
        create_app(small_scorer(), Settings(ledger=LedgerSettings(tmp_path / "x.db")))


def test_a_reload_is_a_new_deployment(tmp_path):
    X, _ = rows(30, seed=5)
    path = tmp_path / "x.locus"
    small_scorer().save(path)
    given = settings(tmp_path, "k", labels_key="l", watch_key="w")
    with running(path, given) as client:
        client.post("/score", json={"rows": X.tolist()}, headers=bearer("k"))
        other = small_scorer(None, *rows(200, seed=3))
        other.save(path)
        assert client.post("/reload", headers=bearer("k")).status_code == 200
        sent = {"rows": X.tolist(), "ids": [f"n{i}" for i in range(30)]}
        client.post("/score", json=sent, headers=bearer("k"))
        client.headers = bearer("w")
        data = wait_for(client, lambda data: data["counts"]["decisions"] == 30)
    assert data["deployment"] == other.digest
    assert [one["decisions"] for one in data["deployments"]] == [30, 30]
    assert "reload" in [event["kind"] for event in data["events"]]


def test_every_route_of_a_ledger_is_described(tmp_path):
    from locuscore.service import create_app
    from locuscore.service._openapi import describe

    given = settings(tmp_path, "k", labels_key="l")
    app = create_app(small_scorer(), given)
    paths = describe(app.state.service.store.current, given)["paths"]
    described = {path: {method.upper() for method in methods} for path, methods in paths.items()}
    assert described == {route.path: route.methods - {"HEAD"} for route in app.routes}
    keys = {
        path: [list(key) for key in how.get("security", [])]
        for path, methods in paths.items()
        for how in methods.values()
    }
    assert keys["/labels"] == [["labels_key"]]
    assert keys["/watch"] == keys["/watch/page"] == [["watch_key"]]
    assert {path for path in keys if not keys[path]} == {"/healthz", "/livez", "/readyz"}
