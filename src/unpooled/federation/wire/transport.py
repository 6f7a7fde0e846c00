"""Messages between a server and its sites, and the transports for them: in one process, by Flower, or by a relay.

A message is a kind, a JSON header and arrays, in the container of :mod:`unpooled._base.files`, preceded by the 32 bytes
of its SHA-256. A message that differs in any bit from the one that was sent is therefore refused before its content is
read. TLS and keys ensure that the sender is who it claims to be.

With a relay, another process of the study, such as a notebook, asks the sites through a process that the network runs.
The two processes exchange messages over a socket in a folder that only their user may enter.
"""

from __future__ import annotations

import hashlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..._base import files
from ..study.folder import StudyError

FORMAT = 1  # the format of the headers; the container has a format of its own
_HASH = 32


class MessageError(ValueError):
    """A message that was damaged on its way, or bytes that are not a message."""


@dataclass(frozen=True)
class Message:
    """A message between the server and a site.

    A message never changes. Its bytes are made once, when they are first needed, and a message that was received keeps
    the bytes in which it came.

    Attributes
    ----------
    kind : the kind of question or answer
    header : the content for JSON
    arrays : numbers, or the bytes of files, by name
    """

    kind: str
    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    _bytes: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def to_bytes(self) -> bytes:
        """Return the bytes of the message."""
        if self._bytes is None:
            header = {"message": FORMAT, "says": self.kind, "content": self.header}
            content = files.to_bytes("message", header, self.arrays)
            object.__setattr__(self, "_bytes", hashlib.sha256(content).digest() + content)
        assert self._bytes is not None
        return self._bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """Return the message in these bytes; a MessageError says in one sentence what is wrong."""
        if not isinstance(data, bytes) or len(data) <= _HASH:
            raise MessageError("the message is too short: it was cut off")
        content = data[_HASH:]
        if hashlib.sha256(content).digest() != data[:_HASH]:
            raise MessageError("the message was damaged on its way: it does not match its SHA-256")
        try:
            header, arrays = files.from_bytes(content, "the message", is_verified=True)
        except files.FileError as error:
            raise MessageError(str(error)) from None
        kind, inner = header.get("says"), header.get("content")
        if header.get("kind") != "message" or not isinstance(kind, str) or not isinstance(inner, dict):
            raise MessageError("the content is a file of unpooled, but not a message")
        if header.get("message") != FORMAT:
            raise MessageError(
                f"the message has format {header.get('message')!r}, but this version of unpooled reads format {FORMAT}:"
                " use the same version everywhere"
            )
        for array in arrays.values():
            array.flags.writeable = False
        message = cls(kind, inner, arrays)
        object.__setattr__(message, "_bytes", data)
        return message

    def file(self, name: str) -> bytes:
        """Return the bytes of a file in the message."""
        array = self.arrays.get(name)
        if array is None or array.dtype != np.uint8 or array.ndim != 1:
            raise MessageError(f"the message of the kind {self.kind!r} lacks the file {name!r}")
        return array.tobytes()


def as_array(content: bytes) -> np.ndarray:
    """Return the bytes of a file as an array for a message."""
    return np.frombuffer(content, dtype=np.uint8)


def as_file(content: bytes, read: Callable[[Path], Any]) -> Any:
    """Return the result of ``read`` for a temporary file with this content."""
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        place = Path(folder) / "content"
        place.write_bytes(content)
        return read(place)


@dataclass(frozen=True)
class Failure:
    """The failure of a site to give a usable answer.

    Attributes
    ----------
    reason : the reason in a few words
    """

    reason: str


class Transport(Protocol):
    """A way to send messages to several sites and to get their answers."""

    def sites(self) -> list[str]:
        """Return the names of the sites that can be reached now."""

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """Return an answer or a Failure for every site that gets a message, after at most ``timeout`` seconds.

        Parameters
        ----------
        messages : the messages by the names of their sites
        timeout : the time limit in seconds

        Returns
        -------
        dict
            One :class:`Message` or :class:`Failure` per site.
        """


class AnsweringSite(Protocol):
    """The part of a site that a transport needs."""

    @property
    def name(self) -> str:
        """The name by which the other sites know it."""

    def answer(self, message: Message) -> Message:
        """Return the answer, and never raise an exception."""


class LostMessage(Exception):
    """A message that was lost on its way; the hook of :class:`InProcess` raises it."""


Hook = Callable[[str, str, bytes], bytes]


