"""A group's rows as JSON, a line each, as the store holds them: Arrow takes them apart.

To unpack a row's JSON column by column is the server's dearest part of a read; a JSON reader needs
less for all columns together than the server for one or two.
"""

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from replview.spark.slice_schemas import Column
from replview.spark.slices import SliceTable

#: How ``jsonb`` writes an object in a value's place; inside a text its quote would be escaped.
_OBJECT = b'": {'


class PackedImages:
    """Makes ``x0``, ``x1`` … (a text for each of the table's columns), ``missing`` and ``marked``
    of rows as JSON.
    """

    def __init__(self, table: SliceTable, columns: Sequence[Column]) -> None:
        self._columns = columns
        names = dict.fromkeys(column.source_name for column in columns)
        self._options = ParseOptions(
            explicit_schema=pa.schema([(name, pa.string()) for name in names]),
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        )
        #: Of each column: how a row says that it is null, and the versions that have it (None:
        #: all of them).
        self._nulls = [
            (f"{json.dumps(column.source_name, ensure_ascii=False)}: null", _having(table, column))
            for column in columns
        ]

    @staticmethod
    def serve(table: SliceTable, columns: Sequence[Column]) -> bool:
        """Whether they can tell a null from what was not sent: as JSON no column's name may end
        with another's.
        """
        quoted = [f'"{column.source_name}' for column in columns]
        names = {str(each["name"]) for version in table.versions for each in version.columns}
        return bool(columns) and not any(name.endswith(tuple(quoted)) for name in names)

    def unpacked(self, data: bytes, versions: pa.Array) -> dict[str, pa.Array] | None:
        """The columns, of lines in the order of ``versions`` (the relation version of each); None
        where the rows hold something that is neither text, null, nor a mark.
        """
        plain, marked = _without_marks(data, len(versions))
        reading = ReadOptions(use_threads=False, block_size=len(plain) + 1)
        try:
            table = read_json(BytesIO(plain), reading, self._options)
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(versions):
            return None
        values = [table.column(column.source_name).combine_chunks() for column in self._columns]
        found = {f"x{number}": each for number, each in enumerate(values)}
        found["missing"] = self._missing(values, plain, versions)
        found["marked"] = marked
        return found

    def _missing(self, values: Sequence[Any], plain: bytes, versions: pa.Array) -> pa.Array:
        """The numbers of the columns that a row of its version has and that were not sent, each
        with a comma.
        """
        lines: Any = None
        parts: list[Any] = []
        for number, (column, (null, having)) in enumerate(zip(values, self._nulls, strict=True)):
            if not column.null_count:
                continue
            if lines is None:
                lines = pc.split_pattern(pa.array([plain], pa.binary()), b"\n").values
            nulls = column.is_null()
            unnamed = pc.invert(pc.match_substring(lines.filter(nulls), null))
            unsent = pc.replace_with_mask(nulls, nulls, unnamed)
            if having is not None:
                unsent = pc.and_(unsent, pc.is_in(versions, value_set=having))
            if pc.any(unsent).as_py():
                parts.append(pc.if_else(unsent, f"{number},", ""))
        if not parts:
            return pa.nulls(len(versions), pa.string())
        texts = pc.binary_join_element_wise(*parts, "")
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _having(table: SliceTable, column: Column) -> pa.Array | None:
    having = [
        version.id
        for version in table.versions
        if any(each["name"] == column.source_name for each in version.columns)
    ]
    return None if len(having) == len(table.versions) else pa.array(having, pa.int64())


def _without_marks(data: bytes, rows: int) -> tuple[bytes, pa.Array]:
    """The lines with null where a mark stands, and the whole of those that had one."""
    if _OBJECT not in data:
        return data, pa.nulls(rows, pa.string())
    lines = data.split(b"\n")
    marked: list[str | None] = [None] * len(lines)
    for place, line in enumerate(lines):
        if _OBJECT not in line:
            continue
        marked[place] = line.decode()
        row: dict[str, Any] = orjson.loads(line)
        sent = {name: None if isinstance(value, dict) else value for name, value in row.items()}
        # As ``jsonb`` writes it.
        lines[place] = json.dumps(sent, ensure_ascii=False).encode()
    return b"\n".join(lines), pa.array(marked, pa.string())
