"""Bases: the features that all sites share, learned from a public sample and never from private rows."""

from __future__ import annotations

from pathlib import Path

from .._base import files
from .._base.text import quote
from .base import Basis, _alive
from .empirical import EmpiricalFeatures
from .random import CosineFeatures, RandomFeatures

__all__ = ["Basis", "CosineFeatures", "EmpiricalFeatures", "RandomFeatures", "find", "load"]

_CLASSES = {cls.__name__: cls for cls in (CosineFeatures, EmpiricalFeatures, RandomFeatures)}


def load(path: files.PathLike) -> Basis:
    """The basis in a file that :meth:`Basis.save` wrote; a damaged or foreign file is an error that says so.

    Parameters
    ----------
    path : the file
    """
    header, arrays = files.read(path, "basis")
    cls = _CLASSES.get(str(header.get("class")))
    if cls is None:
        raise files.FileError(f"{path} holds a basis {quote(header.get('class'))}, which this version does not know")
    try:
        basis: Basis = cls._from_content(header, arrays)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        raise files.FileError(f"{path} does not hold a complete basis: {error}") from None
    return basis


def find(digest: str, folders: list[Path]) -> Basis | None:
    """The basis of that digest: one alive in this process, or one of the .basis files in the folders.

    Parameters
    ----------
    digest : of the basis
    folders : where .basis files are looked for, in this order
    """
    if (basis := _alive.get(digest)) is not None and basis.digest == digest:  # it may have been fitted again since
        return basis
    for path in [path for folder in folders for path in sorted(folder.glob("*.basis"))]:
        try:
            found = load(path)
        except (files.FileError, OSError):
            continue
        if found.digest == digest:
            return found
    return None
