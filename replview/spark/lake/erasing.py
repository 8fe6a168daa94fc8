"""Erase rows from a lake's tables, with the old versions that still hold their values.

A row's changes stay in ``changes`` without their values, marked as in files of exports; the row
goes from ``current``. Each step can be repeated.
"""

# ruff: noqa: S608 (SQL of quoted names and constants)

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType

from replview.parquet.archive.changes import lsn_of
from replview.spark.lake.shapes import TableShape
from replview.spark.lake.tables import CHANGES, CURRENT, LakeTable
from replview.spark.quoting import spark_literal, tick
from replview.spark.sessions import SparkProblem
from replview.store.read.row_history.trails import Key, KeySpan, TrailPosition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Keys that one scan of ``changes`` looks for.
_KEYS_AT_ONCE = 100
_PLACES, _ACTOR = "replview_erased_places", "replview_erased_actor"
_PLACE_TYPES = "incarnation INT, commit BIGINT, xid BIGINT, seq INT"
_HOLDS_MASK = "_pg_raw[{}] LIKE '{{\"$masked\"%'"
#: A change: incarnation, commit LSN, xid, seq.
Place = tuple[int, int | None, int | None, int]


@dataclass(frozen=True, kw_only=True)
class LakeErasure:
    """The rows of one table that are erased, and what replaces their values."""

    #: Text in ``_pg_raw`` of an erased value.
    mark: str
    #: Columns to erase, as the source names them; empty: all.
    columns: Sequence[str]
    #: Name of an actor and its replacement; empty: no actor is erased.
    actor: str
    alias: str
    spans: Sequence[KeySpan]
    #: Changes of the rows that the record knows.
    places: frozenset[Place]
    #: First ``commit_seq`` that the record still has, by incarnation.
    stored_from: Mapping[str, int]

    @classmethod
    def from_json(cls, document: Mapping[str, Any], relation: str) -> Self:
        """Read the part of an erasure that concerns a table."""
        table = document["tables"].get(relation, {"spans": [], "places": []})
        common = ("mark", "columns", "actor", "alias", "stored_from")
        return cls(
            spans=[KeySpan.from_json(span) for span in table["spans"]],
            places=frozenset((i, lsn, xid, seq) for i, lsn, xid, seq in table["places"]),
            **{name: document[name] for name in common},
        )


def erase(lake: LakeTable, shape: TableShape, wanted: LakeErasure) -> dict[str, int]:
    """Erase the rows; return the ``rows`` and ``files`` of ``changes`` that held them.

    ``current`` must have merged all that ``changes`` has. Raises ``SparkProblem`` if a row cannot
    be told from others, before anything is erased.
    """
    places = wanted.places | _places_of_keys(lake, shape, wanted)
    _check_findable(lake, shape, wanted, places)
    frame = lake.spark.createDataFrame(sorted(places, key=str), _PLACE_TYPES)
    frame.createOrReplaceTempView(_PLACES)
    # Delta's log has the text of conditions, so that the name must not be in one.
    actor = lake.spark.createDataFrame([(wanted.actor, wanted.alias)], "actor STRING, alias STRING")
    actor.createOrReplaceTempView(_ACTOR)
    counts = _count(lake)
    for statement in _statements(lake, shape, wanted, any_rows=bool(places)):
        lake.spark.sql(statement)
    for kind in (CHANGES, CURRENT):
        lake.format.forget_versions(lake.spark, lake.name(kind))
    return counts


def _places_of_keys(lake: LakeTable, shape: TableShape, wanted: LakeErasure) -> set[Place]:
    """Return the changes in ``changes`` that the keys' spans hold."""
    changes, found = lake.frame(CHANGES), set[Place]()
    of_key: dict[Key, list[KeySpan]] = {}
    for span in wanted.spans:
        of_key.setdefault(span.key, []).append(span)
    keys = [key for key in of_key if all(shape.names.get(name) for name, _ in key)]
    for begin in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[begin : begin + _KEYS_AT_ONCE]
        numbers = (F.when(_has_key(changes, shape, key), F.lit(n)) for n, key in enumerate(some))
        matched = changes.withColumn("_keys", F.array_compact(F.array(*numbers)))
        rows = matched.where("size(_keys) > 0").select(
            "_keys", "_incarnation", "_commit_version", "_xid", "_seq", "_lsn", "_change_type"
        )
        for numbers_, incarnation, commit, xid, seq, lsn, kind in rows.collect():
            place = TrailPosition(incarnation, lsn_of(lsn), seq, commit or 0)
            op = "S" if kind == "insert" and xid is None else ""
            if any(span.holds(place, op) for n in numbers_ for span in of_key[some[n]]):
                found.add((incarnation, commit, xid, seq))
    return found


def _has_key(changes: "DataFrame", shape: TableShape, key: Key) -> "Column":
    """Return the condition that a row has this key; a value may be in ``_pg_raw``."""
    condition = F.lit(True)
    for source, text in key:
        column = changes[tick(shape.names[source])]
        raw = F.col("_pg_raw").getItem(source)
        if text is None:
            condition &= column.isNull() & raw.isNull()
            continue
        value = _typed(text, changes.schema[shape.names[source]].dataType)
        condition &= F.coalesce((column == value) | (raw == text), column == value, raw == text)
    return F.coalesce(condition, F.lit(False))


