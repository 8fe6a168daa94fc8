"""Merge the changes that ``changes`` has into ``current``, a version of the table at a time."""

# ruff: noqa: S608 (SQL of quoted names and constants)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from replview.spark.lake.folding import LAST_CHANGE, Folding
from replview.spark.lake.shapes import TableShape
from replview.spark.lake.tables import CHANGES, CURRENT, LakeTable, bucket_of
from replview.spark.quoting import spark_literal, tick
from replview.spark.stream_offsets import steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SOURCE = "replview_lake_source"
_TRUNCATED = "_change_type = 'truncate'"
_OF_ROWS = "_change_type <> 'truncate'"
#: Times that a MERGE is tried, as often as Spark tries a task.
_ATTEMPTS = 4
#: Spark's condition for rows of a checkpoint that were lost with their executor.
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"


@dataclass(frozen=True)
class Stretch:
    """Transactions of one incarnation that are merged together."""

    incarnation: int
    after: int
    through: int

    def of(self, changes: "DataFrame") -> "DataFrame":
        """Return the changes of the stretch."""
        place = F.col("_commit_seq")
        mine = (F.col("_incarnation") == self.incarnation) & (place > self.after)
        return changes.where(mine & (place <= self.through))


@dataclass(frozen=True)
class Facts:
    """The facts that decide how the changes of a stretch are merged."""

    #: The table's versions that rows have.
    versions: frozenset[int]
    #: Columns, by their name on the source, that some change did not send.
    not_sent: frozenset[str]
    #: Commit LSN and seq of the last truncation.
    truncation: tuple[int, int] | None
    #: Position of the earliest baseline.
    baseline: int | None
    #: True when some update may have moved its row to another key.
    moves: bool

    @classmethod
    def of(cls, changes: "DataFrame") -> "Facts":
        """Read the facts in one pass."""
        is_truncation = F.col("_change_type") == "truncate"
        place = F.struct("_commit_version", "_seq")
        is_baseline = F.col("_xid").isNull() & ~is_truncation
        row = changes.agg(
            F.collect_set(F.when(~is_truncation, F.col("_relation_version"))),
            F.flatten(F.collect_set("_not_sent")),
            F.max(F.when(is_truncation, place)),
            F.min(F.when(is_baseline, F.col("_commit_version"))),
            F.max(F.col("_change_type") == "update_preimage"),
        ).collect()[0]
        truncation = None if row[2] is None else (row[2][0], row[2][1])
        return cls(frozenset(row[0]), frozenset(row[1]), truncation, row[3], bool(row[4]))


def catch_up(lake: LakeTable, shape: TableShape) -> None:
    """Merge everything that ``changes`` has and ``current`` has not."""
    start, end = lake.reached(CURRENT), lake.reached(CHANGES)
    for incarnation, after, through in steps(start, end):
        for stretch, facts in _stretches(lake, Stretch(incarnation, after, through)):
            version = max(facts.versions, default=max(shape.versions))
            _adapt(lake, shape, version)
            if shape.key(version):
                with lake.reaching({**start, str(incarnation): stretch.through}, incarnation):
                    _merge(lake, shape, stretch, facts, version)
        start = {**start, str(incarnation): through}


def _stretches(lake: LakeTable, whole: Stretch) -> Iterator[tuple[Stretch, Facts]]:
    """Cut the changes where the table's version changes; yield nothing without changes."""
    changes = whole.of(lake.frame(CHANGES))
    facts = Facts.of(changes)
    if len(facts.versions) < 2:
        if facts.versions or facts.truncation:
            yield whole, facts
        return
    before = F.lag("_relation_version").over(Window.orderBy("_commit_seq", "_seq"))
    placed = changes.where(_OF_ROWS).select(
        "_commit_seq", "_relation_version", before.alias("_before")
    )
    starts = placed.where(~F.col("_relation_version").eqNullSafe(F.col("_before")))
    firsts = sorted({row[0] for row in starts.select("_commit_seq").collect()})
    ends = [*(first - 1 for first in firsts[1:]), whole.through]
    for after, through in pairwise([whole.after, *ends]):
        stretch = Stretch(whole.incarnation, after, through)
        yield stretch, Facts.of(stretch.of(lake.frame(CHANGES)))


def _adapt(lake: LakeTable, shape: TableShape, version: int) -> None:
    """Have the rows of ``current`` fit a version: forget altered values, and place them anew."""
    former = lake.shape
    key = shape.key(version)
    now = {"oid": shape.table.oid, "version": version, "key": key}
    if former == now:
        return
    name = lake.name(CURRENT)
    if former and former["oid"] != now["oid"]:
        # Another table has the name since.
        lake.spark.sql(f"DELETE FROM {name}")
    elif former:
        for row in lake.frame(CURRENT).select("_relation_version").distinct().collect():
            _forget(lake, shape, row[0], version)
        if former["key"] != key and key:
            lake.spark.sql(f"UPDATE {name} SET _bucket = {bucket_of(key)}")
    lake.set_shape(now)


def _forget(lake: LakeTable, shape: TableShape, earlier: int, version: int) -> None:
    """Mark values unknown that ALTER TABLE may have changed since an earlier version."""
    altered = shape.altered(earlier, version)
    sources = {lake_name: source for source, lake_name in shape.names.items()}
    if not altered or earlier == version:
        return
    unknown = [each for each in altered if shape.has(version, sources[each])]
    nulls = ", ".join(f"{tick(each)} = NULL" for each in altered)
    names = f"array({', '.join(map(spark_literal, unknown))})" if unknown else "_unknown"
    lake.spark.sql(
        f"UPDATE {lake.name(CURRENT)} SET {nulls}, _unknown = array_union(_unknown, {names}) "
        f"WHERE _relation_version = {earlier}"
    )


