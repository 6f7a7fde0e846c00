"""Format 2 of the files of models: which names of format 1 became which, and what format 1 meant where it had no name.

A header of format 1 is translated before anything else reads it. Nothing is lost on the way, so a model that came from
such a file can be described in the words of format 1 again. Its digest of that time is checked in this way, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .kinds import is_same

_Header = dict[str, Any]


@dataclass(frozen=True)
class Changes:
    """The changes in the header of one class of models between formats 1 and 2; places are written "params.center".

    Attributes
    ----------
    renamed : places of format 1, and what they became
    added : places that format 1 did not have, with the value that means what format 1 did
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, Any] = field(default_factory=dict)


_INTERCEPT = {"params.center": "params.fit_intercept"}
_VERBOSE = {"params.verbose": 0}

#: the classes of models whose headers have changed; the files of all others are of format 1 still
CHANGES: dict[str, Changes] = {
    "AveragedRegressor": Changes({"params.local": "params.estimator"}),
    "CorrentropyRegressor": Changes(_INTERCEPT, _VERBOSE),
    "LESSRegressor": Changes(_INTERCEPT),
    "NystromRegressor": Changes(_INTERCEPT | {"params.max_rounds": "params.max_iter", "n_rounds": "n_iter"}),
    "PrivateRegressor": Changes(added=_VERBOSE),
    "PrivateSGDRegressor": Changes(
        {
            "params.intercept": "params.fit_intercept",
            "params.lam": "params.weight_decay",
            "plan.lam": "plan.weight_decay",
        },
        _VERBOSE,
    ),
    "SpectralRegressor": Changes(_INTERCEPT, _VERBOSE),
    "SummaryRegressor": Changes(_INTERCEPT, _VERBOSE),
}


def format_of(name: str) -> int:
    """Return the format of the files of a class of models: the lowest that has words for them."""
    return 2 if name in CHANGES else 1


def translate(header: _Header) -> _Header:
    """Return a model's header of format 1 in the words of format 2; a ValueError if its names are others.

    Whether the values are what they may be is for the reader of format 2 to say.
    """
    name = header.get("class")
    changes = CHANGES[name] if isinstance(name, str) and name in CHANGES else Changes()
    content = _rename(header, changes.renamed, changes.added)
    params: Any = content.get("params")
    if not isinstance(params, dict):  # for the reader to refuse
        return content
    if name == "AveragedRegressor" and isinstance(params["estimator"], dict):
        content["params"] = params | {"estimator": translate(params["estimator"])}
    if name == "PrivateSGDRegressor" and params["fit_intercept"] is None:  # None chose by the method
        content["params"] = params | {"fit_intercept": params.get("method") == "tight"}
    return content


def translate_back(header: _Header) -> list[_Header]:
    """Return the headers that :func:`translate` makes this one of: none where format 1 has no words for it."""
    name = header["class"]
    changes = CHANGES.get(name, Changes())
    content = {part: dict(value) if isinstance(value, dict) else value for part, value in header.items()}
    for place, value in changes.added.items():
        part, entry = place.split(".")
        if not is_same(content[part].pop(entry), value):
            return []
    content = _rename(content, {new: old for old, new in changes.renamed.items()}, {})
    params: Any = content.get("params")
    if name == "AveragedRegressor" and params["local"] is not None:
        return [content | {"params": params | {"local": local}} for local in translate_back(params["local"])]
    if name == "PrivateSGDRegressor" and params["intercept"] is (params["method"] == "tight"):
        return [content | {"params": params | {"intercept": None}}, content]
    return [content]


def _rename(header: _Header, renamed: Mapping[str, str], added: Mapping[str, Any]) -> _Header:
    """Return a copy of a header with other names and more entries; a part that is no object is left as it is."""
    parts = {name: dict(value) for name, value in header.items() if isinstance(value, dict)} | {"": dict(header)}
    for old, new in renamed.items():
        part, _, entry = old.rpartition(".")
        if part in parts:
            if entry not in parts[part]:
                raise ValueError(f"it lacks {entry!r}")
            _add(parts[part], new, parts[part].pop(entry))
    for place, value in added.items():
        if (part := place.rpartition(".")[0]) in parts:
            _add(parts[part], place, value)
    return parts.pop("") | parts


def _add(part: dict[str, Any], place: str, value: Any) -> None:
    entry = place.rpartition(".")[2]
    if entry in part:
        raise ValueError(f"it has {entry!r}, which no file of its format has")
    part[entry] = value
