"""Programs that open a table of a lake, one to three lines for each engine."""

from collections.abc import Mapping

from replview.parquet.writing.layout import encoded
from replview.spark.lake.formats import FORMATS
from replview.spark.quoting import address_options, double, literal, py, spark_address
from replview.spark.reading_programs import Program, arrow_url, below

#: Programs in Python by format and engine; each leaves the table in ``rows``.
_PYTHON = {
    "delta": {
        "PySpark": 'rows = spark.read.format("delta").load({spark})',
        "DuckDB": """\
import duckdb
from deltalake import DeltaTable
rows = duckdb.from_arrow(DeltaTable({path}{storage}).to_pyarrow_dataset())""",
        "Polars": """\
import polars as pl
rows = pl.read_delta({path}{storage})""",
        "pandas": """\
import pandas as pd
from deltalake import DeltaTable
rows = DeltaTable({path}{storage}).to_pandas(types_mapper=pd.ArrowDtype)""",
    },
    "iceberg": {
        "PySpark": 'rows = spark.read.format("iceberg").load({spark})',
        "DuckDB": """\
import duckdb
from pyiceberg.table import StaticTable as Table
rows = duckdb.from_arrow(Table.from_metadata({path}{properties}).scan().to_arrow())""",
        "Polars": """\
import polars as pl
rows = pl.scan_iceberg({path}{storage}).collect()""",
        "pandas": """\
import pandas as pd
from pyiceberg.table import StaticTable as Table
rows = Table.from_metadata({path}{properties}).scan().to_pandas(types_mapper=pd.ArrowDtype)""",
    },
}
#: Spark's SQL finds an Iceberg table by its catalog, which the session defines.
_CATALOG = "-- Catalog lake: org.apache.iceberg.spark.SparkCatalog of type hadoop in {root}\n"
_TRINO = """\
CALL {catalog}.system.register_table('lake', {name}, {place});
SELECT * FROM {catalog}.lake.{table}"""
#: Trino follows Delta's log, but of Iceberg it knows the snapshot that was registered.
_ONE_SNAPSHOT = "-- As of now: unregister the table, and register it again, to see later changes.\n"


def programs(
    format: str, root: str, source: str, slot: str, relation: str, kind: str
) -> list[Program]:
    """Return the programs that open ``changes`` or ``current`` (``kind``) of ``schema.table``.

    ``root`` is the lake's folder or URL, which may end with options, as an export's target may.
    """
    folders = [*map(encoded, (source, slot, relation)), kind]
    spark_path = "/".join((spark_address(root), *folders))
    path = below(arrow_url(root), "/".join(folders))
    parts = {
        "spark": py(spark_path),
        "path": py(path.partition("?")[0] if "://" in path else path),
        "storage": _keyword("storage_options", _server(format, root)),
        "properties": _keyword("properties", _server(format, root)),
    }
    note = _CATALOG.format(root=spark_address(root)) if format == "iceberg" else ""
    select = f"SELECT * FROM {FORMATS[format].table(spark_address(root), folders)}"  # noqa: S608 (text to copy)
    return [
        Program("Spark SQL", "sql", note + select),
        *(Program(name, "python", text.format(**parts)) for name, text in _PYTHON[format].items()),
        Program("Trino", "sql", _trino(format, spark_path, f"{relation}.{kind}")),
    ]


def _trino(format: str, place: str, name: str) -> str:
    """Return the SQL that registers a table in Trino under a name without dots, and reads it."""
    table = name.replace(".", "_").lower()
    note = _ONE_SNAPSHOT if format == "iceberg" else ""
    return note + _TRINO.format(
        catalog=format, name=literal(table), place=literal(place), table=double(table)
    )


def _server(format: str, root: str) -> dict[str, str]:
    """Return the options by which a format's library finds an S3 server that is not Amazon's."""
    options = address_options(root)
    scheme, server = options.get("scheme", "https"), options.get("endpoint_override")
    endpoint, region = server and f"{scheme}://{server}", options.get("region")
    if format == "iceberg":
        found = {"s3.endpoint": endpoint, "s3.region": region}
    else:
        allowed = "true" if endpoint and scheme == "http" else None
        found = {"aws_endpoint_url": endpoint, "aws_region": region, "aws_allow_http": allowed}
    return {name: text for name, text in found.items() if text}


def _keyword(name: str, options: Mapping[str, str]) -> str:
    """Return a further argument of a call; empty without options."""
    pairs = ", ".join(f"{py(key)}: {py(text)}" for key, text in options.items())
    return f", {name}={{{pairs}}}" if pairs else ""
