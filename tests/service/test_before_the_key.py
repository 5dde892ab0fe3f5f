"""What anybody who reaches the port can do before a key is asked for: nothing that costs much."""

import json
import select
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives_for_tests import rows
from helpers import LONGEST_WAIT, raises
from service_for_tests import running

pytestmark = pytest.mark.extra
X, _ = rows(40, seed=7)
HEAD = b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def limits(**changed):
    from locuscore.service import Settings

    return Settings(**({"receive_seconds": 0.05, "min_bytes_per_second": 1e9} | changed))


@pytest.fixture(scope="module")
def hasty(scorer):
    """A service that waits for hardly anything."""
    with running(scorer, limits(api_key="k")) as client:
        yield client


@pytest.fixture(scope="module")
def patient(scorer):
    """A service with the usual limits."""
    from locuscore.service import Settings

    with running(scorer, Settings(api_key="k")) as client:
        yield client


def connected(client):
    made = socket.create_connection(("127.0.0.1", client.base_url.port), timeout=20)
    made.settimeout(20)  # a connection that is never closed fails the test
    return made


def everything(made):
    """All that comes until the other side hangs up."""
    found = b""
    try:
        while part := made.recv(65_536):
            found += part
    except ConnectionError:  # closed while more of ours was under way
        pass
    return found


def sent(client, content):
    with connected(client) as made:
        made.sendall(content)
        return everything(made)


def test_headers_without_end_are_refused_early(patient):
    """35 MiB of them were kept, in a gigabyte."""
    for start, piece in ((b"", b"x: " + b"y" * 61 + b"\r\n"), (b"x: ", b"y" * 64)):
        with connected(patient) as made:
            n_sent, block = 0, 1024 * piece
            made.sendall(b"GET /healthz HTTP/1.1\r\n" + start)
            try:
                while n_sent < 35 * 2**20 and not select.select([made], [], [], 0)[0]:
                    n_sent += made.send(block)
            except ConnectionError:
                pass
            assert n_sent < 35 * 2**20
            assert everything(made).startswith(b"HTTP/1.1 431 ") or n_sent > len(block)
    assert patient.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"x%d: y\r\n" % i for i in range(101)),
        b"x: " + b"y" * 32_768 + b"\r\n",
        b"".join(b"x%d: %s\r\n" % (i, b"y" * 1000) for i in range(40)),
    ],
    ids=["many", "long", "together"],
)
def test_a_head_beyond_the_limits_is_refused(patient, head):
    answer = sent(patient, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ")
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert "32768 bytes and 100" in body["error"]


def test_a_long_address_and_headers_after_a_body_are_refused(patient):
    answer = sent(patient, b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ")
    after = b"".join(b"x%d: y\r\n" % i for i in range(200))
    answer = sent(patient, HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + after)
    assert b"HTTP/1.1 431 " in answer


def test_a_usual_head_is_taken(patient):
    headers = {f"x{i}": "y" * 300 for i in range(80)}
    assert patient.get("/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "half",
    [b"GET /healthz HTTP/1.1\r\nHost: loc", b"G", b"\r\n"],
    ids=["a head", "a letter", "an empty line"],
)
def test_half_a_head_is_answered_and_closed(hasty, half):
    assert sent(hasty, half).startswith(b"HTTP/1.1 408 ")


def test_who_says_nothing_is_hung_up_on(hasty):
    assert sent(hasty, b"") == b""


def test_half_a_body_is_closed(hasty):
    head = HEAD + b"Authorization: Bearer k\r\nContent-Length: 100\r\n\r\n"
    assert sent(hasty, head + b'{"rows"') == b""
    # The application was told, and did not fail.
    key = {"Authorization": "Bearer k"}
    assert '{path="/score",status="408"}' in hasty.get("/metrics", headers=key).text


def test_who_takes_no_answer_is_hung_up_on(scorer):
    """The answer was kept for as long as the connection, beyond the time of an idle one."""
    body = json.dumps({"rows": np.resize(X, (50_000, X.shape[1])).tolist()}).encode()
    with running(scorer, limits(receive_seconds=1)) as client, socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(20)  # kept, the answer comes whole, and then nothing
        made.connect(("127.0.0.1", client.base_url.port))
        made.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        while 'locuscore_requests_total{path="/score"' not in client.get("/metrics").text:
            pass
        dropped = time.monotonic() + 1.5
        while time.monotonic() < dropped:  # others are served meanwhile
            assert client.get("/healthz").status_code == 200
        head, _, taken = everything(made).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert len(taken) < int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])


def test_half_a_body_without_a_key_is_refused_and_closed(hasty):
    answer = sent(hasty, HEAD + b"Content-Length: 100\r\n\r\n" + b'{"rows"')
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("key", [b"", b"Authorization: Bearer k\r\n"], ids=["no key", "key"])
def test_a_body_that_trickles_is_closed(hasty, key):
    with connected(hasty) as made:
        made.sendall(HEAD + key + b"Content-Length: 1000000\r\n\r\n")
        try:
            for _ in range(10_000):  # a byte at a time, until we are hung up on
                if select.select([made], [], [], 0.01)[0] and not made.recv(65_536):
                    break
                made.send(b" ")
            else:
                pytest.fail("the connection is still open")
        except ConnectionError:
            pass


def test_a_body_that_is_quick_enough_is_waited_for(scorer):
    """Longer than `receive_seconds`, since enough of it has come."""
    body = json.dumps({"rows": [X[0].tolist()]}).encode()
    head = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    with (
        running(scorer, limits(min_bytes_per_second=len(head) / 30)) as client,
        connected(client) as made,
    ):
        made.sendall(head + body[:-1])
        assert not select.select([made], [], [], 0.2)[0]
        made.sendall(body[-1:])
        assert everything(made).startswith(b"HTTP/1.1 200 ")


