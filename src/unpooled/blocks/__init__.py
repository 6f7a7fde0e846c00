"""Where rows come from, and how they are cut into blocks."""

from .base import Block, Rows, Source
from .parquet import Parquet

__all__ = ["Block", "Parquet", "Rows", "Source"]
