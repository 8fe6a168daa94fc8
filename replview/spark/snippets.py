"""Programs for whoever has a dataset and an engine: read it, bring a copy of the table up to it.

Each brings the latest state of every key out of the changes by one rule: by ``_commit_version``, a
baseline's rows before the stream's, ``_seq``, a row before an update before the row after it. Where
a ``delete`` or an ``update_preimage`` comes last, the key is gone (an update moved it to another).
Of several roots, columns whose types no schema reads together are read as text.
TRUNCATE is not among a table's changes but in the dataset ``events``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from replview.parquet.writing.datasets import reads
from replview.spark.quoting import double, literal, py, py_list, py_text, spark_literal, tick

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


def one_document(roots: Sequence[Root]) -> dict[str, object]:
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
        text = f"spark.read.schema({py(_ddl(document))})\n    .parquet({py(folder)})"
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


def retyped(roots: Sequence[Root]) -> list[str]:
    """The columns, by their names in the files, that are text where they are read together."""
    several = [(name, types) for name, types in _types(roots).items() if len({*types}) > 1]
    return [name for name, types in several if _one(types) == "string"]


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


_LATEST = (
    "_commit_version DESC, _xid IS NOT NULL DESC, _seq DESC, _change_type <> 'update_preimage' DESC"
)
_PLACE = "struct(_commit_version, _xid IS NOT NULL, _seq, _change_type <> 'update_preimage')"
_GONE = "('delete', 'update_preimage')"


@dataclass(frozen=True, slots=True)
class Snippet:
    #: ``pandas``, ``polars``, ``duckdb``, ``spark``, ``deltalake``, ``delta``, ``iceberg``.
    name: str
    title: str
    text: str


def snippets(
    folder: str,
    document: Mapping[str, object],
    destination: str = "copy_of_table",
    *,
    before: Sequence[Root] = (),
) -> list[Snippet]:
    """The programs for one table's dataset at ``folder`` (a path or URL), by its ``_schema.json``;
    ``before``: its other roots, in their order, which are read, too.

    ``destination`` is the table or path that the changes are merged into. A table whose rows
    cannot be told apart (without a key) can only be read.
    """
    roots = readable([*before, (folder, document)])
    given = _Given(one_document(roots), destination, roots)
    found = [
        Snippet("pandas", "pandas", given.pandas()),
        Snippet("polars", "Polars", given.polars()),
        Snippet("duckdb", "DuckDB", given.duckdb()),
        Snippet("spark", "Spark", given.spark()),
    ]
    if given.key:
        found += [
            Snippet("deltalake", "Merge into Delta (deltalake)", given.deltalake()),
            Snippet("delta", "Merge into Delta (Spark)", given.merge("delta")),
            Snippet("iceberg", "Merge into Iceberg (Spark)", given.merge("iceberg")),
        ]
    return found


@dataclass(frozen=True, slots=True)
class _Given:
    document: Mapping[str, Any]
    destination: str
    roots: Sequence[Root]

    @property
    def key(self) -> list[str]:
        return list(self.document.get("key_columns") or ())

    @property
    def columns(self) -> dict[str, str]:
        """The source's, and their types in Spark."""
        every = self.document["columns"]
        return {each["name"]: each["type"] for each in every if "source_name" in each}

    @property
    def own(self) -> dict[str, str]:
        """A column's name in the file → on the source, as ``_not_sent`` has it."""
        return {name: source for source, name in _names(self.document).items()}

    def pandas(self) -> str:
        text = read_by_arrow(self.roots) + "changes = table.to_pandas()\n"
        if self.key:
            text += f"""
changes["_of_stream"] = changes["_xid"].notna()
changes["_after"] = changes["_change_type"] != "update_preimage"
changes = changes.sort_values(["_commit_version", "_of_stream", "_seq", "_after"])
latest = changes.drop_duplicates({py_list(self.key)}, keep="last")
rows = latest[~latest["_change_type"].isin(["delete", "update_preimage"])]
"""
        return text

    def polars(self) -> str:
        text = f"import polars as pl\n{read_by_arrow(self.roots)}"
        text += "changes = pl.from_arrow(table)\n"
        if self.key:
            text += f"""
place = ["_commit_version", "_of_stream", "_seq", "_after"]
latest = (
    changes.with_columns(
        _of_stream=pl.col("_xid").is_not_null(),
        _after=pl.col("_change_type") != "update_preimage",
    )
    .sort(place, nulls_last=False)
    .unique({py_list(self.key)}, keep="last", maintain_order=True)
)
rows = latest.filter(~pl.col("_change_type").is_in(["delete", "update_preimage"]))
"""
        return text

    def duckdb(self) -> str:
        source = read_by_duckdb(self.roots)
        if not self.key:
            return f"FROM {source};\n"
        key = ", ".join(double(each) for each in self.key)
        return f"""\
SELECT * FROM (
    SELECT * FROM {source}
    QUALIFY row_number() OVER (
        PARTITION BY {key}
        ORDER BY {_LATEST}
    ) = 1
) WHERE _change_type NOT IN {_GONE};
"""  # noqa: S608 (text to copy, quoted)

    def spark(self) -> str:
        text = self._spark_changes()
        if not self.key:
            return text
        key = ", ".join(tick(each) for each in self.key)
        query = f"""
    SELECT * FROM (
        SELECT *, row_number() OVER (
            PARTITION BY {key}
            ORDER BY {_LATEST}
        ) AS _rank FROM changes
    ) WHERE _rank = 1 AND _change_type NOT IN {_GONE}
"""  # noqa: S608
        return f"{text}\nrows = spark.sql({py_text(query)})\n"

    def _spark_changes(self) -> str:
        return f'{read_by_spark(self.roots)}changes.createOrReplaceTempView("changes")\n'

    def deltalake(self) -> str:
        same = " AND ".join(f"t.{double(each)} = s.{double(each)}" for each in self.key)
        names = list(self.columns)
        columns = ", ".join(f"{py(double(n))}: {py('s.' + double(n))}" for n in names)
        return f"""\
from deltalake import DeltaTable
{self.polars()}
# A value that was not sent (unchanged TOAST) is the last one that was.
columns = {py_list(names)}
sent = {py_list([self.own[n] for n in names])}
filled = changes.with_columns(
    _of_stream=pl.col("_xid").is_not_null(),
    _after=pl.col("_change_type") != "update_preimage",
).sort(place, nulls_last=False)
filled = filled.group_by({py_list(self.key)}, maintain_order=True).agg(
    pl.col("_change_type").last().is_in(["delete", "update_preimage"]).alias("_gone"),
    *(
        pl.col(column).filter(~pl.col("_not_sent").list.contains(name)).last()
        for column, name in zip(columns, sent)
        if column not in {py_list(self.key)}
    ),
)
copy = DeltaTable.create(
    {py(self.destination)}, filled.select(columns).to_arrow().schema, mode="ignore"
)
(
    copy.merge(filled.to_arrow(), {py(same)}, source_alias="s", target_alias="t")
    .when_matched_delete("s._gone")
    .when_matched_update({{{columns}}})
    .when_not_matched_insert({{{columns}}}, predicate="NOT s._gone")
    .execute()
)
"""

    def merge(self, kind: str) -> str:
        types = ", ".join(f"{tick(name)} {each}" for name, each in self.columns.items())
        target = ".".join(map(tick, self.destination.split(".")))
        create = f"CREATE TABLE IF NOT EXISTS {target} ({types}) USING {kind}"
        return f"""\
{self._spark_changes()}
spark.sql({py_text(create)})
spark.sql({py_text(self.merge_sql())})
"""

    def merge_sql(self) -> str:
        """What Delta and Iceberg both take."""
        target = ".".join(tick(each) for each in self.destination.split("."))
        rest = [name for name in self.columns if name not in self.key]
        values = "".join(
            f",\n           max_by(struct({tick(n)} AS v), {_PLACE})"
            f"\n               FILTER (WHERE NOT array_contains(_not_sent, {spark_literal(self.own[n])})) AS {tick(n)}"  # noqa: E501
            for n in rest
        )
        key = ", ".join(tick(each) for each in self.key)
        same = " AND ".join(f"t.{tick(each)} = s.{tick(each)}" for each in self.key)
        sets = (
            ", ".join(
                f"t.{tick(n)} = CASE WHEN s.{tick(n)} IS NULL THEN t.{tick(n)} ELSE s.{tick(n)}.v END"  # noqa: E501
                for n in rest
            )
            or f"t.{tick(self.key[0])} = s.{tick(self.key[0])}"
        )
        names = ", ".join(tick(each) for each in (*self.key, *rest))
        given = ", ".join([f"s.{tick(k)}" for k in self.key] + [f"s.{tick(n)}.v" for n in rest])
        return f"""
MERGE INTO {target} AS t USING (
    -- Of each column the last value that was sent: unchanged TOAST is not sent again.
    SELECT {key}, max_by(_change_type, {_PLACE}) AS _last{values}
    FROM changes GROUP BY {key}
) AS s ON {same}
WHEN MATCHED AND s._last IN {_GONE} THEN DELETE
WHEN MATCHED THEN UPDATE SET {sets}
WHEN NOT MATCHED AND s._last NOT IN {_GONE} THEN
    INSERT ({names}) VALUES ({given})
"""  # noqa: S608
