"""Programs for whoever has a dataset and an engine: read the changes, or have the table as of the
slice's end.

The table begins with the last baseline or TRUNCATE. From there on the last row of each key counts,
by ``_commit_version`` and ``_step``: a baseline's rows are as of their position, before the commit
that begins there, and the row before an update precedes the row after it. Where a ``delete`` or an
``update_preimage`` comes last, the key is gone (an update moved it to another). Where it is not
known which row a change was of, the programs end with an error.
Of several roots, columns whose types no schema reads together are read as text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal
from urllib.parse import parse_qsl

from replview.parquet.writing import layout
from replview.parquet.writing.datasets import document_oids, reads
from replview.parquet.writing.filesystems import SAME_SCHEMES
from replview.spark.quoting import (
    double,
    literal,
    py,
    py_list,
    py_text,
    spark_address,
    spark_literal,
    tick,
)

#: A root's folder (a path or URL) and its ``_schema.json``.
Root = tuple[str, Mapping[str, Any]]

_READ = """\
import pyarrow as pa
import pyarrow.compute as pc
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
#: Leaves ``rows``: the table.
_STATE = """
# A baseline's rows are as of their position; a row before an update stands before the one after.
after = pc.cast(pc.not_equal(table["_change_type"], "update_preimage"), pa.int64())
step = pc.add(pc.multiply(pc.cast(table["_seq"], pa.int64()), 2), after)
step = pc.if_else(pc.is_valid(table["_xid"]), step, -1)
table = table.append_column("_step", step)
# It begins with the last baseline or TRUNCATE.
baselines = table.filter(pc.field("_xid").is_null())["_commit_version"]
places = [(-1, 0), *((version, -2) for version in pc.unique(baselines).to_pylist())]
{events}start, start_step = max(places)
if start < 0:
    print("no baseline, no TRUNCATE: rows of before the first change are missing")
later = (pc.field("_commit_version") == start) & (pc.field("_step") > start_step)
table = table.filter((pc.field("_commit_version") > start) | later)
key_names = {sources}
unknown = sum(not key_names.isdisjoint(names) for names in table["_not_sent"].to_pylist())
if unknown:
    raise ValueError(f"{{unknown}} {unknown}")
# The last row of each key; where it is one that went, the key is gone.
key = {key}
{raw}table = table.sort_by([("_commit_version", "ascending"), ("_step", "ascending")])
table = table.append_column("_number", pa.array(range(len(table)), pa.int64()))
last = table.group_by(key).aggregate([("_number", "max")])["_number_max"]
rows = table.take(last).filter(~pc.field("_change_type").isin(["delete", "update_preimage"]))
# What is not known of a row: not sent, or a column that came after its last change.
lacking = {lacking}
unknown = [
    sorted({{*names, *lacking.get(version, [])}})
    for names, version in zip(rows["_not_sent"].to_pylist(), rows["_relation_version"].to_pylist())
]
rows = rows.append_column("_unknown", pa.array(unknown, pa.list_(pa.string())))
# What a column cannot hold (NaN of numeric, infinity) stands in _pg_raw.
rows = rows.select({columns})
"""
_EVENTS = """\
events = read({folder})
events = events.filter((pc.field("op") == "truncate") & pc.field("relation_oid").isin({oids}))
events = zip(events["_commit_version"].to_pylist(), events["seq"].to_pylist())
places += [(version, 2 * seq + 1) for version, seq in events]
"""
_RAW = """\
table = table.append_column("_raw{n}", pc.map_lookup(table["_pg_raw"], {name}, "first"))
"""
_SQL = """\
WITH placed AS (
    -- A baseline's rows are as of their position; the row before an update precedes the one after.
    SELECT *, CASE WHEN _xid IS NULL THEN CAST(-1 AS BIGINT) ELSE 2 * CAST(_seq AS BIGINT)
        + CASE WHEN _change_type = 'update_preimage' THEN 0 ELSE 1 END END AS _step
    FROM {changes}
), places AS (
    SELECT CAST(-1 AS BIGINT) AS _start, CAST(0 AS BIGINT) AS _start_step
    UNION ALL SELECT _commit_version, -2 FROM placed WHERE _xid IS NULL{events}
), beginning AS (
    -- The last baseline or TRUNCATE; -1: none, rows of before the first change are missing.
    SELECT * FROM places ORDER BY _start DESC, _start_step DESC LIMIT 1
), ranked AS (
    SELECT placed.*, row_number() OVER (
        PARTITION BY {key} ORDER BY _commit_version DESC, _step DESC
    ) AS _rank
    FROM placed CROSS JOIN beginning
    WHERE CASE
        WHEN _commit_version < _start THEN false
        WHEN _commit_version = _start AND _step <= _start_step THEN false
        WHEN {unknown} THEN {error}
        ELSE true END
)
-- What a column cannot hold (NaN of numeric, infinity) stands in _pg_raw; what is not known of a
-- row (not sent, or a column that came after its last change) in _unknown.
SELECT {columns}, {not_known} AS _unknown, _pg_raw
FROM ranked WHERE _rank = 1 AND _change_type NOT IN ('delete', 'update_preimage')"""
_SQL_EVENTS = """
    UNION ALL SELECT _commit_version, 2 * CAST(seq AS BIGINT) + 1 FROM {events}
        WHERE op = 'truncate' AND relation_oid IN ({oids})"""
