"""The columns of a slice's Parquet files: PostgreSQL types are mapped to Arrow types exactly.

A value that its Parquet type cannot hold (NaN of numeric, infinite, BC or far times, an array of
more than one dimension) becomes null, and its text is kept aside: nothing is rounded, clipped or
guessed. Spark, pandas and DuckDB read the types alike.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import orjson
import pyarrow as pa

TIMESTAMP = pa.timestamp("us")
TIMESTAMPTZ = pa.timestamp("us", "UTC")
#: Digits of a decimal at most. No decimal type holds every value of numeric without a precision; a
#: column may name the wanted scale nevertheless (``with_scale``).
MOST_DIGITS = 38

_BY_OID: dict[int, pa.DataType] = {
    16: pa.bool_(), 17: pa.binary(), 20: pa.int64(), 21: pa.int16(), 23: pa.int32(),
    26: pa.int64(), 700: pa.float32(), 701: pa.float64(), 1082: pa.date32(),
    1114: TIMESTAMP, 1184: TIMESTAMPTZ,
}  # fmt: skip
_NUMERIC = 1700
#: Oids of built-in array types and of their elements; all other arrays are arrays of text.
_ELEMENTS = {
    1000: 16, 1001: 17, 1016: 20, 1005: 21, 1007: 23, 1028: 26, 1021: 700, 1022: 701, 1182: 1082,
    1115: 1114, 1185: 1184, 1231: _NUMERIC,
}  # fmt: skip
_TEXT_ARRAYS = {1002, 1003, 1008, 1009, 1014, 1015, 199, 2951, 3807, 1183, 1270, 1187, 1041, 651,
                791, 1040, 775, 1561, 1563, 3221, 143, 1017, 3643}  # fmt: skip
_BOX_ARRAY = 1020
_BY_NAME: dict[str, pa.DataType] = {
    "boolean": pa.bool_(), "bytea": pa.binary(), "bigint": pa.int64(), "smallint": pa.int16(),
    "integer": pa.int32(), "oid": pa.int64(), "real": pa.float32(),
    "double precision": pa.float64(), "date": pa.date32(),
    "timestamp without time zone": TIMESTAMP, "timestamp with time zone": TIMESTAMPTZ,
}  # fmt: skip
_NUMERIC_NAME = re.compile(r"(?:numeric|decimal)(?:\((\d+)(?:,\s*(-?\d+))?\))?$")
_PRECISION = re.compile(r"\(\d+\)")
#: Integer types, each wider than the one before, and their decimal digits.
_INTEGER_DIGITS = {pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_ARRAY_NOTE = "arrays of more than one dimension: null, their text in _pg_raw"
_UNFIT_NOTE = "NaN, infinity, and numbers of more digits: null, their text in _pg_raw"
_TIME_NOTE = "infinity, BC and years beyond 9999: null, their text in _pg_raw"
#: Columns that every file has beside the table's own.
CHANGE_FIELDS = (
    pa.field("_change_type", pa.string(), nullable=False),
    pa.field("_commit_version", pa.int64()),
    pa.field("_commit_timestamp", TIMESTAMPTZ),
    pa.field("_lsn", pa.string(), nullable=False),
    pa.field("_xid", pa.int64()),
    # Together with _seq this is the order of the record. A baseline's rows (without _xid) have the
    # place at which they were stored, and are as of their _commit_version.
    pa.field("_commit_seq", pa.int64()),
    pa.field("_seq", pa.int32(), nullable=False),
    pa.field("_actor", pa.string()),
    pa.field("_relation_version", pa.int32()),
    pa.field("_derived", pa.bool_(), nullable=False),
    pa.field("_not_sent", pa.list_(pa.string())),
    pa.field("_pg_raw", pa.map_(pa.string(), pa.string())),
)
#: The partition column, which is part of folder names: the day in UTC of the commit.
PARTITION = "commit_date"
DAY = pa.field(PARTITION, pa.date32())
_OWN_NAMES = {PARTITION, *(item.name.casefold() for item in CHANGE_FIELDS)}
#: Names of columns that readers add while they derive a table's rows.
_READER_NAMES = re.compile(
    r"_(stream|rank|interval|gone|next|next_gone|begins|epoch|number|unknown|hash|repeats|place"
    r"|step|start|start_step|known\d+x?|key\d+(_raw)?|raw\d+)"
)
TRANSACTIONS = pa.schema([
    ("incarnation", pa.int32()), ("commit_seq", pa.int64()), ("xid", pa.int64()),
    ("gid", pa.string()), ("state", pa.string()), ("origin", pa.string()),
    ("actor", pa.string()), ("actor_grade", pa.string()),
    # All known actors, the last one last; null in older files.
    ("actors", pa.list_(pa.string())), ("context", pa.string()),
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
#: Untyped changes, whose rows are JSON of the server's texts (see "One change, as JSON" in the
#: README).
UNTYPED = pa.schema([
    ("incarnation", pa.int32()), ("commit_seq", pa.int64()), ("xid", pa.int64()),
    ("commit_lsn", pa.string()), ("_commit_version", pa.int64()), ("commit_time", TIMESTAMPTZ),
    ("actor", pa.string()), ("seq", pa.int32()), ("lsn", pa.string()), ("subxid", pa.int64()),
    ("op", pa.string()), ("schema", pa.string()), ("table", pa.string()),
    ("relation_oid", pa.int64()), ("version", pa.int32()), ("old", pa.string()),
    ("new", pa.string()), DAY,
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mapped:
    """The Arrow type of a column."""

    arrow: pa.DataType
    #: Note for the file's reader about lost or different values; empty: none.
    note: str = ""


def map_column(column: Mapping[str, Any]) -> Mapped:
    """Return the Arrow type of a column as ``relation_version.columns`` describes it.

    The type comes from ``type_oid`` and ``typmod``, or from ``type`` in the form of format_type().
    For a domain, or an array of one, it comes from its ``base``.
    """
    base, scale = (
        column.get("base") or {"oid": 0, "labels": (), "array": False},
        column.get("scale"),
    )
    if base["labels"] is None and base["oid"] != column.get("type_oid"):
        if base["array"]:
            typmod = base.get("typmod", -1)
            return _array_of(_map_scalar(base["oid"], base["name"], typmod, scale))
        return map_column({**base, "type_oid": base["oid"], "type": base["name"], "scale": scale})
    oid, name = column.get("type_oid") or 0, str(column.get("type") or "")
    typmod = column.get("typmod")
    typmod = -1 if typmod is None else int(typmod)
    if oid == _BOX_ARRAY or name == "box[]":
        # This is the only type whose arrays are not separated by commas.
        return Mapped(pa.string())
    if oid in _TEXT_ARRAYS:
        return Mapped(pa.list_(pa.string()), _ARRAY_NOTE)
    if oid in _ELEMENTS or name.endswith("[]"):
        element = name.removesuffix("[]")
        return _array_of(_map_scalar(_ELEMENTS.get(oid, 0), element, typmod, scale))
    return _map_scalar(oid, name, typmod, scale)


def _array_of(element: Mapped) -> Mapped:
    element_note = f"; {element.note}" if element.note == _UNFIT_NOTE else ""
    return Mapped(pa.list_(element.arrow), _ARRAY_NOTE + element_note)


def _map_scalar(oid: int, name: str, typmod: int, scale: int | None) -> Mapped:
    if oid == _NUMERIC or _NUMERIC_NAME.match(name):
        return _map_numeric(name, typmod, scale)
    arrow = _BY_OID.get(oid) or _BY_NAME.get(_PRECISION.sub("", name))
    if arrow is None:
        return Mapped(pa.string())
    timed = pa.types.is_timestamp(arrow) or pa.types.is_date(arrow)
    return Mapped(arrow, _TIME_NOTE if timed else "")


def _map_numeric(name: str, typmod: int, wanted_scale: int | None) -> Mapped:
    precision, scale = numeric_modifier(typmod)
    match = _NUMERIC_NAME.match(name)
    if precision is None and match and match[1]:
        precision, scale = int(match[1]), int(match[2] or 0)
    if precision is None and wanted_scale is not None:
        return Mapped(pa.decimal128(MOST_DIGITS, wanted_scale), _UNFIT_NOTE)
    if precision is None:
        return Mapped(pa.string(), "numeric without a precision: text, or values would be rounded")
    if precision > MOST_DIGITS or not 0 <= scale <= precision:
        return Mapped(pa.string(), f"numeric({precision},{scale}) fits no decimal: text")
    return Mapped(pa.decimal128(precision, scale), "NaN: null, its text in _pg_raw")


def with_scale(column: Mapping[str, Any], scale: int | None) -> Mapping[str, Any]:
    """Return the column with ``decimal(38, scale)`` for numeric without a precision; None: text."""
    scaled = {**column, "scale": scale}
    same_type = scale is None or map_column(scaled).arrow == map_column(column).arrow
    return column if same_type else scaled


def numeric_modifier(typmod: int) -> tuple[int | None, int]:
    """Return the precision and scale of numeric's type modifier; (None, 0) if it has none.

    Source: PostgreSQL, numeric.c, ``numeric_typmod_scale()``: eleven bits with a sign.
    """
    if typmod < 4:
        return None, 0
    modifier = typmod - 4
    return (modifier >> 16) & 0xFFFF, ((modifier & 0x7FF) ^ 1024) - 1024


def widened(types: Iterable[pa.DataType]) -> pa.DataType:
    """Return a type that holds every value of all these types; text where there is no other."""
    return reduce(_widened, dict.fromkeys(types))


def _widened(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    if first == second:
        return first
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(_widened(first.value_type, second.value_type))
    if first in _INTEGER_DIGITS and second in _INTEGER_DIGITS:
        return max(first, second, key=_INTEGER_DIGITS.__getitem__)
    if {first, second} == {pa.float32(), pa.float64()}:
        # The shortest text of a float4 is that of another number as a float8.
        return pa.string()
    if all(pa.types.is_decimal(kind) or kind in _INTEGER_DIGITS for kind in (first, second)):
        scales = [0 if kind in _INTEGER_DIGITS else kind.scale for kind in (first, second)]
        # Digits before the point; for an integer type, all its digits.
        whole_digits = max(
            _INTEGER_DIGITS.get(first) or first.precision - first.scale,
            _INTEGER_DIGITS.get(second) or second.precision - second.scale,
        )
        if whole_digits + max(scales) <= MOST_DIGITS:
            return pa.decimal128(whole_digits + max(scales), max(scales))
    return pa.string()


@dataclass(frozen=True, slots=True)
class SliceColumn:
    """A column of a slice's files."""

    #: The name on the source.
    source_name: str
    #: The name in the file. It differs only where the column has a name of the slice's own columns,
    #: or differs from another column's by case alone (Spark, DuckDB and others ignore case).
    name: str
    arrow: pa.DataType
    #: The type on the source, in the newest shape that has it.
    pg_type: str
    note: str = ""

    @property
    def scaled(self) -> bool:
        """Return whether the column holds numeric without a precision (see ``with_scale``)."""
        return _UNFIT_NOTE in self.note


