"""Masks that cancel and locks that open, made from secrets that every two members of an attempt share.

With X25519 and HKDF-SHA256, the sites i < j (by name) derive two secrets from their keys for the attempt. From each
secret, ChaCha20 makes a stream of words: the mask A(i, j), which nobody else ever learns, and the lock B(i, j). Site k
sends

    x_k + Σ_{j > k} A(k, j) - Σ_{i < k} A(i, k) + Σ_{j > k} B(k, j)  modulo 2¹²⁸.

Over all members the masks cancel, and Σ x + Σ_{i < j} B(i, j) remains, which reveals nothing yet. Once all messages
have arrived, members open their locks: i and j both know the secret of B(i, j), so all members except one are enough.
For each question a site opens the locks of one set of members only, so the server gets one sum.

A server may have to repeat an attempt without a site that did not answer. If the first attempt could be opened as well
(because the site was only late, or because the server lied about it), the two sums would differ by exactly the numbers
of that site. Every message is therefore locked, and a site notes for which members it first opens a question
(:class:`Locks`). It opens the same set of members again, which gives the same sum, but no other set.

The secrets depend on the study, the round and the attempt, on a digest of the question, on both names and on the whole
list of members with their keys. If sites were told different things, their masks do not cancel.

:class:`Member` is a site's side of a secure sum: it offers a key, sends its numbers masked and locked, and opens its
locks. The server's side is :func:`unmask`. docs/security.md says who learns what.
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
from .fixed_point import add, add_all, check_words, split_into_slices, subtract, sum_across
from .keys import (
    Attempt,
    Identity,
    Offer,
    SingleUseKeys,
    SiteStore,
    TrustError,
    add_own_key,
    check_hex,
    check_name,
    file_name,
    import_primitives,
    public_bytes,
)


class Locks:
    """The locks of the latest message of each study, and a note of each question that was opened."""

    def __init__(self, store: SiteStore) -> None:
        self._store = store

    def keep(self, site: str, members: Members, question: str, locks: dict[str, str]) -> None:
        """Store the locks of a message before it is sent; they replace those of the message before."""
        content = {
            "attempt": asdict(members.attempt),
            "asked": question,
            "members": sorted(members.keys),
            "locks": locks,
        }
        self._store.write(file_name(site, members.attempt.study, "lock"), json.dumps(content).encode())

    def open(self, site: str, attempt: Attempt) -> dict[str, str]:
        """Return the secrets of the locks of an attempt by the member they are shared with, or raise a TrustError."""
        content = self._store.read(file_name(site, attempt.study, "lock"))
        stored = None if content is None else json.loads(content)
        if stored is None or Attempt(**stored["attempt"]) != attempt:
            raise TrustError(
                f"{site} cannot open attempt {attempt}: it sent no message in it, or a later message since"
            )
        note = file_name(site, attempt.study, stored["asked"], "opened")
        members = ", ".join(stored["members"])
        if not self._store.claim(note, members.encode()):
            before = (self._store.read(note) or b"others").decode()
            if before != members:
                raise TrustError(
                    f"{site} has opened the sum over {before} for this question; the sum over {members} would reveal "
                    "the difference: ask the same members again, or start a new study"
                )
        return dict(stored["locks"])


FEWEST_MEMBERS = 3  #: with two members, each could compute the other's numbers from the sum


@dataclass(frozen=True)
class Members:
    """The members of an attempt, with every key checked against the pinned identities; made by :meth:`of`."""

    attempt: Attempt
    keys: dict[str, bytes]  #: by name, in order
    digest: str

    @classmethod
    def of(
        cls, attempt: Attempt, offers: Iterable[Offer], pinned: Mapping[str, str], fewest: int = FEWEST_MEMBERS
    ) -> Members:
        """Return the members with these offers; a TrustError names an offer that is wrong.

        ``pinned`` holds the public key of each site that this site trusts, by name, from its own configuration.
        """
        checked: dict[str, Offer] = {}
        for offer in offers:
            if offer.site in checked:
                raise TrustError(f"{offer.site} is listed twice among the members")
            if offer.site not in pinned:
                raise TrustError(f"{offer.site} is among the members, but no key is pinned for it")
            if offer.attempt != attempt:
                raise TrustError(f"the key of {offer.site} is for attempt {offer.attempt} and not for {attempt}")
            offer.check(pinned[offer.site])
            checked[offer.site] = offer
        if len(checked) < max(fewest, FEWEST_MEMBERS):
            raise TrustError(
                f"a secure sum needs at least {max(fewest, FEWEST_MEMBERS)} members here, but this one has "
                f"{len(checked)}"
            )
        names = sorted(checked)
        keys = {name: bytes.fromhex(checked[name].key) for name in names}
        if len(set(keys.values())) < len(names) or len({public_bytes(pinned[name]) for name in names}) < len(names):
            raise TrustError("two of the members have the same key: each needs its own")
        content = encode_canonical([[name, checked[name].key] for name in names])
        return cls(attempt, keys, hashlib.sha256(content).hexdigest())


def mask(
    words: np.ndarray, site: str, private: Any, members: Members, question: str
) -> tuple[np.ndarray, dict[str, str]]:
    """Return a site's words and their sum (one more row) under masks and locks, and the secrets of its locks."""
    words = check_words(words)
    if members.keys.get(site) != private.public_key().public_bytes_raw():
        raise TrustError(f"the key among the members for {site} is not the one it offered")
    hidden, locks = np.concatenate([words, sum_across(words)]), {}
    for peer, public in members.keys.items():
        if peer != site:
            mask_secret, lock_secret = _derive_secrets(private, public, site, peer, members, question)
            hidden = _apply_stream(hidden, mask_secret, add if site < peer else subtract)
            hidden = _apply_stream(hidden, lock_secret, add) if site < peer else hidden
            locks[peer] = lock_secret.hex()
    return hidden, locks