def test_a_connection_between_two_requests_is_left_alone(hasty):
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    with connected(hasty) as made:
        made.sendall(ask + b"\r\n")
        answer = b""
        while not answer.endswith(b"}"):  # head and body may come apart
            answer += made.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert not select.select([made], [], [], 0.2)[0]
        made.sendall(ask + b"Connection: close\r\n\r\n")
        assert everything(made).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("LOCALHOST.", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421),
        ("", 421),
    ],
)
def test_a_name_that_is_not_ours_is_refused_on_loopback_without_a_key(open_one, host, status):
    answer = open_one.get("/model", headers={"Host": host})
    assert answer.status_code == status
    if status == 421:
        assert "Settings(hosts=...)" in answer.json()["error"]


@pytest.fixture(scope="module")
def open_one(scorer):
    with running(scorer) as client:
        yield client


def test_other_names_can_be_listed_and_a_key_is_enough(scorer, patient):
    from locuscore.service import Settings

    headers = {"Host": "scores.example", "Authorization": "Bearer k"}
    assert patient.get("/model", headers=headers).status_code == 200
    with running(scorer, Settings(hosts=("Scores.example",))) as client:
        assert client.get("/model", headers=headers).status_code == 200
        assert client.get("/model", headers={"Host": "other.example"}).status_code == 421
        assert client.get("/healthz").status_code == 200
    with pytest.raises(TypeError, match="several names"):
        Settings(hosts="scores.example")


@pytest.mark.parametrize("path", ["/healthz", "/model", "/openapi.json"])
def test_head_is_get_without_the_body(open_one, path):
    whole, head = open_one.get(path), open_one.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert open_one.head("/score").status_code == 405


def counts(body, most, width=2):
    from locuscore.service._json_rows import _check_counts

    return _check_counts(body, most, width)


def test_rows_are_counted_before_they_are_parsed(scorer, monkeypatch):
    """Five million empty rows held up everything else for seconds."""
    from locuscore.service import _json_rows
    from locuscore.service._refusal import RefusalError

    monkeypatch.setattr(_json_rows, "from_json", lambda *_, **__: pytest.fail("it was parsed"))
    many = {
        "objects": (b"{}," * 5_000_000)[:-1],
        "lists": (b"[]," * 5_000_000)[:-1],
        "in one row": b"[" + b"[]," * 4_000_000 + b"[]]",
        "numbers": b"[" + b"1," * 4_000_000 + b"1]",
    }
    for content in many.values():
        with raises(RefusalError, "too many", "50000") as found:
            _json_rows.parse_rows(b'{"rows":[' + content + b"]}", scorer.schema, 50_000)
        assert found.value.status_code == 413


TEXTS = st.text(alphabet='{}[],"\\ab\n', max_size=8)


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1, max_size=4))
def test_what_stands_in_text_is_not_counted(table):
    from locuscore.service._refusal import RefusalError

    for content in (table, [dict(zip("ab", row, strict=True)) for row in table]):
        body = json.dumps({"rows": content}).encode()
        counts(body, len(table))
        if len(table) > 1:
            with raises(RefusalError, f"{len(table)} rows", "too many"):
                counts(body, len(table) - 1)


def test_values_are_counted_too():
    from locuscore.service._refusal import RefusalError

    with raises(RefusalError, "5 values", "2 rows of 2"):
        counts(b'{"rows": [[1, 2, 3, 4, 5]]}', 2)


def test_loads_asked_for_while_one_runs_share_the_next():
    from locuscore.service._reload import Reloads

    started, go, loads = threading.Semaphore(0), threading.Semaphore(0), []

    def load():
        loads.append(len(loads))
        started.release()
        assert go.acquire(timeout=LONGEST_WAIT)
        if loads == [0, 1]:
            raise OSError("broken")
        return len(loads)

    reloads = Reloads(load)
    first = reloads.ask()
    assert started.acquire(timeout=LONGEST_WAIT)
    shared = {id(reloads.ask()) for _ in range(50)}
    second = reloads.ask()
    assert shared == {id(second)} != {id(first)}
    go.release(2)
    assert first.result(20) == 1
    assert isinstance(second.exception(20), OSError)
    assert len(loads) == 2
    go.release()
    third: Future = reloads.ask()
    assert third.result(20) == 3


def test_reloads_hold_up_neither_scoring_nor_each_other(scorer, tmp_path):
    from locuscore import Scorer
    from locuscore.service import Settings

    path = tmp_path / "x.locus"
    scorer.save(path)
    go, under_way, most, started = threading.Event(), [0], [0], threading.Event()

    def load(file, **options):
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        if not go.is_set():
            started.set()
            assert go.wait(LONGEST_WAIT)
        under_way[0] -= 1
        return Scorer.load(file, **options)

    go.set()
    settings = Settings(api_key="k", timeout_seconds=20)
    with running(path, settings, load=load) as client, ThreadPoolExecutor(40) as pool:
        client.headers["Authorization"] = "Bearer k"
        go.clear()
        try:
            answers = [pool.submit(client.post, "/reload", timeout=LONGEST_WAIT) for _ in range(40)]
            assert started.wait(LONGEST_WAIT)
            large = np.repeat(X, 60, axis=0).tolist()  # parsed beside the event loop
            assert len(json.dumps(large)) > 2**16
            assert client.post("/score", json={"rows": large}).status_code == 200
            assert client.get("/healthz").status_code == 200
        finally:
            go.set()
        assert {answer.result().status_code for answer in answers} == {200}
    assert most[0] == 1
