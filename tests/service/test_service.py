"""The service: the scores of memory, and one clear sentence for everything else."""

import json
import re
import threading
import time
from functools import partial

import numpy as np
import pytest

from archives_for_tests import LOSS_MODELS, rows, small_scorer, two_outputs
from helpers import raises, warns
from locuscore import ArchiveError, Locus, LocusWarning, Scorer
from locuscore.engines import Forest
from predictors_for_tests import given_to_save, rows_of, scorer_of
from service_for_tests import (
    ARROW,
    arrow_stream,
    assert_scores,
    frame,
    frame_scorer,
    json_rows,
    read_stream,
    running,
)

pytestmark = pytest.mark.extra
KEY = "a key with ümlaut"
JSON = {"content-type": "application/json"}


def limits(**changed):
    from locuscore.service import Settings

    return Settings(**changed)


@pytest.fixture(scope="module")
def scorer():
    return frame_scorer()


@pytest.fixture(scope="module")
def client(scorer):
    with running(scorer, limits(max_rows=50, max_body_bytes=20_000)) as client:
        yield client


def post_arrow(client, table, **options):
    return client.post(
        "/score", content=arrow_stream(table, **options), headers={"content-type": ARROW}
    )


@pytest.mark.parametrize("model", LOSS_MODELS)
def test_the_same_scores_as_in_memory(model, tmp_path):
    X, _ = frame(30, seed=1)
    path = tmp_path / "x.locus"
    assert_served(frame_scorer(model=model), path, X)


def test_several_outputs_are_several_columns(tmp_path):
    X, y = frame(200)
    numbers = X[["size", "rooms"]]
    scorer = two_outputs(numbers, y)
    assert_served(scorer, tmp_path / "x.locus", numbers[:30])
    with running(scorer) as client:
        assert client.get("/model").json()["columns"][:2] == ["prediction_0", "prediction_1"]


@pytest.mark.parametrize("name", ["xgboost in a pipeline", "catboost"])
def test_predictors_of_other_libraries_are_served(name, path):
    scorer, (X, _) = scorer_of(name), rows_of(name, 30, 1)
    given = given_to_save(name)
    scorer.save(path, **given)
    with running(path, limits(archive_key=given.get("key"))) as client:
        answer = client.post("/score", json={"rows": json_rows(X)})
        assert_scores(answer.json(), scorer(X))
    if given:
        with raises(ArchiveError, "only if you load it with the key"), running(path):
            pass


def assert_served(scorer, path, X):
    """The scores of memory, from an archive, as JSON and as Arrow."""
    import pyarrow as pa

    scorer.save(path)
    expected = scorer(X)
    with running(path) as client:
        answer = client.post("/score", json={"rows": json_rows(X)})
        assert_scores(answer.json(), expected)
        table = read_stream(post_arrow(client, pa.Table.from_pandas(X)).content)
    assert table.column_names == list(expected.columns)
    for name in table.column_names:
        values = table[name].to_numpy()
        if name == "flag":
            assert (values == expected[name]).all()
        else:
            np.testing.assert_allclose(values, expected[name], rtol=1e-9, atol=0)


def test_single_rows_at_once_get_their_own_answers(client, scorer):
    from concurrent.futures import ThreadPoolExecutor

    X, _ = frame(60, seed=2)
    expected, rows = scorer(X), json_rows(X)

    def ask(i):
        answer = client.post("/score", json={"rows": [rows[i]]}).json()
        assert_scores(answer, expected.iloc[[i]].reset_index(drop=True))
        return answer["model"]

    with ThreadPoolExecutor(20) as pool:
        assert len(set(pool.map(ask, range(60)))) == 1
    assert 'locuscore_batch_rows_bucket{le="1.0"}' in client.get("/metrics").text


def test_a_row_that_g_refuses_does_not_harm_its_neighbours(scorer):
    from concurrent.futures import ThreadPoolExecutor

    X, _ = frame(20, seed=2)
    expected, rows = scorer(X), json_rows(X)
    rows[7]["size"] = None  # Ridge takes no missing values

    def ask(client, i):
        return client.post("/score", json={"rows": [rows[i]]})

    with running(scorer, limits(gather_seconds=0.1)) as client, ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda i: ask(client, i), range(20)))
    assert answers[7].status_code == 422
    assert answers[7].json()["error"].startswith("the rows cannot be scored: Input X contains NaN")
    for i in set(range(20)) - {7}:
        assert_scores(answers[i].json(), expected.iloc[[i]].reset_index(drop=True))


