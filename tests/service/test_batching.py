"""Batcher: everybody gets their own answer, whatever the others send."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

pytestmark = pytest.mark.extra


@dataclass(eq=False)
class Doubling:
    """Doubles numbers; a negative one fails the whole call, as a bad row does."""

    calls: list = field(default_factory=list)
    seconds: float = 0.0

    def __call__(self, parts):
        self.calls.append(list(parts))
        time.sleep(self.seconds)
        if min(parts) < 0:
            raise ValueError("negative")
        return [2 * part for part in parts]


@pytest.fixture
def batcher():
    from locuscore.service._batching import Batcher

    made = Batcher(0.02, max_rows=100, max_waiting=1000)
    yield made
    made.close()
    assert not made.is_alive


def test_jobs_that_come_together_are_scored_together(batcher):
    group = Doubling()
    futures = [batcher.submit(group, i, 1) for i in range(50)]
    assert [future.result(5) for future in futures] == list(range(0, 100, 2))
    assert len(group.calls) <= 2


def test_only_the_job_to_blame_fails(batcher):
    group = Doubling()
    futures = [batcher.submit(group, -1 if i == 13 else i, 1) for i in range(40)]
    for i, future in enumerate(futures):
        if i == 13:
            with pytest.raises(ValueError, match="negative"):
                future.result(5)
        else:
            assert future.result(5) == 2 * i
    assert len(group.calls) <= 2 * 8  # halves, not one by one


def test_groups_are_not_mixed(batcher):
    one, other = Doubling(), Doubling()
    futures = [batcher.submit(one if i % 2 else other, i, 1) for i in range(20)]
    assert [future.result(5) for future in futures] == list(range(0, 40, 2))
    assert {i % 2 for call in one.calls for i in call} == {1}
    assert {i % 2 for call in other.calls for i in call} == {0}


def test_a_batch_has_a_largest_size(batcher):
    group = Doubling()
    futures = [batcher.submit(group, i, 40) for i in range(9)]
    assert [future.result(5) for future in futures] == list(range(0, 18, 2))
    assert max(len(call) for call in group.calls) == 3


def test_a_cancelled_job_is_dropped(batcher):
    group = Doubling(seconds=0.1)
    batcher.submit(group, 1, 100).result(5)
    first = batcher.submit(group, 2, 100)
    waiting = batcher.submit(group, 3, 100)
    assert waiting.cancel()
    assert first.result(5) == 4
    assert [3] not in group.calls


def test_a_full_queue_refuses_at_once():
    from locuscore.service._batching import Batcher, OverloadError

    batcher = Batcher(0.0, max_rows=1, max_waiting=2)
    group = Doubling(seconds=0.3)
    futures = [batcher.submit(group, 0, 1)]
    time.sleep(0.1)  # it is being scored
    futures += [batcher.submit(group, i, 1) for i in (1, 2)]
    start = time.perf_counter()
    with pytest.raises(OverloadError):
        batcher.submit(group, 3, 1)
    assert time.perf_counter() - start < 0.1
    batcher.close()  # scores what waits
    assert [future.result(0) for future in futures] == [0, 2, 4]


def test_many_threads_get_their_own_answers(batcher):
    group, barrier = Doubling(), threading.Barrier(16)

    def ask(k):
        barrier.wait()
        return all(batcher.submit(group, i, 1).result(20) == 2 * i for i in range(k, 4000, 160))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(16)))
