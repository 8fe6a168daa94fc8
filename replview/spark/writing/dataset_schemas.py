"""``_schema.json``: the schema that reads every file of a dataset, of whatever slice.

Files of different slices may differ: a column came, went, or became wider. Published is what holds
them all: the newest shape's columns, then those it had before. What cannot be read as one (a column
that became another kind of type) needs a root of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from replview.spark.slice_schemas import CHANGE_FIELDS, EVENTS, TRANSACTIONS, Column, slice_columns
from replview.spark.slices import SliceTable
from replview.spark.writing.problems import TargetProblem

_SPARK = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int",
    pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "binary", pa.date32(): "date", pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}  # fmt: skip
_WHOLE = {"smallint": 5, "int": 10, "bigint": 19}
_WIDTHS = list(_WHOLE)


def spark_type(arrow: pa.DataType) -> str:
    """As Spark's DDL writes it."""
    if pa.types.is_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{spark_type(arrow.key_type)},{spark_type(arrow.item_type)}>"
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _SPARK[arrow]


def table_document(table: SliceTable, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a table's dataset publishes, with a slice more in it. Raises ``TargetProblem``."""
    versions = {each["number"]: each for each in (before or {}).get("versions", [])}
    for version in table.versions:
        versions[version.number] = {
            "number": version.number,
            "columns": [dict(column) for column in version.columns],
            "key_columns": list(version.key_columns),
            "replica_identity": version.replica_identity,
        }
    shapes = [versions[number] for number in sorted(versions)]
    columns = slice_columns([shape["columns"] for shape in reversed(shapes)])
    told = {
        "format": 1,
        "table": {"schema": table.schema, "name": table.table, "oid": table.oid},
        "key_columns": _key(columns, shapes[-1]["key_columns"]),
        "columns": [_column(column) for column in columns] + [_field(f) for f in CHANGE_FIELDS],
        "partition_columns": [{"name": "commit_date", "type": "date"}],
        "versions": shapes,
    }
    _check_widening(before, told, table)
    return told


def fixed_document(kind: str) -> dict[str, Any]:
    """What the datasets of transactions and of events publish."""
    schema = {"transactions": TRANSACTIONS, "events": EVENTS}[kind]
    return {
        "format": 1,
        "columns": [_field(each) for each in schema],
        "partition_columns": [{"name": "commit_date", "type": "date"}],
    }


def written(document: Mapping[str, Any]) -> bytes:
    """As the file has it."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _key(columns: Sequence[Column], key: Sequence[str]) -> list[str]:
    """What a row is known by, by its names in the file."""
    names = {column.source_name: column.name for column in columns}
    return [names[each] for each in key if each in names]


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": spark_type(column.arrow),
        "source_name": column.source_name,
        "pg_type": column.pg_type,
        "note": column.note,
    }


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": spark_type(field.type)}


def _check_widening(
    before: Mapping[str, Any] | None, now: Mapping[str, Any], table: SliceTable
) -> None:
    """Files written before must be readable by the schema published now."""
    types = {each["name"]: each["type"] for each in now["columns"]}
    for each in (before or {}).get("columns", []):
        if each["type"] != (wanted := types.get(each["name"])) and not _reads(
            each["type"], wanted or ""
        ):
            raise TargetProblem(
                f"column {each['name']} of {table.name} is {each['type']} in the files that are "
                f"there and {wanted or 'missing'} now: no schema reads both",
                "export into a new root folder",
            )


def _reads(file: str, schema: str) -> bool:
    """Whether every reader takes a file's type for the schema's, exactly."""
    if file in _WHOLE and schema in _WHOLE:
        return _WIDTHS.index(file) <= _WIDTHS.index(schema)
    new = _decimal(schema)
    if new is None:
        return False
    if file in _WHOLE:
        return new[0] >= _WHOLE[file]
    old = _decimal(file)
    return old is not None and new[0] >= old[0] and new[1] >= old[1]


def _decimal(kind: str) -> tuple[int, int] | None:
    """Digits before and behind the point."""
    if not kind.startswith("decimal("):
        return None
    precision, scale = kind[8:-1].split(",")
    return int(precision) - int(scale), int(scale)
