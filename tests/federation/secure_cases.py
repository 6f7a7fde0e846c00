"""Consortia of sites that keep their keys in memory, and what a server does with their answers."""

import itertools

import numpy as np

from unpooled.federation.secure.keys import Attempt, Identity
from unpooled.federation.secure.masks import Member, unmask

_numbers = itertools.count()


def names_of(n):
    return [f"site {i}" for i in range(n)]


def identity(folder, name):
    return Identity.create(folder / f"{name} {next(_numbers)}.pem")


def consortium(folder, n, fewest=3, stored=False):
    """n members that have pinned one another."""
    identities = {name: identity(folder, name) for name in names_of(n)}
    pinned = {name: one.public for name, one in identities.items()}
    return {
        name: Member(name, one, pinned, folder / name if stored else None, fewest) for name, one in identities.items()
    }


def some(members, n):
    """The first n of them."""
    return {name: members[name] for name in names_of(n)}


def attempt(study=None, round=1):
    """A new one each time, of a study of its own where none is given."""
    number = next(_numbers)
    return Attempt(study or f"study {number}", round, f"attempt {number}")


def vectors(n, size, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 2**64, size=(size, 2), dtype=np.uint64) for name in names_of(n)}


def offers_of(members, this):
    return [member.offer(this) for member in members.values()]


def sent(members, this, words, asked="a question"):
    """Return the message of every member in an attempt of these members."""
    offers = offers_of(members, this)
    return {name: member.mask(this, offers, words[name], asked) for name, member in members.items()}


def opened(members, this):
    return {name: member.open(this) for name, member in members.items()}


def secure_total(members, words, this=None):
    this = this or attempt()
    return unmask(sent(members, this, words), opened(members, this))
