"""What an application writes before the loop goes on is sent in one piece, and in order."""

import asyncio

import pytest

pytest.importorskip("uvicorn")

from locuscore.service._connection import MOST_JOINED, MOST_PARTS, _Joined

pytestmark = pytest.mark.extra


class Sent:
    """A transport that keeps what it is told."""

    def __init__(self):
        self.told, self.is_closed = [], False

    def write(self, data):
        assert not self.is_closed
        self.told.append(data)

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed


def told(use):
    """Return what is sent of what `use` writes, after one turn of the loop."""
    sent = Sent()

    async def run():
        use(_Joined(sent, asyncio.get_running_loop()))
        await asyncio.sleep(0)

    asyncio.run(run())
    return sent


def test_head_and_body_are_one_piece():
    assert told(lambda way: [way.write(b"head"), way.write(b"body")]).told == [b"headbody"]


def test_answers_of_several_turns_are_several_pieces():
    sent = Sent()

    async def run():
        way = _Joined(sent, asyncio.get_running_loop())
        for part in (b"one", b"two"):
            way.write(part)
            await asyncio.sleep(0)

    asyncio.run(run())
    assert sent.told == [b"one", b"two"]


def test_a_large_part_is_not_copied_and_keeps_its_place():
    large = bytes(MOST_JOINED + 1)
    sent = told(lambda way: [way.write(b"head"), way.write(large), way.write(b"end")])
    assert sent.told == [b"head", large, b"end"]
    assert sent.told[1] is large


def test_many_parts_do_not_pile_up():
    sent = Sent()

    async def run():
        way = _Joined(sent, asyncio.get_running_loop())
        for i in range(100):
            way.write(b"%d," % i)
            assert len(way._parts) <= MOST_PARTS
        await asyncio.sleep(0)

    asyncio.run(run())
    assert b"".join(sent.told) == b"".join(b"%d," % i for i in range(100))


def test_what_is_written_is_sent_before_it_closes():
    sent = told(lambda way: [way.write(b"refused"), way.close()])
    assert sent.told == [b"refused"]
    assert sent.is_closed


def test_nothing_is_written_to_a_client_that_has_gone():
    sent = told(lambda way: [way.write(b"answer"), setattr(way._transport, "is_closed", True)])
    assert sent.told == []