_AFTER = "_change_type <> 'update_preimage'"
_UNKNOWN = "changes do not say of which row they are: export with whole rows (--images full)"
_AS_SENT = """\
{0} Exported as the server sent it: a value that it did not send (unchanged TOAST) is null, and
{0} named in _unknown. An export of whole rows (--images full) has it from the record.
"""
#: Types whose values always stand in their column.
_HELD = {"string", "boolean", "smallint", "int", "bigint"}


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


def below(target: str, path: str) -> str:
    """A folder below a target; options of its address stay behind it."""
    place, mark, options = target.partition("?") if "://" in target else (target, "", "")
    return f"{place.rstrip('/')}/{path}{mark}{options}"


def read_by_arrow(roots: Sequence[Root]) -> str:
    """A program that leaves ``table``."""
    folders = [_arrow_url(folder) for folder, _ in roots]
    if len(folders) == 1:
        return _READ.format() + _READ_ONE.format(folder=py(folders[0]))
    names = py_list(retyped(roots))
    return _READ.format() + _READ_ALL.format(folders=py_list(folders), names=names)


def _arrow_url(url: str) -> str:
    scheme, between, rest = url.partition("://")
    return f"{SAME_SCHEMES.get(scheme, scheme)}://{rest}" if between else url


def _options(url: str) -> dict[str, str]:
    """What an address of S3 says of its server."""
    return dict(parse_qsl(url.partition("?")[2])) if url.startswith("s3") else {}


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
    files = below(_arrow_url(folder), "*/*.parquet")
    files = files.partition("?")[0] if "://" in files else files
    return (
        f"read_parquet({literal(files)},\n"
        "                  hive_partitioning = true, union_by_name = true)"
    )


def _duckdb_secret(url: str) -> str:
    """What DuckDB must know of an object store of S3's kind."""
    if not url.startswith("s3"):
        return ""
    found = _options(url)
    words = {"ENDPOINT": found.get("endpoint_override"), "REGION": found.get("region")}
    given = "".join(f", {name} {literal(text)}" for name, text in words.items() if text)
    given += ", URL_STYLE 'path'" if "endpoint_override" in found else ""
    given += ", USE_SSL false" if found.get("scheme") == "http" else ""
    return f"CREATE OR REPLACE SECRET (TYPE s3, PROVIDER credential_chain{given});\n"


def _spark_options(url: str) -> str:
    """The same for Spark, which needs ``hadoop-aws`` besides."""
    found = _options(url)
    server = found.get("endpoint_override")
    values = {
        "fs.s3a.endpoint": server and f"{found.get('scheme', 'https')}://{server}",
        "fs.s3a.endpoint.region": found.get("region"),
        "fs.s3a.path.style.access": server and "true",
    }
    return "".join(
        f"spark.conf.set({py(name)}, {py(text)})\n" for name, text in values.items() if text
    )


def read_by_spark(roots: Sequence[Root]) -> str:
    """A program that leaves ``changes``."""
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


_TO_PANDAS = """\
# Arrow's types: whole numbers beyond 2^53 stay what they are, and null is no NaN.
{name} = {table}.to_pandas(types_mapper=pd.ArrowDtype)
"""
_DELTALAKE = """\

from deltalake import write_deltalake

write_deltalake({}, rows, mode="overwrite", schema_mode="overwrite")
"""
_PYICEBERG = """\

from pyiceberg.catalog import load_catalog

# As it stands in ~/.pyiceberg.yaml.
catalog = load_catalog("default")
catalog.create_namespace_if_not_exists("default")
copy = catalog.create_table_if_not_exists({}, rows.schema)
with copy.update_schema() as update:
    update.union_by_name(rows.schema)
copy.overwrite(rows) if copy.current_snapshot() else copy.append(rows)
"""


@dataclass(frozen=True, slots=True)
class Snippet:
    #: ``pandas``, ``polars``, ``duckdb``, ``spark``; for the table these, ``delta`` and ``iceberg``
    #: with ``-table`` behind them.
    name: str
    title: str
    text: str
    purpose: Literal["changes", "table"]


