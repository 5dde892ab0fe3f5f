"""Kills, reloads, shutdowns and too much load: no answer is wrong, lost or somebody else's."""

import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from archives_for_tests import rows, small_scorer
from helpers import LONGEST_WAIT
from service_for_tests import process, running

pytestmark = pytest.mark.extra
X, Y = rows(40, seed=7)


def expected(scorer):
    found = scorer(X)
    return [{name: float(values[i]) for name, values in found.items()} for i in range(len(X))]


def is_right(answer, wanted):
    (row,) = answer["rows"]
    return row["flag"] == bool(wanted["flag"]) and all(
        abs(row[name] - value) <= 1e-9 * abs(value) for name, value in wanted.items()
    )


class Load:
    """Four clients that ask for one row after another until told to stop."""

    def __init__(self, address, wanted, key=None):
        import httpx

        self.address = address
        self.wanted = wanted  # model -> rows, or rows of the one model
        self.right = self.wrong = 0
        self.failed = []
        self.stop = threading.Event()
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.httpx = httpx
        self.threads = [threading.Thread(target=self._ask, args=(k,)) for k in range(4)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stop.set()
        for thread in self.threads:
            thread.join(LONGEST_WAIT)

    def _ask(self, k):
        with self.httpx.Client(headers=self.headers, timeout=LONGEST_WAIT) as client:
            i = k
            while not self.stop.is_set():
                i = (i + 4) % len(X)
                try:
                    answer = client.post(f"{self.address}/score", json={"rows": [X[i].tolist()]})
                except self.httpx.TransportError as error:
                    self.failed.append(repr(error))
                    time.sleep(0.02)
                    continue
                self._sort(answer, i)

    def _sort(self, answer, i):
        if answer.status_code != 200:
            self.failed.append(answer.text)
            return
        content = answer.json()
        wanted = self.wanted[content["model"]] if isinstance(self.wanted, dict) else self.wanted
        if is_right(content, wanted[i]):
            self.right += 1
        else:
            self.wrong += 1

    def wait(self, more=20):
        """Until some more right answers have come."""
        goal, end = self.right + more, time.monotonic() + LONGEST_WAIT
        while self.right < goal:
            assert time.monotonic() < end, self.failed[-3:]
            time.sleep(0.01)


def test_a_killed_service_gives_no_wrong_answer(scorer, tmp_path):
    path = tmp_path / "x.locus"
    scorer.save(path)
    with Load("http://127.0.0.1:9", expected(scorer)) as load:  # nobody listens there
        for _ in range(2):
            with process(path) as (child, address):
                load.address = address
                load.wait()
                child.send_signal(signal.SIGKILL)
                child.wait(LONGEST_WAIT)
    assert load.right >= 40
    assert load.wrong == 0
    assert load.failed  # the kill was noticed


def put(source, path):
    """Replace a file in one step, as `save` does."""
    shutil.copy(source, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def test_reload_under_load_fails_no_request(scorer, tmp_path):
    import httpx

    path, saved = tmp_path / "x.locus", [tmp_path / "0.locus", tmp_path / "1.locus"]
    others = [scorer, small_scorer(None, *rows(200, seed=3))]
    for other, file in zip(others, saved, strict=True):
        other.save(file)
    put(saved[0], path)
    headers = {"Authorization": "Bearer k"}
    with process(path, "Settings(api_key='k')") as (child, address):
        names = [httpx.get(f"{address}/model", headers=headers).json()["model"]]
        put(saved[1], path)
        names.append(httpx.post(f"{address}/reload", headers=headers).json()["model"])
        wanted = {name: expected(one) for name, one in zip(names, others, strict=True)}
        assert len(wanted) == 2
        with Load(address, wanted, "k") as load:
            for k in range(6):
                load.wait(10)
                put(saved[k % 2], path)
                if k % 3 == 2:
                    child.send_signal(signal.SIGHUP)
                    continue
                found = httpx.post(f"{address}/reload", headers=headers, timeout=LONGEST_WAIT)
                assert found.json() == {"model": names[k % 2]}
            load.wait(10)
    assert load.wrong == 0
    assert load.failed == []


def test_sighup_loads_the_new_archive_and_survives_a_broken_one(scorer, tmp_path):
    import httpx

    path = tmp_path / "x.locus"
    scorer.save(path)
    with process(path) as (child, address):
        before = httpx.get(f"{address}/model").json()["model"]
        small_scorer(None, *rows(200, seed=3)).save(path)
        os.kill(child.pid, signal.SIGHUP)
        end = time.monotonic() + LONGEST_WAIT
        while (after := httpx.get(f"{address}/model").json()["model"]) == before:
            assert time.monotonic() < end
            time.sleep(0.05)
        path.write_bytes(b"broken")
        os.kill(child.pid, signal.SIGHUP)
        time.sleep(0.3)
        assert httpx.get(f"{address}/model").json()["model"] == after


def test_a_shutdown_finishes_running_requests(scorer, tmp_path):
    import httpx

    path = tmp_path / "x.locus"
    scorer.save(path)
    wanted = expected(scorer)
    with process(path, "Settings(gather_seconds=3.0)") as (child, address):
        with (
            ThreadPoolExecutor(8) as pool,
            httpx.Client(base_url=address, timeout=LONGEST_WAIT) as client,
        ):

            def ask(i):
                return client.post("/score", json={"rows": [X[i].tolist()]})

            answers = [pool.submit(ask, i) for i in range(8)]
            while "requests_under_way 8.0" not in client.get("/metrics").text:
                assert not any(answer.done() for answer in answers)
            child.send_signal(signal.SIGTERM)
            for i, answer in enumerate(answers):
                assert answer.result().status_code == 200
                assert is_right(answer.result().json(), wanted[i])
        assert child.wait(LONGEST_WAIT) in (0, -signal.SIGTERM)


def test_requests_beyond_the_limit_are_shed_at_once(scorer):
    from locuscore.service import Settings

    wanted = expected(scorer)
    with running(scorer, Settings(max_requests=4, gather_seconds=1.0)) as client:

        def ask(i):
            answer = client.post("/score", json={"rows": [X[i].tolist()]})
            return i, answer, time.perf_counter()

        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(ask, range(12)))
        assert client.post("/score", json={"rows": [X[0].tolist()]}).status_code == 200
    served = [one for one in found if one[1].status_code == 200]
    shed = [one for one in found if one[1].status_code == 503]
    assert (len(served), len(shed)) == (4, 8)
    assert all(is_right(answer.json(), wanted[i]) for i, answer, _ in served)
    assert all(answer.headers["Retry-After"] == "1" for _, answer, _ in shed)
    # At once: no answer that is refused waits for those that are not.
    assert max(end for _, _, end in shed) < min(end for _, _, end in served)