def _merge(
    lake: LakeTable, shape: TableShape, stretch: Stretch, facts: Facts, version: int
) -> None:
    rows = stretch.of(lake.frame(CHANGES)).where(_OF_ROWS)
    folding = _folding(shape, facts, version)
    if facts.truncation is not None:
        commit, seq = facts.truncation
        last = F.struct(F.lit(commit).cast("bigint"), F.lit(seq).cast("int"))
        rows = rows.where(F.struct("_commit_version", "_seq") > last)
    if facts.baseline is not None:
        rows = _without_superseded(lake, stretch, rows, folding.key, facts.baseline)
    source = folding.fold(rows, lake.frame(CURRENT), moves=facts.moves or folding.full)
    source = source.withColumn("_bucket", F.expr(bucket_of(folding.key)))
    statement = merge_statement(lake.name(CURRENT), folding)
    if facts.truncation is not None:
        statement += (
            " WHEN NOT MATCHED BY SOURCE AND (t._commit_version < "
            f"{facts.truncation[0]} OR t._incarnation <> {stretch.incarnation}) THEN DELETE"
        )
    _run(lake, statement, source)


def _run(lake: LakeTable, statement: str, source: "DataFrame") -> None:
    """Run a MERGE, and repeat it if an executor died that had rows of its source."""
    for attempt in count(1):
        # MERGE reads its source twice: for the files that it touches, and for their rows.
        source.localCheckpoint().createOrReplaceTempView(_SOURCE)
        try:
            lake.spark.sql(statement)
        except Exception as error:
            if attempt == _ATTEMPTS or _LOST not in str(error):
                raise
        else:
            return


def _folding(shape: TableShape, facts: Facts, version: int) -> Folding:
    """Return how a stretch is folded."""
    columns = {column.name: column.source_name for column in shape.table.columns}
    altered = {name for each in facts.versions for name in shape.altered(each, version)}
    return Folding(
        columns=columns,
        key=shape.key(version),
        not_sent=[
            name for name, source in columns.items() if source in facts.not_sent or name in altered
        ],
        altered=sorted(altered),
        last_version=version,
        full=any(shape.versions[each].replica_identity == "FULL" for each in facts.versions),
    )


def _without_superseded(
    lake: LakeTable, stretch: Stretch, rows: "DataFrame", key: Sequence[str], lowest: int
) -> "DataFrame":
    """Leave out rows of a baseline that changed after its position, but were merged before."""
    before = Stretch(stretch.incarnation, 0, stretch.after).of(lake.frame(CHANGES))
    before = before.where(F.col("_commit_version") > lowest)
    emptied = before.where(_TRUNCATED).agg(F.max("_commit_version")).collect()[0][0] or 0
    later = F.max("_commit_version").alias("_later")
    changed = before.where(_OF_ROWS).groupBy(*map(tick, key)).agg(later)
    is_later = F.col("_xid").isNull() & (
        (F.coalesce("_later", F.lit(0)) > F.col("_commit_version"))
        | (F.col("_commit_version") < emptied)
    )
    return rows.join(changed, list(key), "left").where(~is_later).drop("_later")


def merge_statement(current: str, folding: Folding) -> str:
    """Return the MERGE of the folded changes into ``current``, each row under its key."""
    on = " AND ".join(f"t.{tick(name)} <=> s.{tick(name)}" for name in folding.key)
    kept = {
        name: f"CASE WHEN array_contains(s._kept, {spark_literal(name)}) THEN t.{tick(name)} "
        f"ELSE s.{tick(name)} END"
        for name in folding.not_sent
    }
    values = {name: f"s.{tick(name)}" for name in (*folding.columns, *LAST_CHANGE)} | kept
    values["_unknown"] = (
        "array_union(array_intersect(t._unknown, s._kept), array_except(s._unknown, s._kept))"
    )
    values["_pg_raw"] = _raw(folding)
    updates = ", ".join(f"{tick(name)} = {value}" for name, value in values.items())
    names = [*values, "_bucket"]
    inserted = ", ".join(f"s.{tick(name)}" for name in names)
    newer = "(t._incarnation <> s._incarnation OR t._commit_version <= s._commit_version)"
    return (
        f"MERGE INTO {current} t USING {_SOURCE} s ON t._bucket = s._bucket AND {on} "
        f"WHEN MATCHED AND {newer} AND s._change_type = 'delete' THEN DELETE "
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {updates} "
        "WHEN NOT MATCHED AND s._change_type <> 'delete' "
        f"THEN INSERT ({', '.join(map(tick, names))}) VALUES ({inserted})"
    )


def _raw(folding: Folding) -> str:
    """Return the SQL of the texts of a row's values that their types cannot hold."""
    if not folding.not_sent:
        return "s._pg_raw"
    kept = " OR ".join(
        f"(name = {spark_literal(folding.columns[each])} "
        f"AND array_contains(s._kept, {spark_literal(each)}))"
        for each in folding.not_sent
    )
    return f"map_concat(s._pg_raw, map_filter(t._pg_raw, (name, text) -> {kept}))"
