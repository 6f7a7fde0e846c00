"""Messages between a server and its sites, and what carries them: this process, Flower's network, or a relay to it.

A message is a kind, a JSON header and arrays, in the container of :mod:`unpooled._base.files`. In front of the
container stand the 32 bytes of its SHA-256. So a message that differs in any bit from the one that was sent is refused
before anything of it is read; whether it is from whom it says is the business of TLS and of keys.

With a relay a study's own process, a notebook perhaps, asks the sites through a process that the network runs. The two
processes talk over a socket in a folder that only their user may enter, and send each other messages in bytes.
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

FORMAT = 1  # of what the headers say, apart from the container's
_HASH = 32


class MessageError(ValueError):
    """A message that was damaged on its way, or is none."""


@dataclass(frozen=True)
class Message:
    """What travels between the server and a site.

    A message is not changed once it is made: its bytes are made when they are first asked for and kept, and one that
    was received keeps those it came in.

    Attributes
    ----------
    kind : what is asked or answered
    header : what JSON can hold
    arrays : numbers, or the bytes of files, by name
    """

    kind: str
    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    _bytes: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def to_bytes(self) -> bytes:
        """Return the message as it travels."""
        if self._bytes is None:
            header = {"message": FORMAT, "says": self.kind, "content": self.header}
            content = files.to_bytes("message", header, self.arrays)
            object.__setattr__(self, "_bytes", hashlib.sha256(content).digest() + content)
        assert self._bytes is not None
        return self._bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """The inverse; a MessageError says in a sentence what is wrong."""
        if not isinstance(data, bytes) or len(data) <= _HASH:
            raise MessageError("the message is too short to be one: it was cut off")
        content = data[_HASH:]
        if hashlib.sha256(content).digest() != data[:_HASH]:
            raise MessageError("the message was damaged on its way: it does not match its SHA-256")
        try:
            header, arrays = files.from_bytes(content, "the message", is_verified=True)
        except files.FileError as error:
            raise MessageError(str(error)) from None
        kind, inner = header.get("says"), header.get("content")
        if header.get("kind") != "message" or not isinstance(kind, str) or not isinstance(inner, dict):
            raise MessageError("the message is a file of unpooled, but no message")
        if header.get("message") != FORMAT:
            raise MessageError(
                f"the message has format {header.get('message')!r} and this unpooled reads {FORMAT}: use one version of"
                " unpooled everywhere"
            )
        for array in arrays.values():
            array.flags.writeable = False
        found = cls(kind, inner, arrays)
        object.__setattr__(found, "_bytes", data)
        return found

    def file(self, name: str) -> bytes:
        """The bytes of a file that the message carries."""
        array = self.arrays.get(name)
        if array is None or array.dtype != np.uint8 or array.ndim != 1:
            raise MessageError(f"the message {self.kind!r} lacks the file {name!r}")
        return array.tobytes()


def as_array(content: bytes) -> np.ndarray:
    """The bytes of a file as an array, for a message to carry."""
    return np.frombuffer(content, dtype=np.uint8)


def as_file(content: bytes, read: Callable[[Path], Any]) -> Any:
    """What ``read`` makes of a file with this content."""
    with tempfile.TemporaryDirectory(prefix="unpooled-") as folder:
        place = Path(folder) / "content"
        place.write_bytes(content)
        return read(place)


@dataclass(frozen=True)
class Failure:
    """A site that gave no usable answer.

    Attributes
    ----------
    reason : why, in a few words
    """

    reason: str


class Transport(Protocol):
    """Carries a message to each of several sites, and brings the answers back."""

    def sites(self) -> list[str]:
        """The names of the sites that can be reached now."""

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """An answer or a Failure for every site that a message is for, after at most ``timeout`` seconds.

        Parameters
        ----------
        messages : by the names of the sites
        timeout : in seconds

        Returns
        -------
        dict
            A :class:`Message` or a :class:`Failure` a site.
        """


class AnsweringSite(Protocol):
    """A site, as far as a transport knows it."""

    @property
    def name(self) -> str:
        """By which the others know it."""

    def answer(self, message: Message) -> Message:
        """The answer; never an exception."""


class LostMessage(Exception):
    """A message that gets lost on its way; raised by the hook of :class:`InProcess`."""


Hook = Callable[[str, str, bytes], bytes]


class InProcess:
    """Sites that live in this process, for tests, examples and rehearsals; messages go through bytes both ways.

    Parameters
    ----------
    sites : Site objects
    hook : function or None
        ``hook(site, way, content)`` sees all bytes, ``way`` is "request" or "reply". It may return others, wait, or
        raise :class:`LostMessage`: a site that is killed, late, or at the end of a bad line.
    """

    def __init__(self, sites: Iterable[AnsweringSite], hook: Hook | None = None) -> None:
        self._sites = {site.name: site for site in sites}
        self.hook = hook

    def sites(self) -> list[str]:
        """All of them."""
        return sorted(self._sites)

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """Every site in a thread of its own, which is left behind where it is late."""
        found: dict[str, Message | Failure] = {}
        lock = threading.Lock()
        open_ = True

        def ask(name: str, message: Message) -> None:
            answer = self._ask(name, message)
            with lock:
                if open_:
                    found[name] = answer

        threads = [
            threading.Thread(target=ask, args=(name, message), daemon=True) for name, message in messages.items()
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        with lock:
            open_ = False
            late = Failure(f"no answer within {timeout:g} s")
            return {name: found.get(name, late) for name in messages}

    def _ask(self, name: str, message: Message) -> Message | Failure:
        if name not in self._sites:
            return Failure("there is no such site")
        try:
            request = self._pass_through_hook(name, "request", message.to_bytes())
            # What arrives damaged at a site is answered like any other message: with a refusal.
            reply = receive(self._sites[name], request)
            return Message.from_bytes(self._pass_through_hook(name, "reply", reply))
        except LostMessage as lost:
            return Failure(str(lost) or "the site did not answer")
        except MessageError as error:
            return Failure(str(error))

    def _pass_through_hook(self, name: str, way: str, content: bytes) -> bytes:
        return content if self.hook is None else self.hook(name, way, content)


def receive(site: AnsweringSite, content: bytes) -> bytes:
    """The bytes that a site answers to bytes; every transport ends in this."""
    try:
        message = Message.from_bytes(content)
    except MessageError as error:
        return make_refusal(str(error)).to_bytes()
    return site.answer(message).to_bytes()


def make_refusal(reason: str, **header: object) -> Message:
    """A site's no, with a sentence that says why."""
    return Message("refusal", {"reason": reason, **header})


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
    """A transport in this process; :func:`serve_relay` is its other end."""

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
        return [str(name) for name in self._ask(Message("sites")).header["sites"]]

    def exchange(self, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | Failure]:
        """As the other end's transport does it."""
        return _unbundle(self._ask(_bundle("exchange", messages, timeout=timeout)))

    def close(self) -> None:
        """Let the other end go."""
        if self._line is not None:
            self._line.close()
            self._line = None
        self._listening.close()
        self._private.cleanup()

    def _ask(self, message: Message) -> Message:
        if self._line is None:
            raise StudyError("the relay is closed: make a new engine to go on with the study")
        try:
            self._line.send(message)
            return self._line.receive()
        except (EOFError, OSError) as error:
            raise StudyError(f"the server's app is gone ({error}): look at `flwr log`, then run this again") from None


def serve_relay(address: str, transport: Transport) -> None:
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
            messages = {name: item for name, item in _unbundle(asked).items() if isinstance(item, Message)}
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


def _unbundle(bundle: Message) -> dict[str, Message | Failure]:
    found: dict[str, Message | Failure] = {
        name: Failure(str(reason)) for name, reason in bundle.header["failures"].items()
    }
    for number, name in enumerate(bundle.header["names"]):
        try:
            found[name] = Message.from_bytes(bundle.file(str(number)))
        except MessageError as error:
            found[name] = Failure(str(error))
    return found
