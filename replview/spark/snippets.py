"""Programs that read a dataset's changes, or compute the table as of the slice's end, by engine.

The table begins with the last baseline or TRUNCATE. After that the last row of each key counts, by
``_commit_version`` and ``_step``: a baseline's rows are as of their position, before the commit
that begins there, and the row before an update precedes the row after it. If a ``delete`` or an
``update_preimage`` comes last, the key is gone (an update moved the row to another key). If the row
of a change is unknown, the programs end with an error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from replview.parquet.writing import layout
from replview.parquet.writing.datasets import document_oids
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
from replview.spark.reading_programs import (
    RootSchema,
    arrow_url,
    below,
    duckdb_secret,
    one_document,
    parquet_files,
    read_by_arrow,
    read_by_duckdb,
    read_by_spark,
    readable,
    source_names,
    spark_options,
)

#: Program that computes the table as ``rows``.
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
#: Types whose values are always in their column, never in ``_pg_raw``.
_HELD = {"string", "boolean", "smallint", "int", "bigint"}


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
    """A program to copy."""

    #: ``pandas``, ``polars``, ``duckdb`` or ``spark``; for the table also ``delta`` and
    #: ``iceberg``, all with the suffix ``-table``.
    name: str
    title: str
    text: str
    purpose: Literal["changes", "table"]


def snippets(
    folder: str,
    document: Mapping[str, Any],
    destination: str = "copy_of_table",
    *,
    before: Sequence[RootSchema] = (),
    events: bool = True,
) -> list[Snippet]:
    """Return the programs for the dataset at ``folder`` (a path or URL), by its ``_schema.json``.

    ``before`` has its other roots in order, which are read too. ``events`` says whether there is a
    dataset of events beside it. ``destination`` is the table or path that a copy is written to. For
    a table without a usable key (``why_no_table``) only the changes can be read.
    """
    roots = readable([*before, (folder, document)])
    given = _Programs(one_document(roots), destination, roots, events)
    return given.of_changes() + ([] if why_no_table(roots) else given.of_table())


def _note(roots: Sequence[RootSchema]) -> str:
    """Return the note about rows that are not complete; empty if all are."""
    return "" if all(document.get("whole") for _, document in roots) else _AS_SENT


def why_no_table(roots: Sequence[RootSchema]) -> str:
    """Return why no program can compute the table as of the slice's end; empty if one can."""
    shapes = [shape for _, document in roots for shape in document.get("versions", ())]
    keys = {tuple(shape["key_columns"]) for shape in shapes} - {()}
    key = _key(roots[-1][1])
    if not key:
        return "the table has no key that is sent: its rows cannot be told apart"
    if any(not {*key} <= {each["name"] for each in shape["columns"]} for shape in shapes):
        return f"the key ({', '.join(key)}) came, or was renamed, within what is exported"
    if len({oid for _, document in roots for oid in document_oids(document)}) > 1:
        return "another table had the name before: nothing tells which rows went with it"
    if len(keys) > 1 and _note(roots):
        return "the key changed within what is exported: export with whole rows (--images full)"
    return ""


def _key(document: Mapping[str, Any]) -> list[str]:
    """Return the key's columns, named as on the source, in the newest version that has a key."""
    shapes = reversed(document.get("versions", ()))
    return next((list(each["key_columns"]) for each in shapes if each["key_columns"]), [])


@dataclass(frozen=True, slots=True)
class _Programs:
    document: Mapping[str, Any]
    destination: str
    roots: Sequence[RootSchema]
    events: bool

    @property
    def _named(self) -> dict[str, str]:
        """Return the names in the files of the newest version's columns, by name on the source."""
        names = source_names(self.document)
        newest = self.document["versions"][-1]["columns"]
        return {each["name"]: names[each["name"]] for each in newest}

    @property
    def _lacking(self) -> dict[int, list[str]]:
        """Return, by version number, the columns of the newest version that it lacks."""
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
        """Return key columns, named as on the source, that may have values in ``_pg_raw``."""
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
        """Return the programs that read all changes in order."""
        order = ["_commit_seq", "_seq"]
        table = read_by_arrow(self.roots)
        to_pandas = _TO_PANDAS.format(name="changes", table="table")
        texts = {
            "pandas": f"import pandas as pd\n{table}{to_pandas}"
            f"changes = changes.sort_values({py_list(order)})\n",
            "Polars": f"import polars as pl\n{table}"
            f"changes = pl.from_arrow(table).sort({py_list(order)}, maintain_order=True)\n",
            "DuckDB": f"{duckdb_secret(self.roots[-1][0])}FROM {read_by_duckdb(self.roots)}\n"
            f"ORDER BY {', '.join(order)}, {_AFTER};\n",
            "Spark": f"{self._spark_changes()}"
            f"changes = changes.orderBy(*{py_list(order)}, F.expr({py(_AFTER)}))\n",
        }
        return [Snippet(title.lower(), title, text, "changes") for title, text in texts.items()]

    def of_table(self) -> list[Snippet]:
        """Return the programs that compute the table as of the slice's end."""
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
            events=_EVENTS.format(folder=py(arrow_url(self._events)), oids=self._oids)
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
            events=parquet_files(self._events),
            raw=[f"_pg_raw[{literal(name)}]" for name in self._raw_keys],
            unknown=f"list_has_any(_not_sent, [{', '.join(names)}])",
            error=f"CAST(error({literal(_UNKNOWN)}) AS BOOLEAN)",
            not_known=_union("list_concat(_not_sent, {})", lists),
        )
        return f"{_note(self.roots).format('--')}{duckdb_secret(self.roots[-1][0])}{text};\n"

    def _spark_changes(self) -> str:
        program = read_by_spark(self.roots)
        imports = "from pyspark.sql import functions as F\n\n"
        imports = "" if imports in program else imports
        return f"{imports}{spark_options(self.roots[-1][0])}{program}"

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
        """Return the table in SQL; ``parts`` are what differs between engines."""
        oids = ", ".join(map(str, self._oids))
        return _SQL.format(
            key=", ".join([*(quoted(self._named[name]) for name in _key(self.document)), *raw]),
            columns=", ".join(map(quoted, self._named.values())),
            events=_SQL_EVENTS.format(events=events, oids=oids) if self.events else "",
            **parts,
        )


def _union(text: str, lists: Mapping[int, str]) -> str:
    """Return SQL for ``_not_sent`` together with the columns that a row's version lacks."""
    if not lists:
        return "_not_sent"
    cases = " ".join(f"WHEN {number} THEN {names}" for number, names in lists.items())
    nothing = "array()" if "array" in text else "[]"
    return text.format(f"CASE _relation_version {cases} ELSE {nothing} END")