def test_infinite_bounds_are_null_in_json_and_counted():
    import pyarrow as pa

    with pytest.warns(LocusWarning, match="too few"):
        scorer = frame_scorer(alphas=(0.1, 0.0001))
    X, _ = frame(10, seed=1)
    with running(scorer) as client:
        answer = client.post("/score", json={"rows": json_rows(X)}).json()
        assert_scores(answer, scorer(X))
        assert answer["rows"][0]["bound_0.0001"] is None
        assert answer["rows"][0]["bound_0.0001_is_infinite"] is True
        table = read_stream(post_arrow(client, pa.Table.from_pandas(X)).content)
        assert np.isinf(table["bound_0.0001"].to_numpy()).all()
        metrics = client.get("/metrics").text
    accepted = (~scorer(X)["flag"]).mean()
    assert "locuscore_rows_total 20.0" in metrics
    assert "locuscore_infinite_bound_share 0.5" in metrics
    assert f"locuscore_acceptance_rate {accepted}" in metrics
    assert 'locuscore_requests_total{path="/score",status="200"} 2.0' in metrics
    assert 'locuscore_request_seconds_count{path="/score"} 2.0' in metrics


def test_values_that_fit_has_not_seen_are_counted_by_column(scorer):
    X, _ = frame(10, seed=1)
    X.loc[:6, "town"] = "elsewhere"
    with running(scorer) as client:
        for row in json_rows(X):
            assert client.post("/score", json={"rows": [row]}).status_code == 200
        metrics = client.get("/metrics").text
    assert 'locuscore_unseen_values_total{column="town"} 7.0' in metrics
    assert 'column="size"' not in metrics


def test_no_rows_are_no_rows(client, scorer):
    import pyarrow as pa

    assert client.post("/score", json={"rows": []}).json()["rows"] == []
    none = pa.Table.from_pandas(frame(3)[0]).slice(0, 0)
    assert read_stream(post_arrow(client, none).content).num_rows == 0


def test_the_model_describes_itself(client, scorer):
    facts = client.get("/model").json()
    assert facts["card"] == scorer.card
    assert facts["columns"] == scorer.column_names
    assert [column["name"] for column in facts["features"]] == list(scorer.schema.names)
    assert client.get("/healthz").json() == {"status": "ok"}


def test_the_example_of_the_description_is_scored(client):
    document = client.get("/openapi.json").json()
    media = document["paths"]["/score"]["post"]["requestBody"]["content"]
    answer = client.post("/score", json=media["application/json"]["example"])
    assert answer.status_code == 200
    wanted = document["components"]["schemas"]["ScoredRow"]["required"]
    assert set(wanted) <= set(answer.json()["rows"][0])


def one_row():
    return json_rows(frame(1)[0])[0]


def bodies():
    row = one_row()
    less = {name: value for name, value in row.items() if name != "town"}
    return {
        "no JSON": (b'{"rows": [', 400, "no JSON"),
        "no text": (b"\xff\xfe", 400, "no JSON"),
        "NaN": (
            json.dumps({"rows": [row | {"size": float("nan")}]}).encode(),
            400,
            "null, not NaN",
        ),
        "deep": (b"[" * 10_000, 413, "too many; at most 50"),
        "a list": (b"[1]", 422, "one object"),
        "another key": (b'{"row": []}', 422, "one object"),
        "a number": (b'{"rows": 3}', 422, "one object"),
        "a row of numbers": (b'{"rows": [[1, 2]]}', 422, "row 0 must be an object"),
        "missing": (json.dumps({"rows": [row, less]}).encode(), 422, "row 1 .* missing: .'town'"),
        "unknown": (json.dumps({"rows": [row | {"x": 1}]}).encode(), 422, "unknown: .'x'"),
        "text": (json.dumps({"rows": [row | {"size": "1"}]}).encode(), 422, "takes numbers"),
        "infinite": (
            json.dumps({"rows": [row | {"size": -7.5}]}).replace("-7.5", "1e999").encode(),
            422,
            "takes numbers",
        ),
        "rows": (
            json.dumps({"rows": [row] * 51}).encode(),
            413,
            "51 rows are too many; at most 50",
        ),
        "bytes": (b" " * 20_001, 413, "at most 20000 bytes"),
        "far too many bytes": (b" " * 1_000_000, 413, "at most 20000 bytes"),
    }


