"""Read a lake's table as somebody does who has no Spark, and as the record has it."""

from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from replview.parquet.writing.layout import encoded
from replview.spark.lake.tables import CHANGES, LakeTable

_OWN = {"_incarnation", "_relation_oid"}


def folder(lake: LakeTable, kind: str) -> str:
    """The folder of one of the tables."""
    return "/".join((lake.root, *map(encoded, (lake.source, lake.slot, lake.relation)), kind))


def _delta(lake: LakeTable, kind: str) -> dict[str, Callable[[], Any]]:
    table = DeltaTable(folder(lake, kind))
    return {
        "deltalake": table.to_pyarrow_table,
        "polars": lambda: pl.read_delta(folder(lake, kind)).to_arrow(),
        "duckdb": lambda: _by_duckdb(table.to_pyarrow_dataset()),
    }


def _iceberg(lake: LakeTable, kind: str) -> dict[str, Callable[[], Any]]:
    metadata = f"{folder(lake, kind)}/metadata"
    with open(f"{metadata}/version-hint.text") as hint:
        table = StaticTable.from_metadata(f"{metadata}/v{hint.read().strip()}.metadata.json")
    return {
        "pyiceberg": lambda: table.scan().to_arrow(),
        "polars": lambda: pl.scan_iceberg(table).collect().to_arrow(),
        "duckdb": lambda: _by_duckdb(table.scan().to_arrow_batch_reader()),
    }


def _by_duckdb(lines: Any) -> pa.Table:
    with duckdb.connect() as session:
        return session.from_arrow(lines).to_arrow_table()


#: By format: the engines, each with what reads a table as Arrow.
READERS: Mapping[str, Callable[[LakeTable, str], dict[str, Callable[[], Any]]]] = {
    "delta": _delta,
    "iceberg": _iceberg,
}


def in_order(table: pa.Table, without: set[str] = frozenset()) -> list[list[tuple[str, str]]]:  # type: ignore[assignment]
    """The rows of a table as text, in an order of their own."""
    names = sorted({*table.column_names} - without)
    rows = table.select(names).to_pylist()
    return sorted([(name, repr(_plain(row[name]))) for name in names] for row in rows)


def _plain(value: Any) -> Any:
    """A value as all engines have it: a map is a list of pairs, which Polars reads as structs."""
    if isinstance(value, dict):
        return sorted(value.items())
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted((each["key"], each["value"]) for each in value)
    return sorted(value) if isinstance(value, list) else value


def read_by_spark(lake: LakeTable, kind: str) -> pa.Table:
    return lake.frame(kind).toArrow()


def changes_are_the_record(lake: LakeTable, options: Mapping[str, str]) -> bool:
    """Return whether ``changes`` has each column of each row of the data source."""
    reading = {**options, "relation": lake.relation, "source": lake.source, "slot": lake.slot}
    record = lake.spark.read.format("replview").options(**reading).load().toArrow()
    changes = lake.frame(CHANGES).where("_change_type <> 'truncate'").toArrow()
    return in_order(changes, _OWN) == in_order(record)
