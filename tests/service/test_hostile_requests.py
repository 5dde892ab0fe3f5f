"""Requests and key files made to mislead: the log, the roles, and those who wait for a score."""

import asyncio
import hashlib
import json
import logging
import threading
from functools import partial

import numpy as np
import pytest

from archives_for_tests import rows
from helpers import LONGEST_WAIT, raises
from locuscore import ArchiveError, Locus, Scorer
from locuscore.engines import Forest
from predictors_for_tests import network, rows_of

pytestmark = pytest.mark.extra
X, _ = rows(40, seed=7)
SCORE_KEY, RELOAD_KEY = "a key for scoring only", "a key for reloading only"
TRACE = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"


def written(path, entries):
    path.write_text(json.dumps({"keys": entries}))
    return path


@pytest.fixture
def keys(tmp_path):
    return written(
        tmp_path / "keys.json",
        [
            {"name": "s", "key": SCORE_KEY, "roles": ["score"]},
            {"name": "r", "key": RELOAD_KEY, "roles": ["reload"]},
        ],
    )


def app_of(scorer, **settings):
    from locuscore.service import Settings, create_app

    return create_app(scorer, Settings(**settings))


async def ask(app, path, *, method="GET", headers=(), root=""):
    """Status and body of the answer to one request, as an ASGI server would hand it over."""
    scope = {
        "type": "http",
        "method": method,
        "path": root + path,
        "raw_path": (root + path).encode(),
        "root_path": root,
        "query_string": b"",
        "headers": list(headers),
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 5),
        "scheme": "http",
        "http_version": "1.1",
    }
    told = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        told.append(message)

    await app(scope, receive, send)
    body = b"".join(one.get("body", b"") for one in told)
    return told[0]["status"], body


def answer(app, path, **options):
    return asyncio.run(ask(app, path, **options))


def bearer(key):
    return (b"authorization", b"Bearer " + key.encode())


# The log


def test_a_trace_that_is_no_text_is_logged_like_any_request(scorer, caplog):
    """It raised after the answer: a traceback in the log, and no line of the request."""
    app = app_of(scorer, api_key="k")
    with caplog.at_level(logging.INFO, "locuscore.request"):
        for trace in (TRACE, TRACE + b"-\xff\xfe", TRACE + b"-" + b"x" * 30_000):
            assert answer(app, "/model", headers=[(b"traceparent", trace)])[0] == 401
    ids = [record.fields.get("trace_id") for record in caplog.records]
    assert ids == ["a" * 32, None, None]


def test_a_path_neither_begins_a_line_of_the_log_nor_fills_it(scorer, caplog):
    forged = "/x\nINFO: POST /reload 200\x1b[2J\u2028" + "y" * 30_000
    with caplog.at_level(logging.INFO, "locuscore.request"):
        assert answer(app_of(scorer, api_key="k"), forged)[0] == 401
    (record,) = caplog.records
    (line,) = record.getMessage().splitlines()
    assert line.isprintable()
    assert line.startswith("GET /x\\nINFO: POST")
    assert len(line) < 1000
    assert len(json.dumps(record.fields)) < 2000


def test_what_a_row_of_the_probe_holds_is_not_in_the_log(scorer, caplog, monkeypatch):
    from locuscore.service._model import Model

    def fails(model, parts):
        raise ValueError("could not convert string to float: 'Alice Smith'")

    monkeypatch.setattr(Model, "score_probe", fails)
    with caplog.at_level(logging.INFO):
        assert answer(app_of(scorer), "/readyz")[0] == 503
    assert "ValueError" in caplog.text
    assert "Alice" not in caplog.text


@pytest.mark.parametrize("how", ["text", "json"])
@pytest.mark.parametrize("has_rows", [False, True])
def test_what_an_error_says_of_a_row_is_logged_only_if_rows_are(tmp_path, how, has_rows):
    from locuscore.service._logs import logging_to

    who = "Alice"  # the lines of the code are in the log, so these do not name her

    def fails():
        try:
            raise KeyError(who)
        except KeyError as error:
            raise RuntimeError(f"nobody is called {who}") from error

    with logging_to(tmp_path / "log", how, "info", lambda: None, has_rows=has_rows):
        try:
            fails()
        except RuntimeError:
            logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    found = (tmp_path / "log").read_text()
    assert found.index("KeyError") < found.rindex("RuntimeError")
    assert "in fails" in found
    assert found.count("Alice") == 2 * has_rows


def test_a_span_does_not_say_what_an_error_says(monkeypatch):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from locuscore.service import _request_log

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(_request_log, "tracer", provider.get_tracer("locuscore"))
    monkeypatch.setattr(_request_log, "is_traced", lambda: True)
    scope = {"method": "POST", "path": "/score", "headers": []}
    facts = _request_log.Facts.of(scope)
    with pytest.raises(KeyError), _request_log.spanned(scope, facts):
        raise KeyError("Alice")
    (span,) = exporter.get_finished_spans()
    assert not span.status.is_ok
    assert "Alice" not in span.to_json()


# Roles


