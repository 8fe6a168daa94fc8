"""Fold a batch of a table's changes into one row per key: what ``current`` gets of them.

The last change of a row decides. A column has its last value that was sent; a column that no change
of the batch sent is named in ``_kept``, and keeps the value that ``current`` has under the key. A
row that moved takes such values from its former key. ``_unknown`` names columns without any value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from replview.spark.lake.row_chains import PLACE, numbered
from replview.spark.quoting import tick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Columns of ``current`` about the row's last change.
LAST_CHANGE = ("_incarnation", "_commit_version", "_commit_seq", "_seq", "_relation_version")
_PLACE_TYPES = (LongType(), BooleanType(), IntegerType(), BooleanType())
_CHAINS = StructType(
    [
        *(StructField(name, kind) for name, kind in zip(PLACE, _PLACE_TYPES, strict=True)),
        StructField("_chain", LongType()),
    ]
)
_IS_LIVE = "_change_type <> 'delete'"


@dataclass(frozen=True)
class Folding:
    """The columns of a fold, by their names in the lake."""

    #: Names on the source by names in the lake.
    columns: Mapping[str, str]
    key: Sequence[str]
    #: Columns that some change of the batch did not send.
    not_sent: Sequence[str]
    #: Columns whose values count only where the change has the batch's last version.
    altered: Sequence[str]
    last_version: int
    #: True when the server sends whole rows before changes.
    full: bool

    def fold(self, changes: "DataFrame", current: "DataFrame", *, moves: bool) -> "DataFrame":
        """Return a row per key with its last ``_change_type``, to be merged into ``current``.

        ``moves`` says whether some update may have moved its row to another key.
        """
        placed = self._placed(changes)
        if not moves:
            return self._rows(placed.withColumn("_chain", F.col("_key")))
        touched = (
            self._moves(placed)
            .select(F.explode(F.array("_before", "_key")).alias("_key"))
            .distinct()
        )
        touched = touched.union(self._doubled(placed)).distinct() if self.full else touched
        others = placed.join(touched, "_key", "left_anti").withColumn("_chain", F.col("_key"))
        return self._rows(others).unionByName(self._moved(placed.join(touched, "_key"), current))

    def _placed(self, changes: "DataFrame") -> "DataFrame":
        digest = F.xxhash64(*(F.col(tick(name)) for name in self.columns))
        return (
            changes.withColumn("_key", F.struct(*map(tick, self.key)))
            .withColumn("_is_baseline", F.col("_xid").isNull())
            .withColumn("_is_after", F.col("_change_type") != "update_preimage")
            .withColumn("_digest", digest if self.full else F.lit(None).cast("bigint"))
        )

    def _moves(self, placed: "DataFrame") -> "DataFrame":
        """Return the keys before and after each update that changed its row's key."""
        place = ["_commit_version", "_seq"]
        before = placed.where(F.col("_change_type") == "update_preimage")
        before = before.select(*place, F.col("_key").alias("_before"))
        after = placed.where(F.col("_change_type") == "update_postimage").select(*place, "_key")
        return before.join(after, place).where(F.col("_before") != F.col("_key"))

    def _doubled(self, placed: "DataFrame") -> "DataFrame":
        """Return keys that an insert may have given to a second row within its transaction."""
        inserted = F.max(F.col("_change_type") == "insert").alias("inserted")
        groups = placed.groupBy("_commit_version", "_key").agg(F.count("*").alias("n"), inserted)
        return groups.where("inserted AND n > 1").select("_key")

    def _moved(self, placed: "DataFrame", current: "DataFrame") -> "DataFrame":
        """Return the rows of keys that a move touches, and the keys that no row has any more."""
        chains = (
            placed.select(*PLACE, "_key", "_change_type", "_digest")
            .repartition(1)
            .sortWithinPartitions(*PLACE)
            .mapInArrow(numbered, _CHAINS)
        )
        rows = self._rows(placed.join(chains, list(PLACE)))
        last = F.max_by(F.struct(*rows.columns), F.struct(*PLACE[:3])).alias("row")
        live = rows.where(f"{_IS_LIVE} AND _is_whole").unionByName(
            self._with_former_values(rows.where(f"{_IS_LIVE} AND NOT _is_whole"), current)
        )
        live = live.groupBy("_key").agg(last).select("row.*")
        dead = rows.where("NOT _is_whole").withColumn("_key", F.col("_first_key"))
        dead = dead.join(live.select("_key"), "_key", "left_anti").groupBy("_key").agg(last)
        dead = dead.select("row.*").withColumn("_change_type", F.lit("delete"))
        key_values = {name: F.col("_key")[name] for name in self.key}
        return live.unionByName(dead.withColumns(key_values))

    def _rows(self, chained: "DataFrame") -> "DataFrame":
        """Return the last state of each chain."""
        place = F.struct(*PLACE)
        always = [name for name in self.columns if name not in self.not_sent]
        facts = [*LAST_CHANGE, "_change_type", "_is_baseline", "_key", "_pg_raw"]
        parts = [
            F.max_by(F.struct(*map(tick, (*always, *facts))), place).alias("_last"),
            F.min_by(F.struct("_key", "_change_type", "_is_baseline"), place).alias("_first"),
            *(self._last_sent(name, place) for name in self.not_sent),
        ]
        rows = chained.groupBy("_chain").agg(*parts)
        missing = [
            F.when(F.col(f"_sent_{number}").isNull(), F.lit(name))
            for number, name in enumerate(self.not_sent)
        ]
        kept = F.array_compact(F.array(*missing).cast("array<string>"))
        # A row of a baseline may have been there before.
        whole = (F.col("_first._change_type") == "insert") & ~F.col("_first._is_baseline")
        return rows.select(
            *(self._value(name).alias(name) for name in self.columns),
            *(F.col(f"_last.{name}").alias(name) for name in facts if name != "_pg_raw"),
            self._raw(always).alias("_pg_raw"),
            kept.alias("_kept"),
            kept.alias("_unknown"),
            F.col("_first._key").alias("_first_key"),
            whole.alias("_is_whole"),
        )

    def _last_sent(self, name: str, place: "Column") -> "Column":
        """Return the last value that was sent, with its text where its type cannot hold it."""
        source = self.columns[name]
        sent = ~F.array_contains(F.coalesce("_not_sent", F.array().cast("array<string>")), source)
        if name in self.altered:
            sent &= F.col("_relation_version") == self.last_version
        value = F.struct(F.col(tick(name)).alias("value"), F.col("_pg_raw")[source].alias("raw"))
        number = list(self.not_sent).index(name)
        return F.max_by(value, F.when(sent, place)).alias(f"_sent_{number}")

    def _value(self, name: str) -> "Column":
        if name in self.not_sent:
            return F.col(f"_sent_{list(self.not_sent).index(name)}.value")
        return F.col(f"_last.{tick(name)}")

    def _raw(self, always: Sequence[str]) -> "Column":
        """Return the texts of values that their types cannot hold, by the source's names."""
        last = F.col("_last._pg_raw")
        if not self.not_sent:
            return last
        sent = [self.columns[name] for name in always]
        raws = [F.col(f"_sent_{number}.raw") for number in range(len(self.not_sent))]
        names = [F.lit(self.columns[name]) for name in self.not_sent]
        pairs = F.map_from_arrays(F.array(*names), F.array(*raws))
        return F.map_concat(
            F.map_filter(last, lambda name, _: name.isin(sent)),
            F.map_filter(pairs, lambda _, raw: raw.isNotNull()),
        )

    def _with_former_values(self, rows: "DataFrame", current: "DataFrame") -> "DataFrame":
        """Fill in, for rows that were there before the batch, the values of their former key."""
        nothing = F.array().cast("array<string>")
        if not self.not_sent:
            return rows
        names = (*self.not_sent, "_unknown", "_pg_raw")
        former = current.select(
            F.struct(*map(tick, self.key)).alias("_first_key"),
            F.struct(*map(tick, names)).alias("_former"),
        )
        joined = rows.join(former, "_first_key", "left")
        there = F.col("_former").isNotNull()
        kept = [F.lit(name) for name in self.not_sent]
        values = {
            name: F.when(F.array_contains("_kept", lit), F.col(f"_former.{tick(name)}")).otherwise(
                F.col(tick(name))
            )
            for name, lit in zip(self.not_sent, kept, strict=True)
        }
        unknown = F.when(there, F.array_intersect("_former._unknown", "_kept")).otherwise(
            F.col("_kept")
        )
        raws = F.map_filter("_former._pg_raw", lambda name, _: self._is_kept(name))
        raws = F.when(there, F.map_concat("_pg_raw", raws)).otherwise(F.col("_pg_raw"))
        filled = joined.withColumns({**values, "_unknown": unknown, "_pg_raw": raws})
        return filled.withColumn("_kept", nothing).drop("_former")

    def _is_kept(self, source_name: "Column") -> "Column":
        """Return whether a column, by its name on the source, keeps its former value."""
        pairs = [F.lit(text) for name in self.not_sent for text in (self.columns[name], name)]
        lake_names = F.create_map(*pairs)
        return F.coalesce(F.array_contains("_kept", lake_names[source_name]), F.lit(False))
