"""Where rows come from, and how they are cut into blocks."""

from .._base.rows import Block, Rows, Source
from .csv import Csv
from .parquet import Parquet

__all__ = ["Block", "Csv", "Parquet", "Rows", "Source"]
