"""The site's policy: a TOML file that the site owns and that says which sums may leave. In doubt, a file stays.

The text of the template explains every rule of the file to the people who own the data.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .._base.text import quote
from .facts import Release


def _fill_template(rules: Mapping[str, Any]) -> str:
    """Fill the text of the file with values."""
    return _TEXT.format(**{name: _toml(value) for name, value in rules.items()})


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


_TEXT = """\
# What may leave this site. This file is yours: it is read here whenever a summary is made, and it is never sent.
# A summary holds sums over all your records and no record. These rules keep it from saying much about any one of them.
# A file that breaks a rule is not written, and the log says why. If you delete a rule, its default value applies.

# "always": a file that keeps all the rules may leave. "ask": a person must also say yes each time. "never": nothing
# leaves.
approve = {approve}

# The fewest records that may be added up.
minimum_rows = {minimum_rows}

# Order 1 sends one sum for each feature: how the outcome varies with that feature. Order 2 also sends one for each
# pair of features: it gives the better model, and says more about the records. [1] allows order 1 only.
orders = {orders}

# In a residual round you are sent a model, and you answer with sums of its errors on your records. true
# allows such rounds.
residual_rounds = {residual_rounds}

# Order 2 only: the most features for each record. With nearly as many features as records the sums can be turned back
# into the records. 0.2 means five records or more for each feature.
max_features_per_row = {max_features_per_row}

# The most numbers that may leave for each record, at any order. If more numbers leave than the records consist of, the
# records could be computed from them.
max_numbers_per_row = {max_numbers_per_row}

# The largest share that one record may have in the total of the outcome (its size, without the sign). If one bill
# were half of the total of all bills, the sum would reveal that bill. 0.2 means a fifth; for an outcome of yes (1) and
# no (0) at least five records must then say yes. In a residual round it is the share in the errors. The rule does not
# apply to a file with noise for differential privacy: the noise hides every record, and a refusal must not reveal what
# the noise hides.
max_label_share = {max_label_share}

# If a file of 100 records left yesterday and one of 101 leaves today, their difference is one record. Files that can
# be compared in this way must have the same number of records, or differ by at least this many. 1 switches the rule
# off. The rule compares only the numbers of records: it does not notice if one record was exchanged for another.
minimum_difference = {minimum_difference}

# The columns that may be predicted, such as ["length_of_stay"]. Empty: any.
targets = {targets}

# The digests of the bases that may be used, as "unpooled inspect" shows them. Empty: any.
bases = {bases}

# "required": only files with noise added for differential privacy may leave. The other rules hold for those as well.
privacy = {privacy}

# The largest ε that one file with noise may have: the smaller, the more noise. inf allows any. A ledger
# limits what all files together may cost: see "unpooled ledger create".
max_epsilon = {max_epsilon}

