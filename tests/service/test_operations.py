"""What an operator relies on: keys with roles, ids and logs, readiness, reloads, TLS."""

import hashlib
import json
import logging
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from archives_for_tests import rows, small_scorer
from helpers import LONGEST_WAIT
from service_for_tests import frame_scorer, process, running

pytestmark = pytest.mark.extra
SCORES, OPERATES, LABELS = "scores-" + "a" * 16, "operates-" + "b" * 16, "labels-" + "c" * 16
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def body(n=1):
    return {"rows": rows(n, seed=5)[0].tolist()}


def write_keys(path, *entries):
    """Replace the file in one step, as those who rotate keys do."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"keys": list(entries)}))
    new.replace(path)


def entry(key, *roles, name="some", hashed=False):
    shown = {"sha256": hashlib.sha256(key.encode()).hexdigest()} if hashed else {"key": key}
    return {"name": name, "roles": list(roles), **shown}


@pytest.fixture
def at_once(monkeypatch):
    """Look again at once at a file of keys that could not be read."""
    from locuscore.service import _keys

    monkeypatch.setattr(_keys, "RETRY_SECONDS", 0.0)


def test_a_key_may_do_what_its_roles_say(tmp_path):
    from locuscore.service import Settings

    keys = tmp_path / "keys.json"
    write_keys(keys, entry(SCORES, "score"), entry(OPERATES, "metrics", "reload", hashed=True))
    small_scorer().save(tmp_path / "x.locus")
    with running(tmp_path / "x.locus", Settings(keys=keys)) as client:

        def statuses(headers):
            found = [client.post("/score", json=body(), headers=headers)]
            found += [client.get(path, headers=headers) for path in ("/metrics", "/model")]
            found += [client.post("/reload", headers=headers)]
            return [one.status_code for one in found]

        assert statuses({}) == [401] * 4
        assert statuses(bearer("x" * 20)) == [401] * 4
        assert statuses(bearer(SCORES)) == [200, 403, 200, 403]
        assert statuses(bearer(OPERATES)) == [403, 200, 403, 200]
        told = client.get("/metrics", headers=bearer(SCORES)).json()["error"]
        assert "no role 'metrics'" in told
        assert SCORES not in told
        assert client.get("/docs", auth=("", SCORES)).status_code == 200  # as a browser sends it
        assert client.get("/docs").headers["www-authenticate"].startswith("Basic")
        assert client.post("/score", json=body(), auth=("", SCORES)).status_code == 401


def test_keys_of_the_settings_and_of_the_file_go_together(tmp_path):
    from locuscore.service import LedgerSettings, Settings

    keys = tmp_path / "keys.json"
    write_keys(keys, entry(LABELS, "labels"))
    ledger = LedgerSettings(tmp_path / "x.db", tmp_path / "spool")
    with running(small_scorer(), Settings(api_key="k", keys=keys, ledger=ledger)) as client:
        labels = {"ids": ["a"], "y": [1.0]}
        assert client.post("/score", json=body(), headers=bearer("k")).status_code == 200
        assert client.post("/labels", json=labels, headers=bearer(LABELS)).status_code == 200
        assert client.post("/labels", json=labels, headers=bearer("k")).status_code == 401
        assert client.get("/watch", headers=bearer(LABELS)).status_code == 403  # nobody may yet


def test_a_changed_file_of_keys_holds_from_the_next_request_on(tmp_path):
    """A new key was refused for up to a second, just when its user tried it."""
    from locuscore.service import Settings

    keys, new = tmp_path / "keys.json", "scores-" + "n" * 16
    write_keys(keys, entry(SCORES, "score"))
    with running(small_scorer(), Settings(keys=keys)) as client:

        def statuses():
            sent = (client.get("/model", headers=bearer(key)) for key in (SCORES, new))
            return [answer.status_code for answer in sent]

        assert statuses() == [200, 401]
        write_keys(keys, entry(SCORES, "score"), entry(new, "score"))
        assert statuses() == [200, 200]
        write_keys(keys, entry(new, "score"))
        assert statuses() == [401, 200]


def test_keys_are_rotated_under_load_without_a_refusal(tmp_path):
    """A client changes to the new key while both are known; then the old one is taken away."""
    from locuscore.service import Settings

    keys, new = tmp_path / "keys.json", "scores-" + "n" * 16
    write_keys(keys, entry(SCORES, "score"))
    stop, statuses, current = threading.Event(), [], [SCORES]
    with running(small_scorer(), Settings(keys=keys)) as client:

        def ask(_):
            while not stop.is_set():
                key = current[0]
                status = client.post("/score", json=body(), headers=bearer(key)).status_code
                statuses.append((key, status))

        def wait_for(n):
            end, wanted = time.monotonic() + LONGEST_WAIT, len(statuses) + n
            while len(statuses) < wanted:
                assert time.monotonic() < end
                time.sleep(0.01)

        with ThreadPoolExecutor(4) as pool:
            running_ones = [pool.submit(ask, k) for k in range(4)]
            try:
                wait_for(10)
                write_keys(keys, entry(SCORES, "score"), entry(new, "score"))
                wait_for(10)
                current[0] = new
                wait_for(10)
                write_keys(keys, entry(new, "score"))
                wait_for(10)
            finally:
                stop.set()
            for one in running_ones:
                one.result(LONGEST_WAIT)
        assert {status for _, status in statuses} == {200}
        assert {key for key, _ in statuses} == {SCORES, new}
        assert client.post("/score", json=body(), headers=bearer(SCORES)).status_code == 401


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("text", ["", "{}", '{"keys": [{"name": "x"}]}', None])
def test_a_broken_file_of_keys_leaves_the_keys_as_they_were(text, tmp_path, caplog):
    from locuscore.service import Settings

    keys = tmp_path / "keys.json"
    write_keys(keys, entry(SCORES, "score"))
    with running(small_scorer(), Settings(keys=keys)) as client:
        keys.unlink() if text is None else keys.write_text(text)
        assert client.post("/score", json=body(), headers=bearer(SCORES)).status_code == 200
        write_keys(keys, entry(OPERATES, "score"))  # mended
        assert client.post("/score", json=body(), headers=bearer(SCORES)).status_code == 401
        assert client.post("/score", json=body(), headers=bearer(OPERATES)).status_code == 200
    assert "the keys stay as they were" in caplog.text


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([{"name": "x", "key": "short", "roles": ["score"]}], "at least 16 characters"),
        ([{"name": "x", "sha256": "xyz", "roles": ["score"]}], "64 hex digits"),
        ([entry(SCORES, "scores")], "roles are a list of some of score, reload"),
        ([entry(SCORES)], "roles are a list"),
        ([entry(SCORES, "score"), entry(SCORES, "labels")], "entry 1: the key stands there twice"),
        ([entry(SCORES, "score") | {"role": 1}], "expected an object"),
        ([entry(SCORES, "score", name=" ")], "a key has a name"),
        ([{**entry(SCORES, "score"), "sha256": "0" * 64}], "give the key, or its sha256"),
        ("x", "no list of keys"),
    ],
)
def test_a_wrong_file_of_keys_is_refused_at_the_start(entries, told, tmp_path):
    from locuscore.service import Settings, create_app

    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": entries}))
    with pytest.raises(ValueError, match=told):
        create_app(small_scorer(), Settings(keys=keys))


@pytest.fixture
def client():
    with running(small_scorer()) as made:
        yield made


def test_every_answer_has_the_id_of_its_request(client):
    given = {"X-Request-ID": "order-17/a", "traceparent": TRACE}
    answer = client.post("/score", json=body(), headers=given)
    assert answer.headers["x-request-id"] == "order-17/a"
    assert answer.headers["traceparent"] == TRACE
    made = [client.get(path).headers["x-request-id"] for path in ("/nothing", "/livez", "/livez")]
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made)
    assert len(set(made)) == 3
    odd = client.get("/livez", headers={"X-Request-ID": 'a"} {"', "traceparent": "x"})
    assert re.fullmatch("[0-9a-f]{32}", odd.headers["x-request-id"])
    assert "traceparent" not in odd.headers


def lines_of(caplog):
    from locuscore.service._logs import JsonFormatter

    made = [JsonFormatter().format(one) for one in caplog.records]
    return [one for one in map(json.loads, made) if one["logger"] == "locuscore.request"]


@pytest.mark.parametrize("log_rows", [False, True])
def test_a_request_is_one_line_without_values_unless_asked(log_rows, caplog):
    from locuscore.service import Settings

    caplog.set_level(logging.INFO, logger="locuscore")
    sent = {"rows": [[0.123456789, *body()["rows"][0][1:]]]}
    with running(small_scorer(), Settings(api_key="k", log_rows=log_rows)) as client:
        headers = bearer("k") | {"X-Request-ID": "a", "traceparent": TRACE}
        assert client.post("/score", json=sent, headers=headers).status_code == 200
        assert client.post("/score", json={"rows": "x"}, headers=headers).status_code == 422
        assert client.get("/model", headers=bearer("wrong")).status_code == 401
    scored, refused, unknown = lines_of(caplog)
    assert (scored["request_id"], scored["path"], scored["status"]) == ("a", "/score", 200)
    assert (scored["rows"], scored["key"], scored["level"]) == (1, "api", "info")
    assert scored["trace_id"] == TRACE.split("-")[1]
    assert scored["milliseconds"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", scored["time"])
    assert (refused["status"], unknown["status"], unknown["key"]) == (422, 401, None)
    assert ("0.123456789" in json.dumps(scored)) is log_rows


def first_answer(address, child):
    """What a starting service says to the first who asks whether it is ready."""
    import httpx

    end = time.monotonic() + LONGEST_WAIT
    while True:
        assert child.poll() is None
        assert time.monotonic() < end
        try:
            return httpx.get(f"{address}/readyz", verify=False, timeout=LONGEST_WAIT)
        except httpx.ConnectError:
            time.sleep(0.05)


@contextmanager
def serving(path, *options):
    """The command `serve` in a process of its own, when it answers, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    scheme = "https" if "--tls-key" in options else "http"
    address = f"{scheme}://127.0.0.1:{port}"
    command = [sys.executable, "-m", "locuscore", "serve", str(path), "--port", str(port)]
    with subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL) as child:
        try:
            # It is ready as soon as it answers.
            assert first_answer(address, child).status_code == 200
            yield child, address
        finally:
            child.kill()