@pytest.mark.parametrize("root", ["", "/prices", "/score"])
def test_roles_hold_below_any_root_path(scorer, keys, root):
    """Behind ``uvicorn --root-path`` the key for scores could reload."""
    app = app_of(scorer, keys=keys)
    for path, method, role in (("/reload", "POST", RELOAD_KEY), ("/model", "GET", SCORE_KEY)):
        for key in (SCORE_KEY, RELOAD_KEY):
            status, body = answer(app, path, method=method, root=root, headers=[bearer(key)])
            assert (status == 403 and b"no role" in body) == (key != role)
    assert answer(app, "/livez", root=root)[0] == 200


@pytest.mark.parametrize(
    "entry",
    [{"sha256": hashlib.sha256(b"").hexdigest()}, {"key": " " * 20}, {"key": "x" * 20 + "\n"}],
)
def test_keys_that_are_empty_or_cannot_be_sent_are_refused(scorer, tmp_path, entry):
    """The digest of nothing, which an unset variable gives, was everybody's key."""
    path = written(tmp_path / "keys.json", [{"name": "n", "roles": ["reload"], **entry}])
    with raises(ValueError, "entry 0"):
        app_of(scorer, keys=path)


def test_a_file_of_keys_that_breaks_the_parser_leaves_the_keys(scorer, keys, monkeypatch, caplog):
    from locuscore.service import _keys

    monkeypatch.setattr(_keys, "RETRY_SECONDS", 0.0)
    app = app_of(scorer, keys=keys)
    keys.write_text("[" * 200_000)
    for _ in range(2):
        assert answer(app, "/model", headers=[bearer(SCORE_KEY)])[0] == 200
    assert caplog.text.count("the keys stay as they were") == 2


# Those who wait


def test_asking_whether_it_is_ready_takes_no_place_of_those_who_score(scorer, monkeypatch):
    """Anybody may ask, so a crowd of them filled the queue, and scores were refused."""
    from locuscore.service._model import Model

    is_open, n_scored = threading.Event(), []

    def slow(model, parts):
        n_scored.append(len(parts))
        assert is_open.wait(LONGEST_WAIT)
        return [{} for _ in parts]

    monkeypatch.setattr(Model, "score_probe", slow)
    app = app_of(scorer, max_requests=4)

    async def crowd():
        asked = [asyncio.create_task(ask(app, "/readyz")) for _ in range(50)]
        while not n_scored:
            await asyncio.sleep(0.001)
        asked += [asyncio.create_task(ask(app, "/readyz")) for _ in range(50)]
        await asyncio.sleep(0)
        batcher = app.state.service.batcher
        waiting = batcher.ask(lambda parts: parts, "a row", 1)
        is_open.set()
        return await waiting, [status for status, _ in await asyncio.gather(*asked)]

    found, statuses = asyncio.run(crowd())
    assert found == "a row"
    assert statuses == [200] * 100
    assert sum(n_scored) <= 2


# Examples


@pytest.mark.parametrize(("n_names", "is_shown"), [(3, True), (150, False)])
def test_examples_do_not_name_anybody(n_names, is_shown):
    """The first of all names was in the description, which everybody with a key can read."""
    import pandas as pd

    from locuscore.mlflow import input_example
    from locuscore.service._openapi import describe

    rng = np.random.default_rng(0)
    names = [f"mail{k}@example.com" for k in range(n_names)]
    X = pd.DataFrame({"size": rng.uniform(size=300), "who": np.resize(names, 300)})
    locus = Locus(NoNames(), engine=Forest(n_trees=2), random_state=0)
    scorer = Scorer(locus.fit(X, X["size"] + rng.normal(size=300)))
    app = app_of(scorer)
    model = app.state.service.store.current
    assert ("@example.com" in json.dumps(describe(model, app.state.service.settings))) == is_shown
    assert answer(app, "/readyz")[0] == 200
    assert ("@" in input_example(scorer)["who"][0]) == is_shown


class NoNames:
    """A predictor that reads one number."""

    def predict(self, X):
        return np.asarray(X["size"])


# Another archive


def torch_scorer(seed):
    from locuscore.torch import hidden_layer

    (X, y), g = rows_of("torch", 300, 0), network(seed)
    signals = ["x", "predictor", hidden_layer(g, "0")]
    return Scorer(Locus(g, engine=Forest(n_trees=3), signals=signals, random_state=0).fit(X, y))


def test_weights_that_are_loaded_leave_the_model_in_use_as_it_is(tmp_path):
    """Both had one module: what was refused, or only loaded, changed the answers of the old one."""
    from locuscore.service._model import Store
    from locuscore.torch import hidden_layer

    (X, _), path, g = rows_of("torch", 30, 1), tmp_path / "guard.locus", network(seed=5)
    one, other = torch_scorer(seed=0), torch_scorer(seed=1)
    one.save(path)
    store = Store(path, partial(Scorer.load, predictor=g, signals=hidden_layer(g, "0")))
    other.save(path)
    loaded = store.read()
    for scorer, expected in ((store.current.scorer, one), (loaded.scorer, other)):
        for name, values in expected(X).items():
            np.testing.assert_allclose(scorer(X)[name], values, rtol=1e-9, atol=0)
    g.lock = threading.Lock()  # nobody can copy one
    with raises(ArchiveError, "a TorchPredictor, cannot be copied", "start the service again"):
        store.read()
