"""A policy as a TOML file with every rule explained to the people who own the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def template(rules: Mapping[str, Any]) -> str:
    """The text of the file, with the given values."""
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
# A file that breaks a rule is not written, and the log says why. A rule that is missing here is as below.

# "always": what keeps all the rules may leave. "ask": a person must say yes each time as well. "never": nothing leaves.
approve = {approve}

# The fewest records that may be added up.
minimum_rows = {minimum_rows}

# Order 1 sends one sum for each feature: how the outcome goes with that feature. Order 2 also sends one for each pair
# of features: it gives the better model, and says more about the records. [1] allows order 1 only.
orders = {orders}

# In a residual round you are sent a model, and you answer with sums of its errors on your records. May there be any?
residual_rounds = {residual_rounds}

# Order 2 only: the most features for each record. With nearly as many features as records the sums can be turned back
# into the records. 0.2 means five records or more for each feature.
max_features_per_row = {max_features_per_row}

# The most numbers that may leave for each record, at any order. Where more numbers leave than the records are made of,
# they could be solved for the records.
max_numbers_per_row = {max_numbers_per_row}

# The largest share that one record may have in the total of the outcome (its size, without the sign). Were one bill
# half of all bills, the sum would show that bill. 0.2 means a fifth; an outcome of yes (1) and no (0) then needs at
# least five times yes. In a residual round it is the share in the errors. In a file with noise for differential privacy
# it is not looked at: the noise hides every record, and that a file is refused must not tell what the noise hides.
max_label_share = {max_label_share}

# If a file of 100 records left yesterday and one of 101 leaves today, their difference is one record. Files that can
# be compared so must have the same number of records, or differ by at least this many. 1 switches the rule off.
# It knows how many records there are, not which: it does not notice that one was exchanged for another.
minimum_difference = {minimum_difference}

# The columns that may be predicted, such as ["length_of_stay"]. Empty: any.
targets = {targets}

# The digests of the bases that may be used, as "unpooled inspect" shows them. Empty: any.
bases = {bases}

# "required": only files with noise added for differential privacy may leave. The other rules hold for those as well.
privacy = {privacy}

# The largest ε that one file with noise may have: the smaller, the more noise. inf allows any. What all files together
# may cost is the business of a ledger: see "unpooled ledger create".
max_epsilon = {max_epsilon}

# The same for δ, the probability that the promise fails: it should be far below one in the number of records.
max_delta = {max_delta}
"""