def test_the_log_of_a_service_is_json_from_the_first_line_to_the_last(tmp_path):
    import httpx

    path, log = tmp_path / "x.locus", tmp_path / "log.jsonl"
    small_scorer().save(path)
    ledger = ("--store", "postgresql://u:secret@127.0.0.1:1/none", "--store-optional")
    with serving(path, "--json", "--log-file", str(log), *ledger) as (child, address):
        assert httpx.post(f"{address}/score", json=body(3)).status_code == 200
        child.send_signal(signal.SIGTERM)
        assert child.wait(LONGEST_WAIT) in (0, -signal.SIGTERM)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    (scored,) = [line for line in lines if line.get("path") == "/score"]
    assert scored["rows"] == 3
    assert "Finished server process" in lines[-1]["message"]
    told = [line["message"] for line in lines]
    assert "decisions are not kept" in told[0]  # said while it starts, before it listens
    assert f"model {scored['model']} of {path}" in told[1]
    assert "secret" not in log.read_text()


def test_a_log_for_people_has_times_too(tmp_path):
    from locuscore.service import _logs

    with _logs.logging_to(tmp_path / "log", "text", "info", _logs.Lost()):
        logging.getLogger("locuscore.service").error("trouble")
    line = (tmp_path / "log").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} ERROR: +trouble\n", line)