# The largest δ that one file with noise may have, the probability that the promise fails: it should be far below one
# divided by the number of records.
max_delta = {max_delta}
"""


POLICY_NAME = "unpooled-policy.toml"


class PolicyError(ValueError):
    """A policy that cannot be read, or has a rule that cannot be applied."""


@dataclass(frozen=True)
class Policy:
    """The rules about what may leave a site; the template explains each of them.

    Parameters
    ----------
    approve : "always", "ask" or "never"
    minimum_rows : the fewest records that may be added up
    orders : the orders of summaries that may leave
    residual_rounds : whether sums of a model's errors may leave
    max_features_per_row, max_numbers_per_row : the most features, at order 2, and numbers for each record
    max_label_share : the largest share of one record in the total of the outcome
    minimum_difference : the fewest records by which files that can be compared must differ, if they differ
    targets : columns that may be predicted; empty is any
    bases : digests of bases that may be used; empty is any
    privacy : "optional" or "required"
    max_epsilon, max_delta : the largest ε and δ of one file with noise
    """

    approve: str = "always"
    minimum_rows: int = 20
    orders: tuple[int, ...] = (1, 2)
    residual_rounds: bool = True
    max_features_per_row: float = 0.2
    max_numbers_per_row: float = 10.0
    max_label_share: float = 0.2
    minimum_difference: int = 10
    targets: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    privacy: str = "optional"
    max_epsilon: float = math.inf
    max_delta: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
            elif type(value) is int and field.type == "float":
                object.__setattr__(self, field.name, float(value))
            wrong = _describe_rule(field.name, getattr(self, field.name))
            if wrong:
                raise PolicyError(f"{field.name} must be {wrong}, got {quote(value)}")

    @classmethod
    def default(cls) -> Policy:
        """Return the policy of a site that has written none."""
        return cls()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a policy from a file; missing rules have their defaults. A PolicyError says what is wrong with it."""
        name = os.fspath(path)
        try:
            content = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
        except OSError as error:
            raise PolicyError(
                f"the policy {name} cannot be read ({error.strerror}), and nothing leaves without it"
            ) from None
        except (ValueError, RecursionError) as error:
            raise PolicyError(
                f"the policy {name} is not valid TOML ({' '.join(str(error).split())}): correct that line"
            ) from None
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(content) - set(known))
        if unknown:
            raise PolicyError(
                f"the policy {name} has unknown rules: {', '.join(unknown)}; the rules are {', '.join(known)}"
            )
        try:
            return cls(**content)
        except PolicyError as error:
            raise PolicyError(f"the policy {name} has a rule that cannot be applied: {error}") from None

    @staticmethod
    def write_template(path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the default policy with every rule explained, for the site to edit."""
        name = os.fspath(path)
        try:
            with open(path, "w" if overwrite else "x", encoding="utf-8", newline="\n") as file:
                file.write(_fill_template({field.name: getattr(Policy(), field.name) for field in fields(Policy)}))
        except FileExistsError:
            raise PolicyError(f"{name} exists already: edit it, or allow it to be overwritten") from None
        except OSError as error:
            raise PolicyError(f"{name} cannot be written ({error.strerror}): choose another place") from None

    @property
    def asks(self) -> bool:
        """Whether a person must approve a release that satisfies all the rules."""
        return self.approve == "ask"

    def refusals(self, release: Release, earlier: Sequence[Release] = ()) -> list[str]:
        """List the reasons why a release may not leave, given the ``earlier`` ones; the list is empty if it may."""
        doubts = list(release.doubts())
        if doubts:  # the rules below compare these facts
            return [f"{doubt}, and in doubt a file stays here" for doubt in doubts]
        reasons = []
        if self.approve == "never":
            reasons.append('the policy says approve = "never": nothing leaves this site')
        n = release.n_rows
        if n < self.minimum_rows:
            reasons.append(f"there are {_count(n, 'row')}, but at least {self.minimum_rows} must be added up")
        if release.kind != "scores":
            reasons += self._check_orders(release)
        if n and release.numbers / n > self.max_numbers_per_row:
            reasons.append(
                f"{_count(release.numbers, 'number')} would leave for {_count(n, 'row')}, but at most "
                f"{self.max_numbers_per_row:g} per row are allowed: so many sums of so few records can be solved for "
                "the records; use a basis with fewer features"
            )
        if release.largest_label_share > self.max_label_share:
            reasons.append(
                f"one record has {100 * release.largest_label_share:.3g}% of the total of the labels, but at most "
                f"{100 * self.max_label_share:.3g}% is allowed: the sum would reveal that record"
            )
        reasons += self._check_lists(release)
        reasons += self.list_privacy_refusals(release.private)
        for other in earlier:
            apart = abs(other.n_rows - n)
            if 0 < apart < self.minimum_difference and _comparable(release, other):
                reasons.append(
                    f"a file of {_count(other.n_rows, 'row')} left before with the same basis, but this one has {n}: "
                    f"the difference would reveal {_count(apart, 'record')}; it must be 0 or at least "
                    f"{self.minimum_difference}; send the same rows as before, or wait for more"
                )
                break
        return reasons

    def list_privacy_refusals(self, private: Mapping[str, Any] | None) -> list[str]:
        """List the reasons why a guarantee, or none, is not enough, before anything is spent or summed."""
        if private is None:
            said = 'no noise was added, but the policy says privacy = "required": ask for differential privacy'
            return [said] if self.privacy == "required" else []
        reasons = []
        for name, letter, most, any_ in (
            ("epsilon", "ε", self.max_epsilon, math.inf),
            ("delta", "δ", self.max_delta, 1.0),
        ):
            value = private.get(name)
            if most < any_ and not (isinstance(value, float) and value <= most):
                reasons.append(f"its {letter} is {quote(value)}, but at most {most:g} is allowed: ask for more noise")
        return reasons

    def _check_orders(self, release: Release) -> list[str]:
        n, M = release.n_rows, release.n_features
        reasons = []
        if release.order not in self.orders:
            allowed = " and ".join(map(str, self.orders))
            what = "a function fitted here counts as" if release.kind == "functions" else "the summary is of"
            reasons.append(f"{what} order {release.order}, but the policy allows order {allowed}")
        if release.is_residual and not self.residual_rounds:
            reasons.append("this is a residual round, but the policy does not allow residual rounds")
        if release.order >= 2 and n and M / n > self.max_features_per_row:
            most = math.floor(self.max_features_per_row * n)
            reasons.append(
                f"the summary is of order {release.order} with {_count(M, 'feature')} for {_count(n, 'row')}, and "
                f"at most {self.max_features_per_row:g} per row are allowed: a second-order summary of few rows can be "
                f"turned back into the rows; use a basis with at most {_count(most, 'feature')}, or order 1"
            )
        return reasons

    def _check_lists(self, release: Release) -> list[str]:
        reasons = []
        if self.targets:
            if not release.targets:
                reasons.append("the target has no name, and the policy lists the targets that are allowed")
            for name in release.targets:
                if name not in self.targets:
                    reasons.append(f"{name!r} may not be a target here; the policy allows {', '.join(self.targets)}")
        if self.bases and release.basis not in self.bases:
            reasons.append(f"the basis {release.basis} is not one of those that the policy lists")
        return reasons


def find_policy(near: str | os.PathLike[str]) -> Path | None:
    """Find the policy beside the data (a file or a folder), else in the working directory, else None.

    Parameters
    ----------
    near : the data's file or folder
    """
    near = Path(near)
    for folder in (near if near.is_dir() else near.parent, Path()):
        path = folder / POLICY_NAME
        if os.path.lexists(path):  # even a broken link: reading it fails, and nothing leaves
            return path
    return None


def _comparable(a: Release, b: Release) -> bool:
    """Whether the sums of two releases can be subtracted: the same labels, or at order 2 the same features."""
    if a.basis != b.basis:
        return False
    same_labels = not a.targets or not b.targets or bool(set(a.targets) & set(b.targets))
    return same_labels or (a.kind == b.kind == "summary" and min(a.order, b.order) >= 2)


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _describe_rule(name: str, value: Any) -> str | None:
    """Describe the values that a rule can have; None if the value is one of them."""
    if name in _CHOICES:
        choices = _CHOICES[name]
        return None if value in choices else " or ".join(f'"{choice}"' for choice in choices)
    if name in ("minimum_rows", "minimum_difference"):
        return None if type(value) is int and value >= 1 else "a whole number from 1"
    if name == "orders":
        good = isinstance(value, tuple) and value and all(type(order) is int and order in (1, 2) for order in value)
        return None if good else "a list of 1, 2 or both"
    if name == "residual_rounds":
        return None if type(value) is bool else "true or false"
    if name in ("targets", "bases"):
        good = isinstance(value, tuple) and all(isinstance(item, str) and item for item in value)
        return None if good else "a list of names"
    top = 1.0 if name in ("max_label_share", "max_delta") else math.inf
    good = type(value) is float and 0 < value <= top and (math.isfinite(value) or name == "max_epsilon")
    return None if good else "a number above 0" + (" and at most 1" if top == 1.0 else "")


_CHOICES = {"approve": ("always", "ask", "never"), "privacy": ("optional", "required")}