def _typed(text: str, kind: DataType) -> "Column":
    """Return the server's text of a value in a column's type; null where it does not fit."""
    if isinstance(kind, ArrayType):
        raise SparkProblem(
            "a key of the table is an array, by which no row is found in a lake",
            "delete the lake's tables, then leave it out",
        )
    if isinstance(kind, BinaryType):
        return F.unhex(F.lit(text.removeprefix("\\x")))
    return F.expr(f"try_cast({spark_literal(text)} AS {kind.simpleString()})")


def _check_findable(
    lake: LakeTable, shape: TableShape, wanted: LakeErasure, places: set[Place] | frozenset[Place]
) -> None:
    """Raise ``SparkProblem`` if the row may be of changes whose key is masked there.

    The record tells the places of such changes, as long as it has them.
    """
    names = {name for span in wanted.spans for name, _ in span.key}
    if not names:
        return
    masked = " OR ".join(_HOLDS_MASK.format(spark_literal(name)) for name in sorted(names))
    known = {place[:2] for place in places}
    rows = lake.frame(CHANGES).where(masked)
    rows = rows.select("_incarnation", "_commit_version", "_commit_seq").distinct()
    unfindable = 0
    for incarnation, commit, seq in rows.toLocalIterator():
        first = wanted.stored_from.get(str(incarnation))
        unfindable += (incarnation, commit) not in known and (first is None or seq < first)
    if unfindable:
        raise SparkProblem(
            f"the record no longer has {unfindable:,} transactions whose keys are masked there: "
            "the row cannot be found among them",
            "delete the lake's tables, then leave it out",
        )


def _count(lake: LakeTable) -> dict[str, int]:
    """Return the rows of ``changes`` at the places, and the number of their files."""
    places = F.broadcast(lake.spark.table(_PLACES))
    changes = lake.frame(CHANGES).withColumn("_file", F.input_file_name())
    same = (
        (F.col("_incarnation") == F.col("incarnation"))
        & F.col("_commit_version").eqNullSafe(F.col("commit"))
        & F.col("_xid").eqNullSafe(F.col("xid"))
        & (F.col("_seq") == F.col("seq"))
    )
    found = changes.join(places, same, "left_semi")
    [(rows, files)] = found.agg(F.count("*"), F.countDistinct("_file")).collect()
    return {"rows": rows, "files": files}


def _statements(
    lake: LakeTable, shape: TableShape, wanted: LakeErasure, *, any_rows: bool
) -> list[str]:
    """Return the statements that erase the rows at the places, and the actor's name."""
    changes, current = lake.name(CHANGES), lake.name(CURRENT)
    statements = []
    if any_rows:
        statements += [
            f"MERGE INTO {changes} t USING {_PLACES} s ON t._incarnation = s.incarnation "
            "AND t._commit_version <=> s.commit AND t._xid <=> s.xid AND t._seq = s.seq "
            f"WHEN MATCHED THEN UPDATE SET {_erased(shape, wanted, not_sent='t._not_sent')}",
            f"MERGE INTO {current} t "
            f"USING (SELECT DISTINCT incarnation, commit, seq FROM {_PLACES}) s "
            "ON t._incarnation = s.incarnation AND t._commit_version <=> s.commit "
            f"AND t._seq = s.seq WHEN MATCHED THEN {_in_current(shape, wanted)}",
        ]
    if wanted.actor:
        statements.append(
            f"MERGE INTO {changes} t USING {_ACTOR} s ON t._actor = s.actor "
            "WHEN MATCHED THEN UPDATE SET t._actor = s.alias"
        )
    return statements


def _in_current(shape: TableShape, wanted: LakeErasure) -> str:
    """Return what becomes of a row in ``current``: without its key it is no row."""
    keys = {name for version in shape.versions.values() for name in version.key_columns}
    if not wanted.columns or keys & {*wanted.columns}:
        return "DELETE"
    return f"UPDATE SET {_erased(shape, wanted, not_sent='CAST(NULL AS ARRAY<STRING>)')}"


def _erased(shape: TableShape, wanted: LakeErasure, *, not_sent: str) -> str:
    """Return the assignments that erase a row's values; one that was not sent gets no mark."""
    names = {
        source: name
        for source, name in shape.names.items()
        if not wanted.columns or source in wanted.columns
    }
    marks = ", ".join(f"{spark_literal(each)}, {spark_literal(wanted.mark)}" for each in names)
    sources = ", ".join(map(spark_literal, names))
    nulls = [f"t.{tick(name)} = NULL" for name in names.values()]
    raw = (
        "map_concat(coalesce(map_filter(t._pg_raw, (name, text) -> NOT array_contains("
        f"array({sources}), name)), CAST(map() AS MAP<STRING, STRING>)), map_filter(map({marks}), "
        f"(name, text) -> NOT array_contains(coalesce({not_sent}, "
        "CAST(array() AS ARRAY<STRING>)), name)))"
    )
    return ", ".join([*nulls, f"t._pg_raw = {raw}"])