def test_the_log_is_not_for_all_on_the_machine(tmp_path):
    from locuscore.service import _logs

    before = os.umask(0o022)
    try:
        with _logs.logging_to(tmp_path / "log", "json", "info", _logs.Lost()):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o640


def test_lines_lost_before_there_is_a_metric_are_counted():
    from locuscore.service import _logs

    lost, counted = _logs.Lost(), []
    lost()
    lost()
    lost.counted_by(counted.append)
    lost()
    assert sum(counted) == 3


def test_a_full_disk_stops_the_log_and_not_the_service(tmp_path):
    import httpx

    path = tmp_path / "x.locus"
    small_scorer().save(path)
    with serving(path, "--json", "--log-file", "/dev/full") as (_, address):
        for _ in range(3):
            assert httpx.post(f"{address}/score", json=body()).status_code == 200
        end = time.monotonic() + LONGEST_WAIT
        pattern = r"locuscore_log_lines_lost_total (\d+)\.0"
        while int(re.search(pattern, httpx.get(f"{address}/metrics").text)[1]) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_lines_beyond_those_that_can_wait_are_counted(monkeypatch, tmp_path):
    from locuscore.service import _logs

    monkeypatch.setattr(_logs, "MOST_WAITING", 5)
    gate, lost = threading.Event(), []
    monkeypatch.setattr(_logs.Writer, "emit", lambda self, record: gate.wait(LONGEST_WAIT))
    with _logs.logging_to(tmp_path / "log", "json", "info", lambda: lost.append(1)):
        for _ in range(20):
            logging.getLogger("locuscore.service").info("a line")
        gate.set()
    assert 14 <= len(lost) <= 15  # one may be with the writer


