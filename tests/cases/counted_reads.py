"""A count of what is read of Parquet files: how often each row group, and how many bytes of its columns."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import pyarrow.parquet as pq


class Reads:
    """Reads since ``counted_reads`` was entered."""

    def __init__(self):
        self.groups, self.bytes = Counter(), 0

    @property
    def passes(self):
        """How often the row group that was read most was read."""
        return max(self.groups.values(), default=0)

    def add(self, file, path, group, columns):
        """Row group ``group`` was read, in these columns (None: in all)."""
        self.groups[str(path), group] += 1
        about = file.metadata.row_group(group)
        chunks = [about.column(i) for i in range(about.num_columns)]
        self.bytes += sum(c.total_compressed_size for c in chunks if columns is None or c.path_in_schema in columns)


@contextmanager
def counted_reads(monkeypatch):
    """Counts while it lasts; rows can be read in no other way than by row group or in batches of one."""
    reads, groups, batches, start = (
        Reads(),
        pq.ParquetFile.read_row_group,
        pq.ParquetFile.iter_batches,
        pq.ParquetFile.__init__,
    )

    def opened(self, source, *args, **kwargs):
        start(self, source, *args, **kwargs)
        self.counted_as = source

    def one_group(self, i, columns=None, **kwargs):
        reads.add(self, self.counted_as, i, columns)
        return groups(self, i, columns=columns, **kwargs)

    def in_batches(self, batch_size=65536, row_groups=None, columns=None, **kwargs):
        for group in range(self.num_row_groups) if row_groups is None else row_groups:
            reads.add(self, self.counted_as, group, columns)
        return batches(self, batch_size, row_groups=row_groups, columns=columns, **kwargs)

    def never(*_, **__):
        raise AssertionError("rows were read in a way that is not counted")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetFile, "__init__", opened)
        patch.setattr(pq.ParquetFile, "read_row_group", one_group)
        patch.setattr(pq.ParquetFile, "iter_batches", in_batches)
        for name in ("read", "read_row_groups"):
            patch.setattr(pq.ParquetFile, name, never)
        patch.setattr(pq, "read_table", never)
        yield reads