class InProcess:
    """A transport to sites in this process, for tests, examples and rehearsals; it turns all messages into bytes.

    Parameters
    ----------
    sites : Site objects
    hook : function or None
        ``hook(site, way, content)`` gets all bytes; ``way`` is "request" or "reply". To simulate a site that is killed,
        late or badly connected, it may return other bytes, wait, or raise :class:`LostMessage`.
    """

    def __init__(self, sites: Iterable[AnsweringSite], hook: Hook | None = None) -> None:
        self._sites = {site.name: site for site in sites}
        self.hook = hook

    def sites(self) -> list[str]:
        """Return the names of all sites."""
        return sorted(self._sites)

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """Ask every site in a thread of its own; a thread that is late is abandoned."""
        answers: dict[str, Message | Failure] = {}
        lock = threading.Lock()
        is_open = True

        def ask(name: str, message: Message) -> None:
            answer = self._ask(name, message)
            with lock:
                if is_open:
                    answers[name] = answer

        threads = [
            threading.Thread(target=ask, args=(name, message), daemon=True) for name, message in messages.items()
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        with lock:
            is_open = False
            late = Failure(f"no answer within {timeout:g} s")
            return {name: answers.get(name, late) for name in messages}

    def _ask(self, name: str, message: Message) -> Message | Failure:
        if name not in self._sites:
            return Failure("there is no such site")
        try:
            request = self._pass_through_hook(name, "request", message.to_bytes())
            # A site answers a damaged message with a refusal.
            reply = receive(self._sites[name], request)
            return Message.from_bytes(self._pass_through_hook(name, "reply", reply))
        except LostMessage as lost:
            return Failure(str(lost) or "the site did not answer")
        except MessageError as error:
            return Failure(str(error))

    def _pass_through_hook(self, name: str, way: str, content: bytes) -> bytes:
        return content if self.hook is None else self.hook(name, way, content)


def receive(site: AnsweringSite, content: bytes) -> bytes:
    """Return the bytes of a site's answer to the bytes of a message; every transport calls this at the site."""
    try:
        message = Message.from_bytes(content)
    except MessageError as error:
        return make_refusal(str(error)).to_bytes()
    return site.answer(message).to_bytes()


def make_refusal(reason: str, **header: object) -> Message:
    """Return a refusal with a sentence that gives the reason."""
    return Message("refusal", {"reason": reason, **header})


PATIENCE = 120.0  # seconds until the other process must have connected


class Line:
    """Messages over a socket, each preceded by its length in eight bytes."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._stream = end, end.makefile("rwb")

    def send(self, message: Message) -> None:
        """Send a message."""
        content = message.to_bytes()
        self._stream.write(len(content).to_bytes(8, "big") + content)
        self._stream.flush()

    def receive(self) -> Message:
        """Return the next message; raise an EOFError if the other process has closed the connection."""
        start = self._stream.read(8)
        content = self._stream.read(int.from_bytes(start, "big")) if len(start) == 8 else b""
        if not content:
            raise EOFError("the connection was closed")
        return Message.from_bytes(content)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self._end.close()


class Relay:
    """A transport through another process, which runs :func:`serve_relay`."""

    def __init__(self) -> None:
        self._private = tempfile.TemporaryDirectory(prefix="unpooled-")
        self.address = str(Path(self._private.name) / "relay")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.address)
        self._listening.listen(1)
        self._line: Line | None = None

    def connect(self, patience: float = PATIENCE) -> None:
        """Wait until the other process connects."""
        self._listening.settimeout(patience)
        try:
            self._line = Line(self._listening.accept()[0])
        except TimeoutError:
            self.close()
            raise StudyError(f"the server's app did not connect within {patience:g} s: look at `flwr log`") from None

    def sites(self) -> list[str]:
        """Return the names of the sites that can be reached now."""
        return [str(name) for name in self._ask(Message("sites")).header["sites"]]

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """Forwards each message to the other process and returns its replies."""
        return _unbundle(self._ask(_bundle("exchange", messages, timeout=timeout)))

    def close(self) -> None:
        """Close the connection to the other process."""
        if self._line is not None:
            self._line.close()
            self._line = None
        self._listening.close()
        self._private.cleanup()

    def _ask(self, message: Message) -> Message:
        if self._line is None:
            raise StudyError("the relay is closed: create a new engine to continue the study")
        try:
            self._line.send(message)
            return self._line.receive()
        except (EOFError, OSError) as error:
            raise StudyError(
                f"the server's app has stopped ({error}): look at `flwr log`, then run this again"
            ) from None


def serve_relay(address: str, transport: Transport) -> None:
    """Answer the requests of a :class:`Relay` until it closes the connection."""
    end = socket.socket(socket.AF_UNIX)
    end.connect(address)
    line = Line(end)
    try:
        while True:
            request = line.receive()
            if request.kind == "sites":
                line.send(Message("sites", {"sites": transport.sites()}))
                continue
            messages = {name: item for name, item in _unbundle(request).items() if isinstance(item, Message)}
            line.send(_bundle("replies", transport.exchange(messages, float(request.header["timeout"]))))
    except EOFError:
        return
    finally:
        line.close()


def _bundle(kind: str, messages: Mapping[str, Message] | Mapping[str, Message | Failure], **header: float) -> Message:
    """Return the messages of several sites in one message; a failure is represented by its reason."""
    failures = {name: item.reason for name, item in messages.items() if isinstance(item, Failure)}
    whole = {name: item for name, item in messages.items() if isinstance(item, Message)}
    arrays = {str(number): as_array(item.to_bytes()) for number, item in enumerate(whole.values())}
    return Message(kind, {"names": list(whole), "failures": failures, **header}, arrays)


def _unbundle(bundle: Message) -> dict[str, Message | Failure]:
    items: dict[str, Message | Failure] = {
        name: Failure(str(reason)) for name, reason in bundle.header["failures"].items()
    }
    for number, name in enumerate(bundle.header["names"]):
        try:
            items[name] = Message.from_bytes(bundle.file(str(number)))
        except MessageError as error:
            items[name] = Failure(str(error))
    return items
