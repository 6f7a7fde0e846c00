"""The Flower side of a federation; no other file uses Flower's names.

It uses only Flower's Message API. A message of ours is one array of raw bytes in a RecordDict, so Flower splits large
messages into chunks, and sends content that is the same for all sites only once to its store.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.app import Message as Parcel
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ..._base.text import join_lines
from ..server.running import run_study
from ..site.site import Site
from ..study.folder import Status
from ..study.study import RESULTS, read_study
from .transport import Failure, Message, MessageError, make_refusal, receive, serve_relay

CLIENT_COMMAND, EXEC_COMMAND = "flwr-clientapp", "flower-superexec"
ACTION = "unpooled"
_QUERY, NAME = f"query.{ACTION}", f"query.{ACTION}_name"
_ASK_NAME = 60.0  # seconds in which a node without a registered name must send its name
_RESTART = 30.0  # seconds in which a site that was connected before must reconnect
_FIRST_LOOK, _LAST_LOOK = 0.1, 1.0  # seconds between two checks for answers, at first and later
# Flower's SuperNode waits three seconds whenever it finds no message. Between two messages of a study there is a moment
# without one, so every message would be that late. This code shortens the wait, and ends the node with the process of
# its site, whose process id it is given.
NODE = """
import os, signal, threading, time, types

def stay(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=stay, args=(int(os.environ.pop("UNPOOLED_SITE")),), daemon=True).start()
from flwr.supernode import start_client_internal as node
from flwr.supernode.cli import flower_supernode
node.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.3)))
flower_supernode()
"""


class GridTransport:
    """A transport over the Grid that Flower gives to a ServerApp.

    A site is the SuperNode that was registered under its name (``flwr supernode register --name``); a node that was
    registered without a name is asked for it. Flower authenticates the nodes, and the signatures of the sites are
    checked by the code that uses this transport.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._names: dict[int, str] = {}  # the names that nodes sent
        self._past_sites: set[str] = set()  # sites that were connected at some time

    def sites(self) -> list[str]:
        """Return the names of the SuperNodes that are connected now; a name that two nodes claim is left out."""
        return sorted(self._nodes())

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """Return the answers within ``timeout`` seconds; an error that Flower reports is a Failure of that site."""
        nodes, until = self._nodes(), time.monotonic() + min(timeout, _RESTART)
        while not self._past_sites & set(messages) <= set(nodes) and time.monotonic() < until:
            time.sleep(_LAST_LOOK)
            nodes = self._nodes()
        self._past_sites |= set(nodes)
        answers: dict[str, Message | Failure] = {
            name: Failure("its SuperNode is not connected") for name in messages if name not in nodes
        }
        names = {node: name for name, node in nodes.items() if name in messages}
        contents = {node: _pack(messages[name].to_bytes(), to=name) for node, name in names.items()}
        for node, answer in self._ask(contents, _QUERY, timeout):
            answers[names[node]] = _read_message(answer)
        late = Failure(f"no answer within {timeout:g} s")
        return {name: answers.get(name, late) for name in messages}

    def _nodes(self) -> dict[str, int]:
        """Return the node of each name."""
        given = {node.node_id: node.name for node in self._grid.get_nodes()}
        unknown = [node for node, name in given.items() if not name and node not in self._names]
        for node, answer in self._ask({node: _pack(b"") for node in unknown}, NAME, _ASK_NAME):
            if isinstance(answer, bytes):
                self._names[node] = answer.decode("utf-8", "replace")
        named: dict[str, list[int]] = {}
        for node, name in given.items():
            if name or node in self._names:
                named.setdefault(name or self._names[node], []).append(node)
        return {name: nodes[0] for name, nodes in named.items() if len(nodes) == 1}

    def _ask(
        self, contents: Mapping[int, RecordDict], kind: str, timeout: float
    ) -> Iterator[tuple[int, bytes | Failure]]:
        """Yield (node, bytes or Failure) as answers arrive, until all have arrived or the time is over.

        Flower's ``send_and_receive`` would only check for answers every three seconds. Messages expire when the time is
        over, because the answers would come too late.
        """
        if not contents:
            return
        until = time.monotonic() + timeout
        parcels = [Parcel(content, node, kind, ttl=timeout) for node, content in contents.items()]
        waiting: dict[str, int] = {}
        for identifier, node in zip_longest(self._grid.push_messages(parcels), contents):
            if identifier:
                waiting[identifier] = node
            else:
                yield node, Failure("the SuperLink did not accept the message to this site")
        pause = _FIRST_LOOK
        while waiting and time.monotonic() < until:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    yield node, _unpack(reply)
            if waiting:
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                pause = min(_LAST_LOOK, 1.2 * pause)


