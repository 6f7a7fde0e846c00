"""A site's node that misbehaves, or is watched: python benchmarks/federation_faults.py FAULT FOLDER."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from unpooled.federation import Message, Site
from unpooled.federation.wire import network

answer = Site.answer


def wrong_digest(site: Site, message: Message) -> Message:
    """It says that it answers another question."""
    reply = answer(site, message)
    return replace(reply, header={**reply.header, "statistic": "0" * 64}) if reply.kind == "answer" else reply


def wrong_shape(site: Site, message: Message) -> Message:
    """It sends a number less than was asked for."""
    reply = answer(site, message)
    return replace(reply, arrays={k: v[:-1] for k, v in reply.arrays.items()}) if reply.kind == "answer" else reply


def wrong_numbers(site: Site, message: Message) -> Message:
    """It changes its words after they were masked: the masks do not cancel any more."""
    reply = answer(site, message)
    if reply.kind == "answer":
        words = reply.arrays["words"].copy()
        words[0, 0] ^= 1
        return replace(reply, arrays={"words": words})
    return reply


def slow(site: Site, message: Message) -> Message:
    """It takes its time over the answer, so that it can be killed meanwhile."""
    if message.kind == "ask":
        (site.config.folder / "working").touch()
        time.sleep(20)
    return answer(site, message)


def quick_to_die(site: Site, message: Message) -> Message:
    """It says when its answer is gone, so that it can be killed then."""
    if message.kind == "open":
        (site.config.folder / "answered").touch()
        time.sleep(20)
    return answer(site, message)


def timed(site: Site, message: Message) -> Message:
    """No fault: it notes how long it worked on each answer."""
    start = time.monotonic()
    reply = answer(site, message)
    with open(site.config.folder / "seconds", "a") as notes:
        notes.write(f"{time.monotonic() - start}\n")
    return reply


if __name__ == "__main__":
    fault, folder = sys.argv[1:]
    Site.answer = globals()[fault.replace("-", "_")]  # type: ignore[method-assign]
    sys.exit(network.run_site(Path(folder)))