def test_ready_means_that_rows_are_scored(client):
    assert client.get("/livez").json() == {"status": "ok"}
    answer = client.get("/readyz").json()
    assert answer == {"status": "ok", "model": client.get("/model").json()["model"]}
    assert "locuscore_rows_total 0.0" in client.get("/metrics").text  # probes are not counted


STARTS_SLOWLY = """
import sys
from locuscore import Scorer
from locuscore.service import serve

def load(path, **options):
    print("loading", flush=True)
    sys.stdin.readline()
    return Scorer.load(path, **options)

serve(sys.argv[1], port=int(sys.argv[2]), load=load)
"""


def test_until_the_model_is_loaded_nobody_is_let_in(tmp_path):
    import httpx

    path = tmp_path / "x.locus"
    small_scorer().save(path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-c", STARTS_SLOWLY, str(path), str(port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as child:
        try:
            assert child.stdout.readline() == "loading\n"
            for route in ("readyz", "livez", "score"):
                with pytest.raises(httpx.ConnectError):
                    httpx.get(f"http://127.0.0.1:{port}/{route}")
            child.stdin.write("go\n")
            child.stdin.flush()
            assert first_answer(f"http://127.0.0.1:{port}", child).status_code == 200
        finally:
            child.kill()


def test_a_model_that_cannot_score_is_alive_and_not_ready(monkeypatch):
    scorer = small_scorer()
    with running(scorer) as client:

        def fails(X):
            raise RuntimeError("the predictor is gone")

        monkeypatch.setattr(scorer.locus.predictor_, "predict", fails)
        assert client.get("/livez").status_code == client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "gone" not in answer.text  # it is in the log


@pytest.mark.parametrize("make", [frame_scorer, small_scorer])
def test_a_model_without_kept_rows_is_probed_with_a_made_up_one(make, tmp_path):
    make().save(tmp_path / "x.locus", keep_rows=False)
    with running(tmp_path / "x.locus") as client:
        assert client.get("/readyz").status_code == 200


def test_a_service_that_drains_answers_and_is_not_ready(tmp_path):
    import httpx

    path = tmp_path / "x.locus"
    small_scorer().save(path)
    with process(path, "Settings(drain_seconds=600.0)") as (child, address):
        assert httpx.get(f"{address}/readyz").status_code == 200
        child.send_signal(signal.SIGTERM)
        end = time.monotonic() + LONGEST_WAIT
        while httpx.get(f"{address}/readyz").status_code != 503:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert httpx.get(f"{address}/livez").status_code == 200
        assert httpx.post(f"{address}/score", json=body()).status_code == 200
        child.send_signal(signal.SIGTERM)  # a second one does not wait
        assert child.wait(LONGEST_WAIT) in (0, -signal.SIGTERM)


def test_a_reload_to_other_columns_is_refused_with_requests_in_flight(
    tmp_path, caplog, monkeypatch
):
    from locuscore.service import Settings
    from locuscore.service._batching import Batcher

    gate, score = threading.Event(), Batcher._score

    def wait_and_score(*given):
        assert gate.wait(LONGEST_WAIT)
        score(*given)

    monkeypatch.setattr(Batcher, "_score", wait_and_score)
    path, X = tmp_path / "x.locus", rows(200, seed=3)
    small_scorer().save(path)
    with (
        running(path, Settings(api_key="k", timeout_seconds=LONGEST_WAIT)) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        client.headers = bearer("k")
        before = client.get("/model").json()["model"]
        asked = [pool.submit(client.post, "/score", json=body()) for _ in range(4)]
        while "requests_under_way 4.0" not in client.get("/metrics").text:
            assert not any(one.done() for one in asked)
        small_scorer(None, X[0][:, :2], X[1]).save(path)
        answer = client.post("/reload")
        assert answer.status_code == 409
        assert "takes other rows" in answer.json()["error"]
        assert not any(one.done() for one in asked)
        gate.set()
        assert {one.result(LONGEST_WAIT).json()["model"] for one in asked} == {before}
        assert client.get("/model").json()["model"] == before
        small_scorer(None, *X).save(path)  # the same columns
        assert client.post("/reload").status_code == 200
    assert "the old model stays" in caplog.text


def test_other_columns_may_be_allowed(tmp_path):
    from locuscore.service import Settings

    path, X = tmp_path / "x.locus", rows(200, seed=3)
    small_scorer().save(path)
    settings = Settings(api_key="k", allow_another_schema=True)
    with running(path, settings) as client:
        client.headers = bearer("k")
        small_scorer(None, X[0][:, :2], X[1]).save(path)
        assert client.post("/reload").status_code == 200
        assert client.get("/readyz").status_code == 200


def test_the_log_says_what_a_reload_changes(tmp_path, caplog):
    from locuscore.service import Settings

    caplog.set_level(logging.INFO, logger="locuscore")
    path = tmp_path / "x.locus"
    small_scorer().save(path)
    with running(path, Settings(api_key="k")) as client:
        client.headers = bearer("k")
        client.post("/reload")
        assert "it answers as the model before" in caplog.text
        small_scorer(None, *rows(200, seed=3)).save(path)
        client.post("/reload")
    assert re.search(r"bound_0.1 differs in \d+ of 32 rows", caplog.text)


def test_schemas_are_compared_by_names_and_kinds():
    from locuscore.service._model import Model
    from locuscore.service._reload import compare

    one, other = small_scorer(), frame_scorer()
    array, framed = Model(one, {}), Model(other, {})
    assert compare(array, array).is_same_schema
    assert compare(framed, framed).words == "on the probe it answers as the model before"
    assert "pandas instead of array" in compare(array, framed).schema


def certificate(folder):
    """A certificate of this machine for itself, and its key."""
    pem, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key)]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(pem)]
    subprocess.run(made, check=True, capture_output=True)
    return pem, key


