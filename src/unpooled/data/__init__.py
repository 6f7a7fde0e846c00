"""Rows where they lie: in CSV and Parquet files, on a Dask cluster, or in arrays and frames of the user."""

from .._base.rows import Block, Rows, Source
from .csv import Csv
from .parquet import Parquet

__all__ = ["Block", "Csv", "Parquet", "Rows", "Source"]
