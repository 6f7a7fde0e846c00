"""Read the library's files by docs/format.md alone: no line of the library is used, so that none can hide a change."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors.numpy

SUFFIXES = (".model", ".basis", ".summary", ".candidates", ".scores", ".total")
MESSAGES = (".message", ".study")
CHAINS = (".ledger", ".jsonl", ".log")


class Broken(ValueError):
    """A file that is not what docs/format.md says."""


@dataclass(frozen=True)
class Container:
    """The header, the arrays, and everything else that the bytes say: the order and place of arrays."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    layout: dict[str, Any]


def read_container(content: bytes) -> Container:
    """Take a file apart; its SHA-256 must be the one that it names."""
    length = int.from_bytes(content[:8], "little")
    layout = json.loads(content[8 : 8 + length])
    text = layout.pop("__metadata__")["unpooled"]
    arrays = dict(sorted(safetensors.numpy.load(content).items()))
    sha = hashlib.sha256(text[11:-79].encode())
    for name, array in arrays.items():
        sha.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    found = json.loads(text)
    if sha.hexdigest() != found["sha256"]:
        raise Broken("its SHA-256 is not that of its content")
    if text != json.dumps(found, sort_keys=True, ensure_ascii=False):
        raise Broken("its header is not in canonical form")
    return Container(found["header"], arrays, layout)


def digest_of(one: Container) -> str:
    """Give the digest of a model, basis or candidates: the one in its header, or that of its content."""
    content = {name: value for name, value in one.header.items() if name not in ("format", "kind", "unpooled")}
    if "digest" in content:
        return str(content["digest"])
    sha = hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode())
    for name, array in one.arrays.items():
        sha.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return sha.hexdigest()


def read_message(content: bytes) -> Container:
    """Take a message apart: the SHA-256 of a container, and the container."""
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        raise Broken("its SHA-256 is not that of its content")
    return read_container(content[32:])


def read_chain(content: bytes) -> list[dict[str, Any]]:
    """Give the entries of a log or a ledger; each must follow from the one before."""
    entries, head = [], "0" * 64
    for number, line in enumerate(content.decode().splitlines()):
        entry = json.loads(line)
        inner = {name: value for name, value in entry.items() if name != "sha256"}
        sha256 = hashlib.sha256(_line(inner).encode()).hexdigest()
        if line != _line(entry):
            raise Broken(f"line {number + 1} is not in canonical form")
        if (entry["sequence"], entry["previous"], entry["sha256"]) != (number, head, sha256):
            raise Broken(f"line {number + 1} does not follow from the line before")
        entries.append(entry)
        head = sha256
    return entries


def _line(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
