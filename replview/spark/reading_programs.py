"""Parts of programs that read a table's dataset with each engine, from one or several roots.

Columns of several roots whose types cannot be read in one schema are read as text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

from replview.parquet.writing.datasets import reads
from replview.parquet.writing.filesystems import SAME_SCHEMES
from replview.spark.quoting import (
    address_options,
    double,
    literal,
    py,
    py_list,
    spark_address,
    spark_settings,
    tick,
)

#: A root's folder (a path or URL) and its ``_schema.json``.
RootSchema = tuple[str, Mapping[str, Any]]

_READ = """\
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs


def read(url):
    filesystem, folder = fs.FileSystem.from_uri(url)
    like = {{"filesystem": filesystem, "format": "parquet", "partitioning": "hive"}}
    files = ds.dataset(folder, **like)
    # Files may differ: columns came, went, or became wider.
    schemas = [files.schema, *(each.physical_schema for each in files.get_fragments())]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    return ds.dataset(folder, schema, **like).to_table()


"""
_READ_ONE = "table = read({folder})\n"
_READ_ALL = """\
# Columns became of other types: each folder has the changes of its time. These are read as text.
folders = {folders}
as_text = {names}


def read_as_text(folder):
    found = read(folder)
    for name in set(as_text) & set(found.column_names):
        values = found[name].to_pylist()
        texts = [v.hex() if isinstance(v, bytes) else v if v is None else str(v) for v in values]
        place = found.schema.get_field_index(name)
        found = found.set_column(place, name, pa.array(texts, pa.string()))
    return found


table = pa.concat_tables([read_as_text(each) for each in folders], promote_options="permissive")
"""


_NEEDS_S3A = (
    "# s3a:// needs org.apache.hadoop:hadoop-aws in spark.jars.packages, as of Spark's Hadoop.\n"
)


@dataclass(frozen=True, slots=True)
class Program:
    """A program to copy."""

    #: The engine, such as ``DuckDB``.
    name: str
    language: Literal["python", "sql"]
    code: str


def readable(roots: Sequence[RootSchema]) -> list[RootSchema]:
    """Return the roots that can be read with the last one: columns have the same names in both."""
    own = source_names(roots[-1][1])
    return [each for each in roots if _agree(source_names(each[1]), own)]


def below(target: str, path: str) -> str:
    """Return a folder below a target; options stay at the end of the address."""
    place, mark, options = target.partition("?") if "://" in target else (target, "", "")
    return f"{place.rstrip('/')}/{path}{mark}{options}"


def read_by_arrow(roots: Sequence[RootSchema]) -> str:
    """Return a program that reads the rows into ``table``."""
    folders = [arrow_url(folder) for folder, _ in roots]
    if len(folders) == 1:
        return _READ.format() + _READ_ONE.format(folder=py(folders[0]))
    names = py_list(retyped(roots))
    return _READ.format() + _READ_ALL.format(folders=py_list(folders), names=names)


def arrow_url(url: str) -> str:
    """Return an address as pyarrow spells it."""
    scheme, between, rest = url.partition("://")
    return f"{SAME_SCHEMES.get(scheme, scheme)}://{rest}" if between else url


def read_by_duckdb(roots: Sequence[RootSchema]) -> str:
    """Return the part after FROM that reads all rows."""
    if len(roots) == 1:
        return parquet_files(roots[0][0])
    parts = []
    for folder, document in roots:
        there = {each["name"] for each in document["columns"]}
        names = [double(name) for name in retyped(roots) if name in there]
        casts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in names)
        chosen = f"* REPLACE ({casts})" if casts else "*"
        parts.append(f"SELECT {chosen} FROM {parquet_files(folder)}")  # noqa: S608 (text to copy)
    every = "\n    UNION ALL BY NAME\n    ".join(parts)
    return f"(\n    {every}\n)"


def parquet_files(folder: str) -> str:
    """Return DuckDB's expression that reads the files of a folder."""
    files = below(arrow_url(folder), "*/*.parquet")
    files = files.partition("?")[0] if "://" in files else files
    return (
        f"read_parquet({literal(files)},\n"
        "                  hive_partitioning = true, union_by_name = true)"
    )


def duckdb_secret(url: str) -> str:
    """Return the statement that gives DuckDB access to an S3 object store."""
    if not url.startswith("s3"):
        return ""
    found = address_options(url)
    words = {"ENDPOINT": found.get("endpoint_override"), "REGION": found.get("region")}
    given = "".join(f", {name} {literal(text)}" for name, text in words.items() if text)
    given += ", URL_STYLE 'path'" if "endpoint_override" in found else ""
    given += ", USE_SSL false" if found.get("scheme") == "http" else ""
    return f"CREATE OR REPLACE SECRET (TYPE s3, PROVIDER credential_chain{given});\n"


def spark_options(url: str) -> str:
    """Return the statements that give Spark access to an S3 object store."""
    if not url.startswith("s3"):
        return ""
    return _NEEDS_S3A + "".join(
        f"spark.conf.set({py(name)}, {py(text)})\n" for name, text in spark_settings(url).items()
    )


def read_by_spark(roots: Sequence[RootSchema]) -> str:
    """Return a program that reads the rows into ``changes``."""
    if len(roots) == 1:
        folder, document = roots[0]
        return f"""\
# The published schema reads all files, those of before a column came or became wider, too.
schema = {py(_ddl(document))}
changes = spark.read.schema(schema).parquet({py(spark_address(folder))})
"""
    parts = []
    for folder, document in roots:
        text = f"spark.read.schema({py(_ddl(document))})\n    .parquet({py(spark_address(folder))})"
        types = {each["name"]: each["type"] for each in document["columns"]}
        for name in retyped(roots):
            if (kind := types.get(name, "string")) != "string":
                column = f"F.col({py(tick(name))})"
                cast = (
                    f"F.lower(F.hex({column}))" if kind == "binary" else f'{column}.cast("string")'
                )
                text += f"\n    .withColumn({py(name)}, {cast})"
        parts.append(text)
    listed = ",\n    ".join(parts)
    return f"""\
from functools import reduce

from pyspark.sql import functions as F

# Columns became of other types: each folder has the changes of its time. These are read as text.
roots = [
    {listed},
]
changes = reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), roots)
"""


def _ddl(document: Mapping[str, Any]) -> str:
    every = [*document["columns"], *document["partition_columns"]]
    return ", ".join(f"{tick(each['name'])} {each['type']}" for each in every)


def retyped(roots: Sequence[RootSchema]) -> list[str]:
    """Return the columns, as named in the files, that are text when roots are read together."""
    several = [(name, types) for name, types in _types(roots).items() if len({*types}) > 1]
    return [name for name, types in several if _one(types) == "string"]


def _types(roots: Sequence[RootSchema]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, document in roots:
        for each in document["columns"]:
            found.setdefault(each["name"], []).append(each["type"])
    return found


def _one(types: Sequence[str]) -> str:
    """Return the type that holds the values of all."""
    return reduce(
        lambda one, other: (
            one if one == other or reads(other, one) else other if reads(one, other) else "string"
        ),
        types,
    )


def source_names(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the column names in the files, by name on the source."""
    every = document["columns"]
    return {each["source_name"]: each["name"] for each in every if "source_name" in each}


def _agree(names: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(names.get(source, name) == name for source, name in others.items())
