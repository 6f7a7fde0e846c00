"""``study.toml``: a study as the people who run it write it down, beside its basis."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..messages import shown
from .config import ConfigError
from .study import Study, StudyPrivacy

STUDY_NAME = "study.toml"
RESULTS = "results"  #: the folder beside it that the study's own files come to be in
NEEDED = ("name", "basis", "targets", "members", "quorum", "timeout")


def read_study(folder: Path) -> Study:
    """The study that ``study.toml`` in a folder asks for; a ConfigError says what is wrong with it."""
    path = folder / STUDY_NAME
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): make one with `unpooled federation init`"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {shown(str(error))}") from None
    known = [field.name for field in fields(Study) if field.name != "id"]
    _only(path, content, known)
    if missing := [name for name in NEEDED if name not in content]:
        raise ConfigError(f"{path} lacks {', '.join(missing)}")
    if not isinstance(content["basis"], str):
        raise ConfigError(f"basis in {path} must be the name of a file beside it, got {shown(content['basis'])}")
    content["basis"] = folder / content["basis"]
    if "privacy" in content:
        _only(path, content["privacy"], [field.name for field in fields(StudyPrivacy)])
    try:
        return Study(**content)
    except FileNotFoundError:
        raise ConfigError(f"{path} speaks of {content['basis']}, which does not exist: put the basis there") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None


def _only(path: Path, content: Any, known: list[str]) -> None:
    if not isinstance(content, dict):
        raise ConfigError(f"privacy in {path} must be a table, [privacy], got {shown(content)}")
    if unknown := sorted(set(content) - set(known)):
        raise ConfigError(f"{path} has {', '.join(unknown)}, which a study does not have; it has {', '.join(known)}")
