"""Messages get to the sites and back over Flower's Grid, whatever their size; who is late, lost or broken is named."""

import threading
import time

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, RecordDict
from flwr.app import Message as Parcel
from flwr.clientapp import ClientApp

from tests.federation.grid import LOST, InProcessGrid
from unpooled.federation.wire import flower
from unpooled.federation.wire.flower import GridTransport, _pack, _unpack
from unpooled.federation.wire.transport import Failure, Message


def echoing(late=(), broken=(), foreign=()):
    """An app that sends every message back under its site's name, and does worse where it is told to."""
    app = ClientApp()

    @app.query(flower.ACTION)
    def answer(parcel, context):
        site = str(context.node_config["site"])
        if site in late:
            time.sleep(5)
        if site in broken:
            raise RuntimeError("the disk is full")
        if site in foreign:
            return Parcel(RecordDict({"x": ConfigRecord({"y": 1})}), reply_to=parcel)
        asked = Message.from_bytes(_unpack(parcel))
        answered = Message("answer", {"site": site, **asked.header}, asked.arrays)
        return Parcel(_pack(answered.to_bytes()), reply_to=parcel)

    @app.query(f"{flower.ACTION}_name")
    def name(parcel, context):
        return Parcel(_pack(str(context.node_config["site"]).encode()), reply_to=parcel)

    return app


def nodes(*names):
    return {name: {"site": name} for name in names}


@pytest.mark.parametrize("size", [0, 1, 10_000, 2_000_000])
def test_a_message_comes_back_bit_for_bit(size):
    grid = InProcessGrid(echoing(), nodes("a", "b", "c"))
    rng = np.random.default_rng(0)
    sent = {name: Message("ask", {"n": i}, {"x": rng.normal(size=size)}) for i, name in enumerate("abc")}
    replies = GridTransport(grid).exchange(sent, 20)
    assert sorted(replies) == ["a", "b", "c"]
    for name, reply in replies.items():
        assert reply.header == {"site": name, **sent[name].header}
        np.testing.assert_array_equal(reply.arrays["x"], sent[name].arrays["x"])


def test_a_node_without_a_registered_name_is_asked_for_it():
    grid = InProcessGrid(echoing(), {"b": {"site": "b"}, "?1": {"site": "a"}, "?2": {"site": "c"}})
    transport = GridTransport(grid)
    assert transport.sites() == ["a", "b", "c"]
    replies = transport.exchange({name: Message("ask") for name in "abc"}, 10)
    assert {name: reply.header["site"] for name, reply in replies.items()} == {"a": "a", "b": "b", "c": "c"}


def test_a_name_that_two_nodes_claim_is_nobodys():
    grid = InProcessGrid(echoing(), {"a": {"site": "a"}, "?1": {"site": "a"}, "b": {"site": "b"}})
    transport = GridTransport(grid)
    assert transport.sites() == ["b"]
    assert isinstance(transport.exchange({"a": Message("ask")}, 5)["a"], Failure)


def test_every_site_that_gives_no_answer_is_a_failure_that_says_why():
    def hook(name, way, content):
        if name == "cut":
            return LOST if way == "reply" else content
        if name == "bent" and way == "reply":  # a bit of the payload, which Flower passes on
            return content[:-200] + bytes([content[-200] ^ 1]) + content[-199:]
        return content

    app = echoing(late=["slow"], broken=["full"], foreign=["other"])
    grid = InProcessGrid(app, nodes("good", "slow", "full", "other", "cut", "bent", "gone"), hook)
    grid.down.add("gone")
    names = ["good", "slow", "full", "other", "cut", "bent", "gone", "nobody"]
    asked = {name: Message("ask", {}, {"x": np.zeros(1000)}) for name in names}
    start = time.monotonic()
    replies = GridTransport(grid).exchange(asked, 1.5)
    assert time.monotonic() - start < 3
    assert isinstance(replies.pop("good"), Message)
    said = {name: reply.reason for name, reply in replies.items()}
    assert said["slow"] == said["cut"] == "no answer within 1.5 s"
    assert "the disk is full" in said["full"]
    assert "it is from another app" in said["other"]
    assert "damaged" in said["bent"]
    assert said["gone"] == said["nobody"] == "its SuperNode is not connected"


def test_a_late_answer_is_not_taken_for_one_to_the_next_question():
    app = echoing()
    grid = InProcessGrid(app, nodes("a"), hook=lambda *_: time.sleep(0.4) or _[2])
    transport = GridTransport(grid)
    assert isinstance(transport.exchange({"a": Message("ask", {"n": 1})}, 0.3)["a"], Failure)
    time.sleep(1)
    assert transport.exchange({"a": Message("ask", {"n": 2})}, 5)["a"].header["n"] == 2


def test_a_site_that_was_there_is_waited_for_while_it_restarts():
    grid = InProcessGrid(echoing(), nodes("a", "b"))
    transport = GridTransport(grid)
    asked = {name: Message("ask") for name in "ab"}
    transport.exchange(asked, 10)
    grid.down.add("b")
    threading.Timer(0.3, grid.down.clear).start()
    assert all(isinstance(reply, Message) for reply in transport.exchange(asked, 10).values())
