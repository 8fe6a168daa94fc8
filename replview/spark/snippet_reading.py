"""The part of a snippet that reads a table's changes: of one folder, or of all its roots.

Of several roots, columns whose types no schema reads together become text.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from replview.parquet.writing.dataset_schemas import reads
from replview.spark.quoting import double, literal, py, py_list, tick

#: A root's folder (a path or URL) and its ``_schema.json``.
Root = tuple[str, Mapping[str, Any]]

_READ_ONE = """\
import pyarrow as pa
import pyarrow.dataset as ds

folder = {folder}
files = ds.dataset(folder, format="parquet", partitioning="hive")
# Files may differ: columns came, went, or became wider.
schemas = [files.schema, *(each.physical_schema for each in files.get_fragments())]
schema = pa.unify_schemas(schemas, promote_options="permissive")
table = ds.dataset(folder, schema, format="parquet", partitioning="hive").to_table()
"""
_READ_ALL = """\
import pyarrow as pa
import pyarrow.dataset as ds

# Columns became of other types: each folder has the changes of its time. These are read as text.
folders = {folders}
as_text = {names}

def read(folder):
    files = ds.dataset(folder, format="parquet", partitioning="hive")
    # Files may differ: columns came, went, or became wider.
    schemas = [files.schema, *(each.physical_schema for each in files.get_fragments())]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    found = ds.dataset(folder, schema, format="parquet", partitioning="hive").to_table()
    for name in set(as_text) & set(found.column_names):
        values = found[name].to_pylist()
        texts = [v.hex() if isinstance(v, bytes) else v if v is None else str(v) for v in values]
        place = found.schema.get_field_index(name)
        found = found.set_column(place, name, pa.array(texts, pa.string()))
    return found

table = pa.concat_tables([read(each) for each in folders], promote_options="permissive")
"""


def readable(roots: Sequence[Root]) -> list[Root]:
    """Those that can be read together with the last: by one name a column, in all of them."""
    own = _names(roots[-1][1])
    return [each for each in roots if _agree(_names(each[1]), own)]


def one_document(roots: Sequence[Root]) -> dict[str, Any]:
    """What a schema of all roots would publish: the last one's columns, then earlier ones'."""
    last = roots[-1][1]
    types = _types(roots)
    found = {each["name"]: each for _, details in reversed(roots) for each in details["columns"]}
    columns = [{**each, "type": _one(types[name])} for name, each in found.items()]
    return {**last, "columns": columns}


def read_by_arrow(roots: Sequence[Root]) -> str:
    """A program that leaves ``table``."""
    folders = [folder for folder, _ in roots]
    if len(folders) == 1:
        return _READ_ONE.format(folder=py(folders[0]))
    return _READ_ALL.format(folders=py_list(folders), names=py_list(retyped(roots)))


def read_by_duckdb(roots: Sequence[Root]) -> str:
    """What stands behind FROM: all rows."""
    if len(roots) == 1:
        return _parquet(roots[0][0])
    parts = []
    for folder, document in roots:
        there = {each["name"] for each in document["columns"]}
        names = [double(name) for name in retyped(roots) if name in there]
        casts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in names)
        chosen = f"* REPLACE ({casts})" if casts else "*"
        parts.append(f"SELECT {chosen} FROM {_parquet(folder)}")  # noqa: S608 (text to copy)
    every = "\n    UNION ALL BY NAME\n    ".join(parts)
    return f"(\n    {every}\n)"


def _parquet(folder: str) -> str:
    return (
        f"read_parquet({literal(folder + '/*/*.parquet')},\n"
        "                  hive_partitioning = true, union_by_name = true)"
    )


def read_by_spark(roots: Sequence[Root]) -> str:
    """A program that leaves ``changes``."""
    if len(roots) == 1:
        folder, document = roots[0]
        return f"""\
# The published schema reads all files, those of before a column came or became wider, too.
schema = {py(_ddl(document))}
changes = spark.read.schema(schema).parquet({py(folder)})
"""
    parts = []
    for folder, document in roots:
        types = {each["name"]: each["type"] for each in document["columns"]}
        casts = "".join(
            f"\n    .withColumn({py(name)}, {_spark_text(name, types[name])})"
            for name in retyped(roots)
            if types.get(name, "string") != "string"
        )
        parts.append(f"spark.read.schema({py(_ddl(document))})\n    .parquet({py(folder)}){casts}")
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


def retyped(roots: Sequence[Root]) -> list[str]:
    """The columns, by their names in the files, that are text where they are read together."""
    found = _types(roots)
    return [name for name, types in found.items() if len({*types}) > 1 and _one(types) == "string"]


def _types(roots: Sequence[Root]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, document in roots:
        for each in document["columns"]:
            found.setdefault(each["name"], []).append(each["type"])
    return found


def _one(types: Sequence[str]) -> str:
    """The type that holds the values of all."""
    return reduce(
        lambda one, other: (
            one if one == other or reads(other, one) else other if reads(one, other) else "string"
        ),
        types,
    )


def _names(document: Mapping[str, Any]) -> dict[str, str]:
    every = document["columns"]
    return {each["source_name"]: each["name"] for each in every if "source_name" in each}


def _agree(names: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(names.get(source, name) == name for source, name in others.items())


def _spark_text(name: str, kind: str) -> str:
    column = f"F.col({py(tick(name))})"
    return f"F.lower(F.hex({column}))" if kind == "binary" else f'{column}.cast("string")'
