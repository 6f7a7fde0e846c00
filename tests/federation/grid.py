"""A Grid in this process: every message goes through Flower's own serialisation, and no server, no Ray is needed."""

from __future__ import annotations

import threading
import uuid

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as Proto
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

LOST = object()


class InProcessGrid(Grid):
    """Calls a ClientApp for every message, in a thread a node.

    ``nodes`` has the configuration of each node by its registered name; one that starts with "?" is not registered.
    ``hook(name, way, content)`` sees the bytes of every message, "request" or "reply"; what it returns is delivered,
    and LOST is not.
    """

    def __init__(self, app, nodes, hook=None):
        self.app, self.hook = app, hook
        self.nodes = {10 + i: (name, dict(config)) for i, (name, config) in enumerate(nodes.items())}
        self.down = set()
        self._replies, self._lock = {}, threading.Lock()
        # The runtime sets these in its own processes; without them no Message can be made (since 1.38).
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1

    def get_nodes(self):
        up = {node: name for node, (name, _) in self.nodes.items() if name not in self.down}
        return [NodeInfo(node_id=node, name="" if name.startswith("?") else name) for node, name in up.items()]

    def get_node_ids(self):
        return [node.node_id for node in self.get_nodes()]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid.uuid4())
            ids.append(message.metadata.message_id)
            content = message_to_proto(message).SerializeToString()
            threading.Thread(target=self._deliver, args=(message.metadata.dst_node_id, content), daemon=True).start()
        return ids

    def pull_messages(self, message_ids):
        with self._lock:
            ready = [self._replies.pop(i) for i in list(message_ids) if i in self._replies]
        return [message_from_proto(Proto.FromString(content)) for content in ready]

    def _deliver(self, node, content):
        name, config = self.nodes[node]
        content = self._through(name, "request", content)
        if content is LOST:
            return
        message = message_from_proto(Proto.FromString(content))
        try:
            context = Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})
            reply = self.app(message, context)
        except Exception as error:  # as Flower's own runtime does
            reply = Message(Error(code=1, reason=repr(error)), reply_to=message)
        reply.metadata.__dict__["_message_id"] = str(uuid.uuid4())
        content = self._through(name, "reply", message_to_proto(reply).SerializeToString())
        if content is not LOST:
            with self._lock:
                self._replies[message.metadata.message_id] = content

    def _through(self, name, way, content):
        return content if self.hook is None else self.hook(name, way, content)

    def send_and_receive(self, messages, *, timeout=None):
        raise AssertionError("the transport looks for answers itself")

    def create_message(self, *args, **kwargs):
        raise AssertionError("deprecated by Flower")

    def set_run(self, run):
        raise AssertionError("there is no run")

    @property
    def run(self):
        raise AssertionError("there is no run")
