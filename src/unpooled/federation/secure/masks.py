"""Masks that cancel and locks that open, from secrets that every two members of an attempt share.

From X25519 of their two keys for the attempt and HKDF-SHA256 the sites i < j (by name) have two secrets, and from each
of these ChaCha20 makes a stream of words: the mask A(i, j), which nobody else ever learns, and the lock B(i, j). Site k
sends

    x_k + Σ_{j > k} A(k, j) - Σ_{i < k} A(i, k) + Σ_{j > k} B(k, j)  modulo 2¹²⁸,

so that over all members the masks cancel and Σ x + Σ_{i < j} B(i, j) is left, of which nobody can make anything. Once
every message is there, members open their locks: i and j both know the secret of B(i, j), so all members but one are
enough. A site opens the locks of one set of members for a question, and of no other set afterwards, so the server gets
one sum.

A server may have to repeat an attempt without a site that fell silent. If the first attempt could be opened as well,
because the site was only late, or because the server only said that it was silent, the two sums would differ by just
that site's numbers. So every message is locked, and the first time a site opens it notes for which members
(:class:`Locks`); for the same question it opens no other set of members afterwards. The same set it does open again:
that gives the same sum.

The secrets depend on the study, round and attempt, on a digest of what is asked, on both names and on the whole list of
members with their keys: sites that were told different things have masks that do not cancel.

:class:`Member` is a site's side of a secure sum: it offers a key, sends its numbers masked and locked, and opens. The
server's side is :func:`unmasked`. docs/security.md says who learns what.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..._base.files import PathLike
from ..._base.plain_json import encode_canonical
from ..._base.text import quote
from .fixed_point import across, add, check_words, parts, subtract, total
from .keys import (
    Attempt,
    Drawer,
    Identity,
    NotTrusted,
    Offer,
    SingleUseKeys,
    _place,
    check_hex,
    check_name,
    primitives,
    public_bytes,
)


class Locks:
    """The locks of the latest message of each study, and what has been opened."""

    def __init__(self, drawer: Drawer) -> None:
        self._drawer = drawer

    def keep(self, site: str, members: Members, asked: str, locks: dict[str, str]) -> None:
        """Remember the locks of a message before it is sent; those of the message before are forgotten."""
        content = {"attempt": asdict(members.attempt), "asked": asked, "members": sorted(members.keys), "locks": locks}
        self._drawer.write(_place(site, members.attempt.study, "lock"), json.dumps(content).encode())

    def open(self, site: str, attempt: Attempt) -> dict[str, str]:
        """The secrets of the locks of an attempt, by the member they are shared with; or a NotTrusted."""
        content = self._drawer.read(_place(site, attempt.study, "lock"))
        kept = None if content is None else json.loads(content)
        if kept is None or Attempt(**kept["attempt"]) != attempt:
            raise NotTrusted(f"{site} has sent nothing in attempt {attempt}, or something since: nothing can be opened")
        note = _place(site, attempt.study, kept["asked"], "opened")
        members = ", ".join(kept["members"])
        if not self._drawer.claim(note, members.encode()):
            before = (self._drawer.read(note) or b"others").decode()
            if before != members:
                raise NotTrusted(
                    f"{site} has opened the sum over {before} for this question, and with that over {members} the"
                    " difference would be known: ask the same members again, or start a new study"
                )
        return dict(kept["locks"])


FEWEST = 3  #: with two members each would know the other's numbers from the sum


@dataclass(frozen=True)
class Members:
    """The members of an attempt, every key checked against the pinned identities. Make one with :meth:`of`."""

    attempt: Attempt
    keys: dict[str, bytes]  #: by name, in order
    digest: str

    @classmethod
    def of(cls, attempt: Attempt, offers: Iterable[Offer], pinned: Mapping[str, str], fewest: int = FEWEST) -> Members:
        """The members with these offers; a NotTrusted says which of them is wrong.

        ``pinned`` has the public identity of each site that this site trusts, by name, from its own configuration.
        """
        found: dict[str, Offer] = {}
        for offer in offers:
            if offer.site in found:
                raise NotTrusted(f"{offer.site} is twice among the members")
            if offer.site not in pinned:
                raise NotTrusted(f"{offer.site} is among the members, and no key is pinned for it")
            if offer.attempt != attempt:
                raise NotTrusted(f"the key of {offer.site} is for attempt {offer.attempt} and not for {attempt}")
            offer.check(pinned[offer.site])
            found[offer.site] = offer
        if len(found) < max(fewest, FEWEST):
            raise NotTrusted(
                f"a secure sum needs at least {max(fewest, FEWEST)} members here, and this one has {len(found)}"
            )
        names = sorted(found)
        keys = {name: bytes.fromhex(found[name].key) for name in names}
        if len(set(keys.values())) < len(names) or len({public_bytes(pinned[name]) for name in names}) < len(names):
            raise NotTrusted("two of the members have the same key: each needs its own")
        listed = encode_canonical([[name, found[name].key] for name in names])
        return cls(attempt, keys, hashlib.sha256(listed).hexdigest())


def masked(
    words: np.ndarray, site: str, private: Any, members: Members, asked: str
) -> tuple[np.ndarray, dict[str, str]]:
    """What a site sends: words and their sum (one row more) under masks and locks; and the secrets of its locks."""
    words = check_words(words)
    if members.keys.get(site) != private.public_key().public_bytes_raw():
        raise NotTrusted(f"the key among the members for {site} is not the one it offered")
    hidden, locks = np.concatenate([words, across(words)]), {}
    for peer, public in members.keys.items():
        if peer != site:
            mask, lock = _secrets(private, public, site, peer, members, asked)
            hidden = _with_stream(hidden, mask, add if site < peer else subtract)
            hidden = _with_stream(hidden, lock, add) if site < peer else hidden
            locks[peer] = lock.hex()
    return hidden, locks


def unmasked(messages: Mapping[str, np.ndarray], opened: Mapping[str, Mapping[str, str]]) -> np.ndarray:
    """The words of the sum, from what every member sent, and the locks that at least all but one have opened.

    Nothing comes out but the exact sum: where a message, a member or a lock is not right, a NotTrusted says so.
    """
    found = total(messages[name] for name in sorted(messages))
    for pair in combinations(sorted(messages), 2):
        found = _with_stream(found, _lock_of(pair, opened), subtract)
    if len(found) < 1 or not np.array_equal(across(found[:-1]), found[-1:]):
        raise NotTrusted(
            "the masks do not cancel: a member is missing, members were told different things, or a message was changed"
        )
    return found[:-1]


def _lock_of(pair: tuple[str, str], opened: Mapping[str, Mapping[str, str]]) -> bytes:
    said = [opened[one].get(other) for one, other in (pair, pair[::-1]) if one in opened]
    if not said:
        raise NotTrusted(f"the sum is locked: {pair[0]} or {pair[1]} must open its locks")
    try:
        secrets = [check_hex(secret, 32, "lock") for secret in said]
    except ValueError as error:
        raise NotTrusted(f"{pair[0]} or {pair[1]} has told no lock: {error}") from None
    if secrets[0] != secrets[-1]:
        raise NotTrusted(f"{pair[0]} and {pair[1]} say different things of the lock that they share")
    return secrets[0]


def _secrets(private: Any, public: bytes, site: str, peer: str, members: Members, asked: str) -> tuple[bytes, bytes]:
    """The secrets of the mask and of the lock that two sites share."""
    try:
        secret = private.exchange(primitives("asymmetric.x25519").X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise NotTrusted(f"the key of {peer} is of a kind that gives no secret") from None
    attempt = members.attempt
    info = encode_canonical(
        ["unpooled masks 1", attempt.study, attempt.round, attempt.name, asked, *sorted((site, peer))]
    )
    derivation = primitives("kdf.hkdf").HKDF(
        algorithm=primitives("hashes").SHA256(), length=64, salt=bytes.fromhex(members.digest), info=info
    )
    found = bytes(derivation.derive(secret))
    return found[:32], found[32:]


def _with_stream(words: np.ndarray, secret: bytes, combine: Any) -> np.ndarray:
    """words ± the stream of the secret."""
    ciphers = primitives("ciphers")
    # A secret is used for one stream only, so the nonce may be anything.
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(secret, bytes(16)), mode=None).encryptor()
    found = np.empty_like(words)
    for part in parts(len(words)):
        stream = np.frombuffer(cipher.update(bytes(16 * (part.stop - part.start))), dtype="<u8")
        found[part] = combine(words[part], stream.reshape(-1, 2))
    return found


class Member:
    """A site as a member of secure sums.

    Parameters
    ----------
    name : by which the others know it
    identity : its own long-term key
    pinned : the public keys of the sites it trusts, by name, from its own configuration and never from a server
    folder : of the site, for what must survive a restart; None keeps it in memory, and a restart costs the attempt
    fewest : no sum over fewer members, whatever the server asks; at least 3
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        pinned: Mapping[str, str],
        folder: PathLike | None = None,
        fewest: int = FEWEST,
    ) -> None:
        check_name(name, "the name of a site")
        known = {site: public_bytes(public) for site, public in pinned.items()}
        if known.get(name, public_bytes(identity.public)) != public_bytes(identity.public):
            raise NotTrusted(f"the key pinned for {name} is not its own, which is {identity.public}")
        if type(fewest) is not int or fewest < FEWEST:
            raise ValueError(f"fewest must be a whole number, {FEWEST} or more, got {quote(fewest)}")
        drawer = Drawer(folder)
        self.name, self.fewest = name, fewest
        self._identity, self._pinned = identity, {**pinned, name: identity.public}
        self._keys, self._locks = SingleUseKeys(drawer), Locks(drawer)

    def offer(self, attempt: Attempt) -> Offer:
        """The first answer: a fresh key for this attempt, for all other members."""
        return self._keys.offer(self._identity, self.name, attempt)

    def masked(self, attempt: Attempt, offers: Iterable[Offer], words: np.ndarray, asked: str) -> np.ndarray:
        """The second: the words of :class:`FixedPoint`, masked and locked, one row more than they have.

        ``asked`` is a digest that the site itself makes of the question it answers, and of nothing else: it is the same
        at all members, and the same when an attempt is repeated.
        """
        members = Members.of(attempt, offers, self._pinned, self.fewest)
        if self.name not in members.keys:
            raise NotTrusted(f"{self.name} is not among the members, so nothing of it belongs in their sum")
        hidden, locks = masked(words, self.name, self._keys.take(self.name, attempt), members, asked)
        self._locks.keep(self.name, members, asked, locks)
        return hidden

    def open(self, attempt: Attempt) -> dict[str, str]:
        """The third, once the server has the messages of all members: the secrets of this site's locks."""
        return self._locks.open(self.name, attempt)