WRONG = [
    *("no JSON", "no text", "NaN", "deep", "a list", "another key", "a number"),
    *("a row of numbers", "missing", "unknown", "text", "infinite"),
    *("rows", "bytes", "far too many bytes"),
]


def test_every_wrong_body_is_tried():
    assert list(bodies()) == WRONG


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_body_is_one_sentence(client, what):
    body, status, sentence = bodies()[what]
    answer = client.post("/score", content=body, headers=JSON)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert re.search(sentence, error)
    assert "\n" not in error
    assert "Traceback" not in error


def test_a_body_of_unknown_length_is_counted_while_it_comes(client):
    sent = []

    def parts():
        for _ in range(10_000):
            sent.append(1)
            yield b" " * 1000

    answer = client.post("/score", content=parts(), headers=JSON)
    assert answer.status_code == 413
    assert len(sent) < 10_000


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/csv"}, 415),
        ({}, 415),
        (JSON | {"content-encoding": "gzip"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_the_content_type_counts(client, headers, status):
    body = json.dumps({"rows": [one_row()]}).encode()
    answer = client.post("/score", content=body, headers=headers)
    assert answer.status_code == status


def test_other_paths_and_methods(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/score").status_code == 405
    assert client.get("/redoc").status_code == 404
    assert set(client.get("/nothing").json()) == {"error"}


def wrong_tables():
    import pyarrow as pa

    X, _ = frame(4)
    table = pa.Table.from_pandas(X)
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 40, pa.int32()), ["x" * 10_000])
    return {
        "another order": (table.select([1, 0, 2, 3]), {}, 422, "another order"),
        "missing": (table.select([0, 1]), {}, 422, "missing: .'town', 'state'"),
        "rows": (pa.Table.from_pandas(frame(51)[0]), {}, 413, "51 rows"),
        "lists": (pa.table({"size": [[1]]}), {}, 422, "'size' is of type list"),
        "views": (pa.table({"size": pa.array(["a"], pa.string_view())}), {}, 422, "string_view"),
        "repeated": (pa.table({"town": long}), {}, 413, "larger than the body"),
        "zipped": (
            pa.table({"size": np.zeros(1000)}),
            {"options": pa.ipc.IpcWriteOptions(compression="zstd")},
            415,
            "compressed",
        ),
        "zipped codes": (
            pa.table({"town": long.slice(0, 2)}),
            {"options": pa.ipc.IpcWriteOptions(compression="lz4")},
            415,
            "compressed",
        ),
    }


@pytest.mark.parametrize(
    "what",
    ["another order", "missing", "rows", "lists", "views", "repeated", "zipped", "zipped codes"],
)
def test_a_wrong_table_is_one_sentence(client, what):
    table, options, status, sentence = wrong_tables()[what]
    answer = post_arrow(client, table, **options)
    assert (answer.status_code, "\n" in answer.json()["error"]) == (status, False)
    assert re.search(sentence, answer.json()["error"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_tables_of_any_types_never_fail_the_service(kind):
    import polars as pl
    import pyarrow as pa

    X, y = frame(100)
    X = {"pandas": X, "polars": pl.from_pandas(X), "pyarrow": pa.Table.from_pandas(X)}[kind]
    locus = Locus(lambda X: np.zeros(len(X)), engine=Forest(n_trees=2), random_state=0).fit(X, y)
    table = pa.Table.from_pandas(frame(2)[0])
    text = pa.array(["a", None])
    others = [
        pa.nulls(2), pa.array([1, 2], pa.uint8()), pa.array([0.5, np.inf]), text,
        pa.array([True, None]), text.dictionary_encode(), pa.array([1, 2], pa.date32()),
        pa.array([1, 2]).dictionary_encode(), pa.array([1, 2], pa.timestamp("s", "UTC")),
        pa.array([2**62, 2], pa.timestamp("s")), pa.array([1, 2], pa.duration("ns")),
        pa.array([1, 2], pa.decimal128(38, 2)), pa.array([1, None], pa.float16()),
    ]  # fmt: skip
    with running(Scorer(locus)) as client:
        for j, name in enumerate(table.column_names):
            for values in others:
                answer = post_arrow(client, table.set_column(j, name, values))
                assert answer.status_code in (200, 422), (name, values.type, answer.text)
        twice = table.append_column("size", table["size"])
        assert post_arrow(client, twice).status_code == 422
        assert post_arrow(client, table.select([])).status_code == 422
        assert post_arrow(client, pa.table({"": text})).status_code == 422


def test_damaged_streams_never_fail_the_service(client, rng):
    import pyarrow as pa

    whole = arrow_stream(pa.Table.from_pandas(frame(4)[0]))
    for _ in range(150):
        body = bytearray(whole)
        for at in rng.integers(0, len(body), size=3):
            body[at] = rng.integers(0, 256)
        cut = int(rng.integers(0, len(body))) if rng.random() < 0.3 else len(body)
        answer = client.post("/score", content=bytes(body[:cut]), headers={"content-type": ARROW})
        assert answer.status_code in (200, 400, 413, 415, 422), answer.text
    assert client.get("/healthz").status_code == 200


def test_the_key_is_asked_for_everywhere_but_on_healthz(scorer):
    with running(scorer, limits(api_key=KEY)) as client:
        for path in ("/model", "/metrics", "/openapi.json", "/nothing"):
            assert client.get(path).status_code == 401
            right = {"Authorization": f"Bearer {KEY}".encode()}
            assert client.get(path, headers=right).status_code == (
                404 if path == "/nothing" else 200
            )
        for wrong in (b"", b"Bearer", b"Bearer a key", KEY.encode(), b"Bearer \xff"):
            answer = client.post("/score", json={}, headers={"Authorization": wrong})
            assert answer.status_code == 401
            assert "API key is missing or wrong" in answer.json()["error"]
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert client.get("/healthz").status_code == 200
    assert KEY not in repr(limits(api_key=KEY))


def slow_scorer(seconds, error=None):
    X = np.random.default_rng(0).uniform(size=(100, 2))
    is_slow = threading.Event()

    def g(X):
        if is_slow.is_set():
            time.sleep(seconds)
            if error is not None:
                raise error
        return X[:, 0]

    locus = Locus(g, engine=Forest(n_trees=2), random_state=0).fit(X, X[:, 1])
    scorer = Scorer(locus)
    is_slow.set()
    return scorer


def test_a_slow_answer_is_a_time_out_and_the_service_goes_on():
    with running(slow_scorer(0.6), limits(timeout_seconds=0.3)) as client:
        answer = client.post("/score", json={"rows": [[0.1, 0.2]]})
        assert answer.status_code == 504
        assert answer.json() == {"error": "there was no answer within 0.3 seconds."}
        assert client.get("/healthz").status_code == 200


def test_a_failure_of_g_shows_the_client_nothing():
    with running(slow_scorer(0, RuntimeError("secret"))) as client:
        answer = client.post("/score", json={"rows": [[0.1, 0.2]]})
        assert answer.status_code == 500
        assert answer.json() == {"error": "the service failed; its log says why."}
        # The server ends the connection; a client that kept it would lose its next request.
        assert answer.headers["connection"] == "close"
        assert client.get("/healthz").status_code == 200


def test_reload_needs_a_key_and_a_file(scorer):
    with running(scorer) as client:
        assert client.post("/reload").status_code == 403
    with running(scorer, limits(api_key="k")) as client:
        answer = client.post("/reload", headers={"Authorization": "Bearer k"})
        assert answer.status_code == 409
        assert "in memory" in answer.json()["error"]


def test_a_broken_archive_leaves_the_old_model(tmp_path):
    path = tmp_path / "x.locus"
    small_scorer().save(path)
    with running(path, limits(api_key="k")) as client:
        client.headers["Authorization"] = "Bearer k"
        before = client.get("/model").json()
        path.write_bytes(path.read_bytes()[:1000])
        answer = client.post("/reload")
        assert answer.status_code == 409
        assert answer.json()["error"].startswith("the old model stays: ")
        path.unlink()
        assert client.post("/reload").status_code == 409
        assert client.get("/model").json() == before
        assert client.post("/score", json={"rows": [[0.1, 0.2, 0.3]]}).status_code == 200
        assert 'locuscore_reloads_total{is_ok="false"} 2.0' in client.get("/metrics").text


def test_with_a_key_only_signed_archives_are_loaded(tmp_path):
    path, key, other = tmp_path / "x.locus", b"k" * 32, b"o" * 32
    scorer, settings = small_scorer(), limits(api_key="k", archive_key=key)
    scorer.save(path)
    with raises(ArchiveError, "not signed"), running(path, settings):
        pass
    scorer.save(path, key=key)
    with running(path, settings) as client:
        client.headers["Authorization"] = "Bearer k"
        before = client.get("/model").json()
        replacement = small_scorer(engine=Forest(n_trees=2))
        for wrong, said in ((None, "it is not signed"), (other, "not that of the given key")):
            replacement.save(path, key=wrong)
            answer = client.post("/reload")
            assert answer.status_code == 409
            assert said in answer.json()["error"]
            assert client.get("/model").json() == before
        replacement.save(path, key=key)
        assert client.post("/reload").status_code == 200
        assert client.get("/model").json()["model"] != before["model"]


def test_a_load_that_takes_no_key_cannot_serve_with_one(tmp_path):
    path = tmp_path / "x.locus"
    small_scorer().save(path, key=b"k" * 32)
    settings = limits(archive_key=b"k" * 32)
    with pytest.raises(TypeError, match="key"), running(path, settings, load=lambda p: None):
        pass
    small_scorer().save(path)  # the manifest is held against the key by the service itself
    load = lambda p, key: Scorer.load(p)  # noqa: E731 - one line
    with pytest.raises(ArchiveError, match="not signed"), running(path, settings, load=load):
        pass


def test_a_predictor_of_your_own_comes_with_the_load(tmp_path):
    from functools import partial

    g = lambda X: X[:, 0]  # noqa: E731 - one line
    path = tmp_path / "x.locus"
    with warns(UserWarning, "left out"):
        small_scorer(g).save(path)
    with running(path, load=partial(Scorer.load, predictor=g)) as client:
        row = client.post("/score", json={"rows": [[0.25, 0.2, 0.3]]}).json()["rows"][0]
        assert row["prediction"] == 0.25


def test_settings_are_checked():
    with raises(ValueError, "max_rows", "positive", "got 0"):
        limits(max_rows=0)
    with raises(ValueError, "API key", "empty"):
        limits(api_key=" ")
    with raises(ValueError, "32 bytes"):
        limits(archive_key=b"short")
    assert "kkkk" not in repr(limits(archive_key=b"k" * 32))


def test_an_address_others_can_reach_needs_a_key(scorer):
    from locuscore.service import serve

    with raises(ValueError, "0.0.0.0", "API key"):
        serve(scorer, host="0.0.0.0")


def test_a_reload_refuses_an_archive_of_another_predictor(tmp_path):
    """Fitted again and saved for a predictor that the service does not have."""
    path, X = tmp_path / "x.locus", rows()[0]

    def first(X):
        return X[:, 0]

    load = partial(Scorer.load, predictor=first)
    with pytest.warns(LocusWarning, match="left out"):
        small_scorer(first).save(path)
    with running(path, limits(api_key="k"), load=load) as client:
        client.headers["Authorization"] = "Bearer k"
        assert client.post("/reload").status_code == 200
        before = client.get("/model").json()
        with pytest.warns(LocusWarning, match="left out"):
            small_scorer(lambda X: X[:, 1]).save(path)
        answer = client.post("/reload")
        assert answer.status_code == 409
        assert "largest difference" in answer.json()["error"]
        assert not any(str(value) in answer.text for value in X.ravel())
        assert client.get("/model").json() == before
