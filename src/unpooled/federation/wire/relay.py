"""A relay: a study's own process, a notebook perhaps, asks the sites through a process that the network runs.

The two processes talk over a socket in a folder that only their user may enter, and they send each other messages in
bytes.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..study.folder import StudyError
from .transport import Failure, Message, MessageError, Transport, as_array

PATIENCE = 120.0  # seconds in which the other end has to call back


class Line:
    """Messages over a socket: eight bytes that say how long one is, and then it."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._stream = end, end.makefile("rwb")

    def send(self, message: Message) -> None:
        """All of it."""
        content = message.to_bytes()
        self._stream.write(len(content).to_bytes(8, "big") + content)
        self._stream.flush()

    def receive(self) -> Message:
        """The next one; an EOFError where the other end has hung up."""
        start = self._stream.read(8)
        content = self._stream.read(int.from_bytes(start, "big")) if len(start) == 8 else b""
        if not content:
            raise EOFError("it has hung up")
        return Message.from_bytes(content)

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._end.close()


class Relay:
    """A transport in this process; :func:`relayed` is its other end."""

    def __init__(self) -> None:
        self._private = tempfile.TemporaryDirectory(prefix="unpooled-")
        self.address = str(Path(self._private.name) / "relay")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.address)
        self._listening.listen(1)
        self._line: Line | None = None

    def connect(self, patience: float = PATIENCE) -> None:
        """Wait until the other end calls."""
        self._listening.settimeout(patience)
        try:
            self._line = Line(self._listening.accept()[0])
        except TimeoutError:
            self.close()
            raise StudyError(f"the server's app did not call back within {patience:g} s: look at `flwr log`") from None

    def sites(self) -> list[str]:
        """The names of the sites that can be reached now."""
        return [str(name) for name in self._said(Message("sites")).header["sites"]]

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """As the other end's transport does it."""
        return _unbundled(self._said(_bundle("exchange", messages, timeout=timeout)))

    def close(self) -> None:
        """Let the other end go."""
        if self._line is not None:
            self._line.close()
            self._line = None
        self._listening.close()
        self._private.cleanup()

    def _said(self, message: Message) -> Message:
        if self._line is None:
            raise StudyError("the relay is closed: make a new engine to go on with the study")
        try:
            self._line.send(message)
            return self._line.receive()
        except (EOFError, OSError) as error:
            raise StudyError(f"the server's app is gone ({error}): look at `flwr log`, then run this again") from None


def relayed(address: str, transport: Transport) -> None:
    """Do for a :class:`Relay` what it asks, until it hangs up."""
    end = socket.socket(socket.AF_UNIX)
    end.connect(address)
    line = Line(end)
    try:
        while True:
            asked = line.receive()
            if asked.kind == "sites":
                line.send(Message("sites", {"sites": transport.sites()}))
                continue
            messages = {name: item for name, item in _unbundled(asked).items() if isinstance(item, Message)}
            line.send(_bundle("replies", transport.exchange(messages, float(asked.header["timeout"]))))
    except EOFError:
        return
    finally:
        line.close()


def _bundle(kind: str, messages: Mapping[str, Message] | Mapping[str, Message | Failure], **header: float) -> Message:
    """Messages by site in one message; failures go by their reason."""
    failures = {name: item.reason for name, item in messages.items() if isinstance(item, Failure)}
    whole = {name: item for name, item in messages.items() if isinstance(item, Message)}
    arrays = {str(number): as_array(item.to_bytes()) for number, item in enumerate(whole.values())}
    return Message(kind, {"names": list(whole), "failures": failures, **header}, arrays)


def _unbundled(bundle: Message) -> dict[str, Message | Failure]:
    found: dict[str, Message | Failure] = {
        name: Failure(str(reason)) for name, reason in bundle.header["failures"].items()
    }
    for number, name in enumerate(bundle.header["names"]):
        try:
            found[name] = Message.from_bytes(bundle.file(str(number)))
        except MessageError as error:
            found[name] = Failure(str(error))
    return found