def snippets(
    folder: str,
    document: Mapping[str, Any],
    destination: str = "copy_of_table",
    *,
    before: Sequence[Root] = (),
    events: bool = True,
) -> list[Snippet]:
    """The programs for one table's dataset at ``folder`` (a path or URL), by its ``_schema.json``;
    ``before``: its other roots, in their order, which are read, too; ``events``: whether there is a
    dataset of events beside it.

    ``destination`` is the table or path that a copy is written to. Of a table whose rows cannot be
    told apart (``why_no_table``) only the changes can be read.
    """
    roots = readable([*before, (folder, document)])
    given = _Programs(one_document(roots), destination, roots, events)
    return given.of_changes() + ([] if why_no_table(roots) else given.of_table())


def _note(roots: Sequence[Root]) -> str:
    """Of rows that are not whole."""
    return "" if all(document.get("whole") for _, document in roots) else _AS_SENT


def why_no_table(roots: Sequence[Root]) -> str:
    """Why no program can give the table as of the slice's end; empty: one can."""
    shapes = [shape for _, document in roots for shape in document.get("versions", ())]
    keys = {tuple(shape["key_columns"]) for shape in shapes} - {()}
    key = _key(roots[-1][1])
    if not key:
        return "the table has no key that is sent: its rows cannot be told apart"
    if any(not {*key} <= {each["name"] for each in shape["columns"]} for shape in shapes):
        return f"the key ({', '.join(key)}) came, or was renamed, within what is exported"
    if len(keys) > 1 and _note(roots):
        return "the key changed within what is exported: export with whole rows (--images full)"
    return ""


def _key(document: Mapping[str, Any]) -> list[str]:
    """What rows are known by, as on the source: in the newest shape that has such a key."""
    shapes = reversed(document.get("versions", ()))
    return next((list(each["key_columns"]) for each in shapes if each["key_columns"]), [])


