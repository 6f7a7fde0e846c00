"""A site's side of a secure sum: it offers a key, sends its numbers masked and locked, and opens.

The server's side is :func:`unpooled.federation.masks.unmasked`. docs/security.md says who learns what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..files import PathLike
from ..messages import shown
from .drawer import Drawer
from .keys import Identity, NotTrusted, public_bytes
from .locks import Locks
from .masks import FEWEST, Members, masked
from .single_use import Attempt, Offer, SingleUseKeys, check_name


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
            raise ValueError(f"fewest must be a whole number, {FEWEST} or more, got {shown(fewest)}")
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
