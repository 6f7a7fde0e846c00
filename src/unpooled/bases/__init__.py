"""Bases: the features that all sites share, learned from a public sample and never from private rows."""

from __future__ import annotations

from .base import Basis
from .empirical import EmpiricalFeatures
from .files import find, load
from .random import CosineFeatures, RandomFeatures

__all__ = ["Basis", "CosineFeatures", "EmpiricalFeatures", "RandomFeatures", "find", "load"]
