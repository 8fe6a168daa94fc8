"""Read changes from a segment, decompressing only what may hold selected ones."""

from collections.abc import Collection, Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.segments.layout import SCHEMA, VERSION
from replview.segments.selection import Selection, reaches

EVERYTHING = Selection()
_COLUMN_NUMBERS = {name: number for number, name in enumerate(SCHEMA.names)}


class UnknownLayoutError(ValueError):
    """A file that is no segment, or a segment of a later release."""


class SegmentReader:
    """A reader of one segment, one row group at a time.

    ``source`` is anything that ``pyarrow`` reads at any position: a buffer, an opened file.
    """

    def __init__(self, source: Any) -> None:
        """Read the footer. Raises ``UnknownLayoutError``."""
        try:
            self._file = pq.ParquetFile(source, page_checksum_verification=True)
            footer = orjson.loads(self._file.metadata.metadata[b"replview"])
            version, self.incarnation_id = int(footer["segment"]), int(footer["incarnation"])
        except (pa.ArrowInvalid, KeyError, TypeError) as error:
            raise UnknownLayoutError("this file is no segment") from error
        if version > VERSION:
            raise UnknownLayoutError(f"this segment has the layout {version} of a later release")

    @property
    def groups(self) -> int:
        """Return the number of row groups."""
        return int(self._file.metadata.num_row_groups)

    def read(
        self, selection: Selection = EVERYTHING, groups: Collection[int] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the selected changes in their order, one table for each row group that has some.

        ``groups`` are the row groups to look into, by number; None: all.
        """
        for group in range(self.groups) if groups is None else sorted(groups):
            if self._may_match(group, selection):
                changes = self._read_group(group, selection)
                if len(changes):
                    yield changes

    def key_columns(self, group: int) -> pa.Table:
        """Return the columns of a row group that a key index is made from."""
        return self._columns(group, ["relation_id", "key_hash", "old_key_hash"])

    def _may_match(self, group: int, selection: Selection) -> bool:
        """Return False if the statistics show that no change of the row group matches."""
        row_group = self._file.metadata.row_group(group)
        for column, values in selection.compared():
            statistics = row_group.column(_COLUMN_NUMBERS[column]).statistics
            has_range = statistics is not None and statistics.has_min_max
            if has_range and not reaches(values, statistics.min, statistics.max):
                return False
        return True

    def _read_group(self, group: int, selection: Selection) -> pa.Table:
        """Return the selected changes, reading further columns only while there are some."""
        columns: dict[str, pa.ChunkedArray] = {}
        mask = None
        for needed, condition in selection.conditions():
            self._add(columns, group, needed)
            matches = condition(pa.table(columns))
            mask = matches if mask is None else pc.and_(mask, matches)
            if not pc.any(mask).as_py():
                return SCHEMA.empty_table()
        self._add(columns, group, SCHEMA.names)
        changes = pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)
        return changes if mask is None else changes.filter(mask)

    def _add(self, columns: dict[str, pa.ChunkedArray], group: int, names: Collection[str]) -> None:
        """Add the named columns that are missing."""
        missing = [name for name in names if name not in columns]
        if missing:
            read = self._columns(group, missing)
            columns.update(zip(read.column_names, read.columns, strict=True))

    def _columns(self, group: int, names: Collection[str]) -> pa.Table:
        return self._file.read_row_group(group, columns=list(names), use_threads=False)