def test_https_with_a_certificate(tmp_path):
    import httpx

    pem, key = certificate(tmp_path)
    path = tmp_path / "x.locus"
    scorer = small_scorer()
    scorer.save(path)
    options = ["--tls-certificate", str(pem), "--tls-key", str(key)]
    with serving(path, *options) as (_, address):
        trusted = ssl.create_default_context(cafile=str(pem))
        answer = httpx.post(f"{address}/score", json=body(), verify=trusted).json()
    expected = scorer(np.array(body()["rows"]))["bound_0.1"]
    np.testing.assert_allclose(answer["rows"][0]["bound_0.1"], expected, rtol=1e-9)


def test_a_wrong_certificate_is_refused_at_the_start(tmp_path):
    from locuscore.service import serve

    (tmp_path / "x.pem").write_text("no certificate")
    with pytest.raises(ValueError, match="no certificate and its key in PEM"):
        serve(small_scorer(), tls=(tmp_path / "x.pem", tmp_path / "x.pem"))


def test_requests_are_spans_where_opentelemetry_is_set_up(monkeypatch, client):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from locuscore.service import _request_log

    assert not _request_log.is_traced()  # its API alone costs nothing
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(_request_log, "tracer", provider.get_tracer("locuscore"))
    monkeypatch.setattr(_request_log, "is_traced", lambda: True)
    client.post("/score", json=body(2), headers={"traceparent": TRACE})
    (span,) = exporter.get_finished_spans()
    assert span.name == "POST /score"
    assert f"{span.context.trace_id:032x}" == TRACE.split("-")[1]
    assert f"{span.parent.span_id:016x}" == TRACE.split("-")[2]
    assert span.attributes["locuscore.rows"] == 2
