"""The keys that a site has pinned: one line for each name in ``pinned-keys.toml`` of the site's folder.

People exchange these keys once, in a way that they trust. A key that differs from the pinned one is either a slip or
somebody who pretends to be the other site, so it replaces the pinned key only if a person says so.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ..._base.files import open_atomic
from ..._base.text import quote
from ...gate import Log
from .keys import TrustError, check_name, public_bytes

PINNED_NAME = "pinned-keys.toml"
KEY_NAME = "site.key"  #: the private key of the site itself

_HEADER = """\
# The keys of the sites that this site trusts, its own among them. People told each other these lines in a way that they
# trust: in person, by telephone, on paper. `unpooled keys pin NAME KEY` adds one, and replaces one only if told to.

"""


def read_pinned(folder: Path) -> dict[str, str]:
    """Return the keys in a site's folder by name; no file is no keys."""
    path = folder / PINNED_NAME
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise TrustError(f"the pinned keys in {path} are not TOML: {quote(str(error))}") from None
    for name, key in content.items():
        check_name(name, f"a name in {path}")
        public_bytes(key)
    return content


def write_pinned(folder: Path, keys: Mapping[str, str]) -> None:
    """Write the keys of a site's folder."""
    lines = [f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(key)}\n" for name, key in sorted(keys.items())]
    with open_atomic(folder / PINNED_NAME) as file:
        file.write((_HEADER + "".join(lines)).encode())


def pin_key(
    folder: Path, known: Mapping[str, str], name: str, key: str, log: Log | None, *, replace: bool = False, by: str = ""
) -> str | None:
    """Pin a key in a site's folder, log it, and return the key that it replaces.

    Parameters
    ----------
    folder : of the site
    known : the keys that the site knows, by name
    name, key : the site and its key
    log : the site's log, which has the entry before the key is pinned
    replace : whether another key of this name may be replaced
    by : the person who pins it
    """
    before = _check_pin(known, name, key, replace)
    if before is None and name in known:
        return None
    if log is not None:
        event = {"what": "pinned", "site": name, "key": key, "by": by}
        log.append(event if before is None else {**event, "replaces": before})
    write_pinned(folder, {**read_pinned(folder), name: key})
    return before


def _check_pin(known: Mapping[str, str], name: str, key: str, replace: bool = False) -> str | None:
    """Check that a key may be pinned for a name beside the known ones, and return the key that it replaces.

    Raises a TrustError if the name has another key and ``replace`` is False, or if the key is pinned for another name.
    """
    check_name(name, "the name of a site")
    raw = public_bytes(key)
    for other, pinned in known.items():
        if other != name and public_bytes(pinned) == raw:
            raise TrustError(f"this key is pinned for {other} already, and every site has a key of its own")
    before = known.get(name)
    if before is None or public_bytes(before) == raw:
        return None
    if not replace:
        raise TrustError(
            f"another key is pinned for {name}: ask its people, in a way that you trust, whether they made a new one, "
            "and replace it only then"
        )
    return before
