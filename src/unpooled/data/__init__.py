"""Rows of any origin: CSV and Parquet files, Dask clusters, or arrays and data frames of the user."""

from .._base.rows import Block, Rows, Source
from .csv import Csv
from .parquet import Parquet

__all__ = ["Block", "Csv", "Parquet", "Rows", "Source"]
