"""What had another name at an earlier revision, for :mod:`golden.compare`: nothing else may differ.

Headers of models are translated by the table of the library (docs/format.md, format 2). A hash names a file or a model,
so the hash of a file on the old side stands for that of the file at the same place on the new side; what is in the
files is compared as well.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from golden.containers import SUFFIXES, Broken, Container, digest_of, read_container
from unpooled._base.renames import translate

#: entries of attributes.json and of the arguments of a regressor
ENTRIES = {
    "plan_": "schedule_",
    "center": "fit_intercept",
    "max_rounds": "max_iter",
    "local": "estimator",
}
#: entries that attributes.json has no longer: n_iter_ is a property of NystromRegressor, and its header is compared
GONE = ("n_rounds_",)
#: entries that are new, with the value that they have always had
ADDED = {"verbose": 0}
#: the default of the regressors that plans suggest, which do not set it
DEFAULTS = {"fit_intercept": True}
#: names of classes, alone or at the beginning of what a repr shows
CLASSES = {"Path": "RegularizationPath", "PrivatePlan": "RoundSchedule", "SGDPlan": "DescentSchedule"}
#: models of a fitted basis: given as kernel, it left its kernel among the parameters, and given as basis it leaves none
OF_A_BASIS = ("models/less/of a basis/", "models/private/of a basis/", "studies/estimator")
#: summaries of residuals of models that no case saves: nothing tells which digest theirs became
OF_MODELS_WITHOUT_A_FILE = ("summaries/private, residuals.summary", "summaries/residuals of another.summary")


def header_in_new_names(name: str, old: Container, new: Container) -> dict[str, Any]:
    """Return the header of an old file as the new library should write it."""
    header = old.header
    if name in OF_MODELS_WITHOUT_A_FILE:
        return header | {"residuals_of": new.header["residuals_of"]}
    if header["kind"] != "model" or header["format"] == new.header["format"]:
        return header
    found = translate(header) | {"format": 2}
    if "digest" in new.header:  # the new library has read the old file
        found["digest"] = digest_of(old)
    elif name.startswith(OF_A_BASIS) and "params" in found:
        found["params"] = found["params"] | {"kernel": None}
    return found


def entries_in_new_names(name: str, old: Any, new: Any) -> Any:
    """Return the content of an old JSON file with the new names where the new file has them."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = {}
        for key, value in old.items():
            if key in GONE and key not in new and name.startswith("models/nystrom/"):
                continue
            renamed = ENTRIES.get(key, key)
            key = renamed if key not in new and renamed in new and renamed not in old else key
            found[key] = entries_in_new_names(name, value, new.get(key))
        if name.startswith("plans/") and name.endswith("regressor.json"):
            found |= {key: value for key, value in DEFAULTS.items() if key in found}
        return found | {key: value for key, value in ADDED.items() if key in new and key not in old}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [entries_in_new_names(name, one, other) for one, other in zip(old, new)]
    if isinstance(old, str) and old != new:
        return re.sub(r"^\w+", lambda word: CLASSES.get(word[0], word[0]), old)
    return old


def hashes(old: Path, new: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 and the digest of every file on the old side, with those of the same file on the new side."""
    found = {}
    for name in names:
        if not name.endswith(SUFFIXES) or not ((old / name).exists() and (new / name).exists()):
            continue
        contents = [(side / name).read_bytes() for side in (old, new)]
        first, second = (hashlib.sha256(content).hexdigest() for content in contents)
        found[first] = second
        try:
            first, second = (digest_of(read_container(content)) for content in contents)
        except (Broken, ValueError, KeyError):  # compare_folders says so
            continue
        found[first] = second
    return {one: other for one, other in found.items() if one != other}