@dataclass(frozen=True, slots=True)
class _Programs:
    document: Mapping[str, Any]
    destination: str
    roots: Sequence[Root]
    events: bool

    @property
    def _named(self) -> dict[str, str]:
        """The source's columns in the newest shape → their names in the files."""
        names = _names(self.document)
        newest = self.document["versions"][-1]["columns"]
        return {each["name"]: names[each["name"]] for each in newest}

    @property
    def _lacking(self) -> dict[int, list[str]]:
        """The number of a shape → columns of the newest one that it has not."""
        shapes = [shape for _, document in self.roots for shape in document["versions"]]
        found = {
            int(shape["number"]): [
                name for name in self._named if name not in {c["name"] for c in shape["columns"]}
            ]
            for shape in shapes
        }
        return {number: names for number, names in found.items() if names}

    @property
    def _raw_keys(self) -> list[str]:
        """Key columns, as on the source, some of whose values stand in ``_pg_raw``."""
        types = {each["name"]: each["type"] for each in self.document["columns"]}
        return [name for name in _key(self.document) if types[self._named[name]] not in _HELD]

    @property
    def _events(self) -> str:
        folder = self.roots[-1][0]
        place = folder.partition("?")[0] if "://" in folder else folder
        return below(f"{place.rpartition('/')[0]}{folder[len(place) :]}", layout.EVENTS)

    @property
    def _oids(self) -> list[int]:
        return sorted({oid for _, document in self.roots for oid in document_oids(document)})

    def of_changes(self) -> list[Snippet]:
        """All changes in their order, by ``_commit_seq`` and ``_seq``; files of before it was there
        come first, by ``_commit_version``.
        """
        placed = any(each["name"] == "_commit_seq" for each in self.document["columns"])
        order = ["_commit_seq"] * placed + ["_commit_version", "_seq"]
        table = read_by_arrow(self.roots)
        to_pandas = _TO_PANDAS.format(name="changes", table="table")
        texts = {
            "pandas": f"import pandas as pd\n{table}{to_pandas}"
            f'changes = changes.sort_values({py_list(order)}, na_position="first")\n',
            "Polars": f"import polars as pl\n{table}"
            f"changes = pl.from_arrow(table).sort({py_list(order)}, maintain_order=True)\n",
            "DuckDB": f"{_duckdb_secret(self.roots[-1][0])}FROM {read_by_duckdb(self.roots)}\n"
            f"ORDER BY {' NULLS FIRST, '.join(order)}, {_AFTER};\n",
            "Spark": f"{self._spark_changes()}"
            f"changes = changes.orderBy(*{py_list(order)}, F.expr({py(_AFTER)}))\n",
        }
        return [Snippet(title.lower(), title, text, "changes") for title, text in texts.items()]

    def of_table(self) -> list[Snippet]:
        """The table as of the slice's end."""
        rows = _note(self.roots).format("#") + read_by_arrow(self.roots) + self._state()
        to_pandas = _TO_PANDAS.format(name="rows", table="rows")
        iceberg = _PYICEBERG.format(py(f"default.{self.destination}"))
        texts = {
            "pandas": f"import pandas as pd\n{rows}{to_pandas}",
            "Polars": f"import polars as pl\n{rows}rows = pl.from_arrow(rows)\n",
            "DuckDB": self._duckdb(),
            "Spark": self._spark(),
            "Delta (deltalake)": rows + _DELTALAKE.format(py(self.destination)),
            "Iceberg (pyiceberg)": rows + iceberg,
        }
        return [
            Snippet(f"{title.partition(' (')[0].lower()}-table", title, text, "table")
            for title, text in texts.items()
        ]

    def _state(self) -> str:
        raw = "".join(_RAW.format(n=n, name=py(name)) for n, name in enumerate(self._raw_keys))
        key = [self._named[name] for name in _key(self.document)]
        return _STATE.format(
            events=_EVENTS.format(folder=py(_arrow_url(self._events)), oids=self._oids)
            if self.events else "",
            sources=f"{{{', '.join(map(py, _key(self.document)))}}}",
            unknown=_UNKNOWN,
            key=py_list([*key, *(f"_raw{n}" for n in range(len(self._raw_keys)))]),
            raw=raw,
            lacking=self._lacking,
            columns=py_list([*self._named.values(), "_unknown", "_pg_raw"]),
        )  # fmt: skip

    def _duckdb(self) -> str:
        names = [literal(name) for name in _key(self.document)]
        lists = {
            number: f"[{', '.join(map(literal, lacking))}]"
            for number, lacking in self._lacking.items()
        }
        text = self._sql(
            double,
            changes=read_by_duckdb(self.roots),
            events=_parquet(self._events),
            raw=[f"_pg_raw[{literal(name)}]" for name in self._raw_keys],
            unknown=f"list_has_any(_not_sent, [{', '.join(names)}])",
            error=f"CAST(error({literal(_UNKNOWN)}) AS BOOLEAN)",
            not_known=_union("list_concat(_not_sent, {})", lists),
        )
        return f"{_note(self.roots).format('--')}{_duckdb_secret(self.roots[-1][0])}{text};\n"

    def _spark_changes(self) -> str:
        program = read_by_spark(self.roots)
        imports = "from pyspark.sql import functions as F\n\n"
        imports = "" if imports in program else imports
        return f"{imports}{_spark_options(self.roots[-1][0])}{program}"

    def _spark(self) -> str:
        names = [spark_literal(name) for name in _key(self.document)]
        lists = {
            number: f"array({', '.join(map(spark_literal, lacking))})"
            for number, lacking in self._lacking.items()
        }
        text = self._sql(
            tick,
            changes="changes",
            events="events",
            raw=[f"try_element_at(_pg_raw, {spark_literal(name)})" for name in self._raw_keys],
            unknown=f"arrays_overlap(_not_sent, array({', '.join(names)}))",
            error=f"raise_error({spark_literal(_UNKNOWN)})",
            not_known=_union("array_union(_not_sent, {})", lists),
        )
        views = 'changes.createOrReplaceTempView("changes")\n'
        if self.events:
            views += f"events = spark.read.parquet({py(spark_address(self._events))})\n"
            views += 'events.createOrReplaceTempView("events")\n'
        program = f"{self._spark_changes()}{views}rows = spark.sql({py_text(text)})\n"
        return _note(self.roots).format("#") + program

    def _sql(
        self, quoted: Callable[[str], str], *, raw: Sequence[str], events: str, **parts: str
    ) -> str:
        """The table in SQL; the parts are those in which engines differ."""
        oids = ", ".join(map(str, self._oids))
        return _SQL.format(
            key=", ".join([*(quoted(self._named[name]) for name in _key(self.document)), *raw]),
            columns=", ".join(map(quoted, self._named.values())),
            events=_SQL_EVENTS.format(events=events, oids=oids) if self.events else "",
            **parts,
        )


def _union(text: str, lists: Mapping[int, str]) -> str:
    """``_not_sent`` and, by its shape, what a row has no column for."""
    if not lists:
        return "_not_sent"
    cases = " ".join(f"WHEN {number} THEN {names}" for number, names in lists.items())
    nothing = "array()" if "array" in text else "[]"
    return text.format(f"CASE _relation_version {cases} ELSE {nothing} END")
