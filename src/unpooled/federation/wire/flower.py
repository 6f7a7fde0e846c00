"""Flower's side of a federation: only this file knows Flower's names. The rest speaks of sites, messages and bytes.

Only the Message API is used. A message of ours is one array of raw bytes in a RecordDict, so Flower cuts large ones
into chunks and sends what is the same for all sites once to its store.
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
from .transport import Failure, Message, MessageError, receive, refusal, relayed

CLIENT_COMMAND, EXEC_COMMAND = "flwr-clientapp", "flower-superexec"
ACTION = "unpooled"
QUERY, NAME = f"query.{ACTION}", f"query.{ACTION}_name"
ASK_NAME = 60.0  # seconds that a node without a registered name has to tell it
RESTART = 30.0  # seconds that a site which was there has to come back
FIRST_LOOK, LAST_LOOK = 0.1, 1.0  # seconds between two looks for answers, at first and after a while
# Flower's SuperNode. It waits three seconds whenever there is no message for it; between two messages of a study there
# is none for a moment, so every one of them would wait that long. Here it does not, and ends with the process of its
# site, whose number it is given.
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
    """Carries messages over the Grid that Flower hands to a ServerApp.

    A site is the SuperNode that was registered under its name (``flwr supernode register --name``); a node that has no
    name there is asked for it. Flower has authenticated the node by then; that the site is who it says is checked by
    its signature, above this.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._told: dict[int, str] = {}  # names that nodes were asked for
        self._seen: set[str] = set()  # sites that were connected at some time

    def sites(self) -> list[str]:
        """The names of the SuperNodes that are connected now; one that two of them claim is nobody's."""
        return sorted(self._nodes())

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """The answers that come within ``timeout`` seconds; what Flower reports of a node is a Failure of its site."""
        nodes, until = self._nodes(), time.monotonic() + min(timeout, RESTART)
        while not self._seen & set(messages) <= set(nodes) and time.monotonic() < until:
            time.sleep(LAST_LOOK)
            nodes = self._nodes()
        self._seen |= set(nodes)
        found: dict[str, Message | Failure] = {
            name: Failure("its SuperNode is not connected") for name in messages if name not in nodes
        }
        names = {node: name for name, node in nodes.items() if name in messages}
        contents = {node: _packed(messages[name].to_bytes(), to=name) for node, name in names.items()}
        for node, answer in self._ask(contents, QUERY, timeout):
            found[names[node]] = _opened(answer)
        late = Failure(f"no answer within {timeout:g} s")
        return {name: found.get(name, late) for name in messages}

    def _nodes(self) -> dict[str, int]:
        """The node of each name."""
        given = {node.node_id: node.name for node in self._grid.get_nodes()}
        unknown = [node for node, name in given.items() if not name and node not in self._told]
        for node, answer in self._ask({node: _packed(b"") for node in unknown}, NAME, ASK_NAME):
            if isinstance(answer, bytes):
                self._told[node] = answer.decode("utf-8", "replace")
        named: dict[str, list[int]] = {}
        for node, name in given.items():
            if name or node in self._told:
                named.setdefault(name or self._told[node], []).append(node)
        return {name: nodes[0] for name, nodes in named.items() if len(nodes) == 1}

    def _ask(
        self, contents: Mapping[int, RecordDict], kind: str, timeout: float
    ) -> Iterator[tuple[int, bytes | Failure]]:
        """(node, bytes or Failure) as they come, until all have or the time is over.

        Not with ``send_and_receive``, which looks every three seconds. What is late is not delivered any more: it
        would be worked on in vain.
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
                yield node, Failure("the SuperLink did not take the message for it")
        pause = FIRST_LOOK
        while waiting and time.monotonic() < until:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    yield node, _unpacked(reply)
            if waiting:
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                pause = min(LAST_LOOK, 1.2 * pause)


def _opened(answer: bytes | Failure) -> Message | Failure:
    if isinstance(answer, Failure):
        return answer
    try:
        return Message.from_bytes(answer)
    except MessageError as error:
        return Failure(str(error))


def _packed(content: bytes, to: str = "") -> RecordDict:
    array = Array(dtype="uint8", shape=(len(content),), stype=ACTION, data=content)
    return RecordDict({ACTION: ArrayRecord({ACTION: array}), "address": ConfigRecord({"to": to})})


def _unpacked(parcel: Parcel) -> bytes | Failure:
    if parcel.has_error():
        return Failure(f"Flower reports: {join_lines(parcel.error.reason)[:300]}")
    try:
        array = parcel.content.array_records[ACTION][ACTION]
    except (KeyError, ValueError):
        return Failure("the answer is not from this app: it holds no message of unpooled")
    return array.data


def _served(grid: Grid, context: Context) -> None:
    """The study of the folder that the app's configuration names; or a relay for a :class:`FlowerEngine` elsewhere.

    What ends a study is raised: Flower would say "completed" of a run whose sites are all gone, and says "failed" then.
    """
    if address := context.run_config.get("relay"):
        relayed(str(address), GridTransport(grid))
        return
    folder = Path(str(context.run_config["study"]))
    study = read_study(folder)
    print(study.describe(), flush=True)
    record = run_study(study, GridTransport(grid), folder / RESULTS, Told())
    print(f"{record.outcome}: {folder / RESULTS / 'study.model'}", flush=True)


class Told:
    """Says how far a study is, a line a change, where ``flwr run --stream`` and ``flwr log`` show it."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, status: Status) -> None:
        if str(status) != self._last:
            self._last = str(status)
            print(self._last, flush=True)