def slice_columns(versions: Sequence[Sequence[Mapping[str, Any]]]) -> list[SliceColumn]:
    """Return the columns of shapes, newest first, each of a type that holds all its values."""
    shapes_by_name: dict[str, list[Mapping[str, Any]]] = {}
    for columns in versions:
        for column in columns:
            shapes_by_name.setdefault(str(column["name"]), []).append(column)
    file_columns = []
    taken = {*_OWN_NAMES}
    for name, shapes in shapes_by_name.items():
        mapped = [map_column(shape) for shape in shapes]
        arrow = widened(column_type.arrow for column_type in mapped)
        note = mapped[0].note
        if arrow != mapped[0].arrow:
            type_names = ", ".join(dict.fromkeys(str(shape.get("type")) for shape in shapes))
            note = f"of several types within the slice: {type_names}"
        file_columns.append(
            SliceColumn(
                name, _file_name(name, taken), arrow, str(shapes[0].get("type") or ""), note
            )
        )
    return file_columns


def _file_name(name: str, taken: set[str]) -> str:
    """Return the name in the file, now taken: ``_seq_`` for ``_seq``, ``ID_2`` after ``id``."""
    folded = name.casefold()
    file_name = stem = (
        f"{name}_" if folded in _OWN_NAMES or _READER_NAMES.fullmatch(folded) else name
    )
    number = 2
    while file_name.casefold() in taken:
        file_name, number = f"{stem}_{number}", number + 1
    taken.add(file_name.casefold())
    return file_name


def table_schema(columns: Sequence[SliceColumn], table: str, versions: Sequence[int]) -> pa.Schema:
    """Return the schema of a table's file, with the types on the source in its metadata."""
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
