"""The columns of a slice's Parquet files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from replview.parquet.type_mapping import TIMESTAMPTZ, map_column, widened

#: What stands beside a table's own columns.
CHANGE_FIELDS = (
    pa.field("_change_type", pa.string(), nullable=False),
    pa.field("_commit_version", pa.int64()),
    pa.field("_commit_timestamp", TIMESTAMPTZ),
    pa.field("_lsn", pa.string(), nullable=False),
    pa.field("_xid", pa.int64()),
    pa.field("_seq", pa.int32(), nullable=False),
    pa.field("_actor", pa.string()),
    pa.field("_relation_version", pa.int32()),
    pa.field("_derived", pa.bool_(), nullable=False),
    pa.field("_not_sent", pa.list_(pa.string())),
    pa.field("_pg_raw", pa.map_(pa.string(), pa.string())),
)

TRANSACTIONS = pa.schema([
    ("incarnation", pa.int32()), ("commit_seq", pa.int64()), ("xid", pa.int64()),
    ("gid", pa.string()), ("state", pa.string()), ("origin", pa.string()),
    ("actor", pa.string()), ("actor_grade", pa.string()), ("context", pa.string()),
    ("first_lsn", pa.string()), ("commit_lsn", pa.string()), ("end_lsn", pa.string()),
    ("_commit_version", pa.int64()), ("commit_time", TIMESTAMPTZ), ("prepared_at", TIMESTAMPTZ),
    ("inserts", pa.int64()), ("updates", pa.int64()), ("deletes", pa.int64()),
    ("truncates", pa.int64()), ("messages", pa.int64()), ("size_bytes", pa.int64()),
])  # fmt: skip

EVENTS = pa.schema([
    ("incarnation", pa.int32()), ("commit_seq", pa.int64()), ("xid", pa.int64()),
    ("commit_lsn", pa.string()), ("_commit_version", pa.int64()), ("commit_time", TIMESTAMPTZ),
    ("actor", pa.string()), ("seq", pa.int32()), ("lsn", pa.string()), ("op", pa.string()),
    ("schema", pa.string()), ("table", pa.string()), ("relation_oid", pa.int64()),
    ("version", pa.int32()), ("cascade", pa.bool_()), ("restart_identity", pa.bool_()),
    ("prefix", pa.string()), ("content", pa.string()), ("content_base64", pa.string()),
    ("transactional", pa.bool_()),
])  # fmt: skip

#: Changes as they are: rows as JSON of the server's texts (see the README's "One change, as JSON").
UNTYPED = pa.schema([
    ("incarnation", pa.int32()), ("commit_seq", pa.int64()), ("xid", pa.int64()),
    ("commit_lsn", pa.string()), ("_commit_version", pa.int64()), ("commit_time", TIMESTAMPTZ),
    ("actor", pa.string()), ("seq", pa.int32()), ("lsn", pa.string()), ("subxid", pa.int64()),
    ("op", pa.string()), ("schema", pa.string()), ("table", pa.string()),
    ("relation_oid", pa.int64()), ("version", pa.int32()), ("old", pa.string()),
    ("new", pa.string()),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table's file."""

    #: On the source.
    source_name: str
    #: In the file: another only where it is one of the slice's own, or differs from another
    #: column's by case alone (Spark, DuckDB and others take such for one).
    name: str
    arrow: pa.DataType
    #: The type on the source, in the newest shape that has it.
    pg_type: str
    note: str = ""


def slice_columns(versions: Sequence[Sequence[Mapping[str, Any]]]) -> list[Column]:
    """The columns of shapes given newest first: each of a type that holds all its values."""
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for columns in versions:
        for column in columns:
            seen.setdefault(str(column["name"]), []).append(column)
    found = []
    taken = {item.name.casefold() for item in CHANGE_FIELDS}
    for name, shapes in seen.items():
        mapped = [map_column(shape) for shape in shapes]
        arrow = widened(each.arrow for each in mapped)
        note = mapped[0].note
        if arrow != mapped[0].arrow:
            others = ", ".join(dict.fromkeys(str(shape.get("type")) for shape in shapes))
            note = f"of several types within the slice: {others}"
        found.append(
            Column(name, _file_name(name, taken), arrow, str(shapes[0].get("type") or ""), note)
        )
    return found


def _file_name(name: str, taken: set[str]) -> str:
    """Its name in the file, now ``taken``: ``_seq_`` for ``_seq``, ``ID_2`` after ``id``."""
    own = {item.name.casefold() for item in CHANGE_FIELDS}
    found = stem = f"{name}_" if name.casefold() in own else name
    number = 2
    while found.casefold() in taken:
        found, number = f"{stem}_{number}", number + 1
    taken.add(found.casefold())
    return found


def table_schema(columns: Sequence[Column], table: str, versions: Sequence[int]) -> pa.Schema:
    """A table's file, with the types it had on the source in the file's metadata."""
    document = {
        "table": table,
        "versions": list(versions),
        "columns": [
            {
                "name": c.source_name,
                "pg_type": c.pg_type,
                "note": c.note,
                **({"file_name": c.name} if c.name != c.source_name else {}),
            }
            for c in columns
        ],
    }
    fields = [pa.field(column.name, column.arrow) for column in columns]
    return pa.schema([*fields, *CHANGE_FIELDS], metadata={b"replview": orjson.dumps(document)})