def _answered(parcel: Parcel, context: Context) -> Parcel:
    """A site's answer. Where its data, policy and keys are, its own ``--node-config`` says, and never the server."""
    content, to = _unpacked(parcel), parcel.content.config_records["address"]["to"]
    if not isinstance(content, bytes):
        raise ValueError(content.reason)
    try:
        site = _site(context)
    except Exception as error:  # whose words are for the people of the site alone
        print(f"error: {error}", file=sys.stderr, flush=True)
        answer = refusal("the configuration of this site cannot be read; what its node printed says why").to_bytes()
    else:
        other = f"this SuperNode is registered as {to}, and its folder is that of {site.name}"
        answer = receive(site, content) if to == site.name else refusal(other).to_bytes()
    return Parcel(_packed(answer), reply_to=parcel)


def _named(parcel: Parcel, context: Context) -> Parcel:
    """The site's name, for a server that has not registered it under one."""
    return Parcel(_packed(_site(context).name.encode()), reply_to=parcel)


def _site(context: Context) -> Site:
    folder = context.node_config.get("site")
    if not isinstance(folder, str):
        raise ValueError("the SuperNode was not told where its site is: --node-config 'site=\"/path/of/its/folder\"'")
    return Site.from_folder(folder)


server_app, client_app = ServerApp(), ClientApp()
server_app.main()(_served)
client_app.query(ACTION)(_answered)
client_app.query(f"{ACTION}_name")(_named)


def own_client() -> Callable[[list[str]], None]:
    """Flower's ``flwr-clientapp``, with the app above in the place of the code that a server sends along.

    Flower runs at every site whatever app a run brings, which would leave nothing to decide to the site. This stands on
    two names that are not Flower's public ones: where they are gone, nothing runs.
    """
    from flwr.supernode.cli import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp as runtime

    for name in ("install_from_fab", "get_load_client_app_fn"):
        if not hasattr(runtime, name):
            raise ImportError(f"this Flower has no {name}, so the server's code cannot be kept out: use an older one")
    replaced: Any = runtime
    replaced.install_from_fab = lambda *_, **__: None
    replaced.get_load_client_app_fn = lambda *_, **__: lambda *_, **__: client_app

    def run(arguments: list[str]) -> None:
        sys.argv = [CLIENT_COMMAND, *arguments]
        flwr_clientapp()

    return run