def unmask(messages: Mapping[str, np.ndarray], opened: Mapping[str, Mapping[str, str]]) -> np.ndarray:
    """Return the words of the sum, from the messages of all members and the locks that all except one have opened.

    The result is the exact sum; a wrong message, member or lock raises a TrustError.
    """
    total = add_all(messages[name] for name in sorted(messages))
    for pair in combinations(sorted(messages), 2):
        total = _apply_stream(total, _read_lock(pair, opened), subtract)
    if len(total) < 1 or not np.array_equal(sum_across(total[:-1]), total[-1:]):
        raise TrustError(
            "the masks do not cancel: a member is missing, members were told different things, or a message was changed"
        )
    return total[:-1]


def _read_lock(pair: tuple[str, str], opened: Mapping[str, Mapping[str, str]]) -> bytes:
    texts = [opened[one].get(other) for one, other in (pair, pair[::-1]) if one in opened]
    if not texts:
        raise TrustError(f"the sum is locked: {pair[0]} or {pair[1]} must open its locks")
    try:
        secrets = [check_hex(text, 32, "lock") for text in texts]
    except ValueError as error:
        raise TrustError(f"{pair[0]} or {pair[1]} has sent an invalid lock: {error}") from None
    if secrets[0] != secrets[-1]:
        raise TrustError(f"{pair[0]} and {pair[1]} have sent different secrets for the lock that they share")
    return secrets[0]


def _derive_secrets(
    private: Any, public: bytes, site: str, peer: str, members: Members, question: str
) -> tuple[bytes, bytes]:
    """Return the secrets of the mask and of the lock that two sites share."""
    attempt = members.attempt
    info = encode_canonical(
        ["unpooled masks 1", attempt.study, attempt.round, attempt.name, question, *sorted((site, peer))]
    )
    both = derive_secret(private, public, peer, bytes.fromhex(members.digest), info)
    return both[:32], both[32:]


def derive_secret(private: Any, public: bytes, peer: str, salt: bytes, info: bytes) -> bytes:
    """Return 64 bytes that the owner of a private X25519 key shares with the owner of a public one, by HKDF-SHA256."""
    try:
        secret = private.exchange(import_primitives("asymmetric.x25519").X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise TrustError(f"the key of {peer} is one of the weak keys that give no secret") from None
    hkdf = import_primitives("kdf.hkdf").HKDF
    return bytes(hkdf(algorithm=import_primitives("hashes").SHA256(), length=64, salt=salt, info=info).derive(secret))


def _apply_stream(words: np.ndarray, secret: bytes, combine: Any) -> np.ndarray:
    """Add the stream of the secret to the words, or subtract it."""
    ciphers = import_primitives("ciphers")
    # Each secret is used for one stream only, so the nonce may be constant.
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(secret, bytes(16)), mode=None).encryptor()
    result = np.empty_like(words)
    for part in split_into_slices(len(words)):
        stream = np.frombuffer(cipher.update(bytes(16 * (part.stop - part.start))), dtype="<u8")
        result[part] = combine(words[part], stream.reshape(-1, 2))
    return result


class Member:
    """A site as a member of secure sums.

    Parameters
    ----------
    name : the name by which the other sites know it
    identity : its own long-term key
    pinned : the public keys of the sites it trusts, by name, from its own configuration and never from a server
    folder : the folder for keys and notes; None keeps them in memory, so that a restart ends the attempt
    fewest : the fewest members of a sum that the site takes part in, whatever the server asks; at least 3
    """

    def __init__(
        self,
        name: str,
        identity: Identity,
        pinned: Mapping[str, str],
        folder: PathLike | None = None,
        fewest: int = FEWEST_MEMBERS,
    ) -> None:
        check_name(name, "the name of a site")
        if type(fewest) is not int or fewest < FEWEST_MEMBERS:
            raise ValueError(f"fewest must be a whole number of at least {FEWEST_MEMBERS}, got {quote(fewest)}")
        store = SiteStore(folder)
        self.name, self.fewest = name, fewest
        self._identity, self._pinned = identity, add_own_key(pinned, name, identity)
        self._keys, self._locks = SingleUseKeys(store), Locks(store)

    def offer(self, attempt: Attempt) -> Offer:
        """Return a new key for this attempt, for all other members: the first step."""
        return self._keys.offer(self._identity, self.name, attempt)

    def mask(self, attempt: Attempt, offers: Iterable[Offer], words: np.ndarray, question: str) -> np.ndarray:
        """Return the words of :class:`FixedPoint`, masked and locked, with one more row: the second step.

        ``question`` is a digest that the site itself makes of the question it answers, and of nothing else. It is the
        same at all members, and stays the same when an attempt is repeated.
        """
        members = Members.of(attempt, offers, self._pinned, self.fewest)
        if self.name not in members.keys:
            raise TrustError(f"{self.name} is not among the members, so its numbers do not belong in their sum")
        hidden, locks = mask(words, self.name, self._keys.take(self.name, attempt), members, question)
        self._locks.keep(self.name, members, question, locks)
        return hidden

    def open(self, attempt: Attempt) -> dict[str, str]:
        """Return the secrets of this site's locks, once the server has all messages: the third step."""
        return self._locks.open(self.name, attempt)