def _read_message(answer: bytes | Failure) -> Message | Failure:
    if isinstance(answer, Failure):
        return answer
    try:
        return Message.from_bytes(answer)
    except MessageError as error:
        return Failure(str(error))


def _pack(content: bytes, to: str = "") -> RecordDict:
    array = Array(dtype="uint8", shape=(len(content),), stype=ACTION, data=content)
    return RecordDict({ACTION: ArrayRecord({ACTION: array}), "address": ConfigRecord({"to": to})})


def _unpack(parcel: Parcel) -> bytes | Failure:
    if parcel.has_error():
        return Failure(f"Flower reports: {join_lines(parcel.error.reason)[:300]}")
    try:
        array = parcel.content.array_records[ACTION][ACTION]
    except (KeyError, ValueError):
        return Failure("the answer does not hold a message of unpooled: it is from another app")
    return array.data


def _serve_study(grid: Grid, context: Context) -> None:
    """Run the study of the folder in the app's configuration, or serve the relay of a :class:`FlowerEngine`.

    Errors that end a study are raised, because Flower would otherwise report the run as completed and not as failed.
    """
    if address := context.run_config.get("relay"):
        serve_relay(str(address), GridTransport(grid))
        return
    folder = Path(str(context.run_config["study"]))
    study = read_study(folder)
    print(study.describe(), flush=True)
    record = run_study(study, GridTransport(grid), folder / RESULTS, StatusPrinter())
    print(f"{record.outcome}: {folder / RESULTS / 'study.model'}", flush=True)


class StatusPrinter:
    """Prints a line for each change of a study's status, which ``flwr run --stream`` and ``flwr log`` show."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, status: Status) -> None:
        if str(status) != self._last:
            self._last = str(status)
            print(self._last, flush=True)


def _answer(parcel: Parcel, context: Context) -> Parcel:
    """Return a site's answer; its own ``--node-config``, and never the server, determines its data, policy and keys."""
    content, to = _unpack(parcel), parcel.content.config_records["address"]["to"]
    if not isinstance(content, bytes):
        raise ValueError(content.reason)
    try:
        site = _site(context)
    except Exception as error:  # only the staff of the site may see the message
        print(f"error: {error}", file=sys.stderr, flush=True)
        answer = make_refusal(
            "the configuration of this site cannot be read; its node has printed the reason"
        ).to_bytes()
    else:
        other = f"this SuperNode is registered as {to}, but its folder belongs to {site.name}"
        answer = receive(site, content) if to == site.name else make_refusal(other).to_bytes()
    return Parcel(_pack(answer), reply_to=parcel)


def _tell_name(parcel: Parcel, context: Context) -> Parcel:
    """Return the site's name, for a node that was registered without one."""
    return Parcel(_pack(_site(context).name.encode()), reply_to=parcel)


def _site(context: Context) -> Site:
    folder = context.node_config.get("site")
    if not isinstance(folder, str):
        raise ValueError("the SuperNode does not know its site: give --node-config 'site=\"/path/of/its/folder\"'")
    return Site.from_folder(folder)


server_app, client_app = ServerApp(), ClientApp()
server_app.main()(_serve_study)
client_app.query(ACTION)(_answer)
client_app.query(f"{ACTION}_name")(_tell_name)


def make_own_client() -> Callable[[list[str]], None]:
    """Return Flower's ``flwr-clientapp``, which runs the app above instead of the code that a server sends.

    By itself Flower runs at every site whatever app the server sends, which would leave the site no decision. This
    function relies on two names that are not public in Flower; without them, nothing runs.
    """
    from flwr.supernode.cli import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp as runtime

    for name in ("install_from_fab", "get_load_client_app_fn"):
        if not hasattr(runtime, name):
            raise ImportError(
                f"this version of Flower has no {name}, so the server's code cannot be kept out: use an older version"
            )
    replaced: Any = runtime
    replaced.install_from_fab = lambda *_, **__: None
    replaced.get_load_client_app_fn = lambda *_, **__: lambda *_, **__: client_app

    def run(arguments: list[str]) -> None:
        sys.argv = [CLIENT_COMMAND, *arguments]
        flwr_clientapp()

    return run
