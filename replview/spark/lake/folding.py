"""Fold a batch of a table's changes into one row per key: what ``current`` gets of them.

The last change of a row decides. A column has its last value that was sent; a column that no change
of the batch sent is named in ``_kept``, and keeps the value that ``current`` has under the key.
``_unknown`` names columns without any value. The keys between which rows move are replayed by
``moved_rows``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from replview.spark.lake.moved_rows import IN_CURRENT, replayed
from replview.spark.quoting import spark_literal, tick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Columns of ``current`` about the row's last change.
LAST_CHANGE = ("_incarnation", "_commit_version", "_commit_seq", "_seq", "_relation_version")
#: The order of history within an incarnation: a baseline precedes what commits at its position.
_PLACE = ("_commit_version", "_is_streamed", "_commit_seq", "_seq", "_is_after")
_NAMES = "array<string>"


@dataclass(frozen=True, slots=True)
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
    #: Columns of the key whose types cannot hold each value: ``_pg_raw`` tells the others apart.
    inexact: Sequence[str] = ()

    @property
    def key_parts(self) -> list[str]:
        """Return the SQL of what identifies a row."""
        sources = (spark_literal(self.columns[name]) for name in self.inexact)
        return [*map(tick, self.key), *(f"_pg_raw[{source}]" for source in sources)]

    @property
    def identity(self) -> "Column":
        """Return what identifies a row."""
        return F.expr(f"struct({', '.join(self.key_parts)})")

    def fold(self, changes: "DataFrame", current: "DataFrame", *, moves: bool) -> "DataFrame":
        """Return a row per key with its last ``_change_type``, to be merged into ``current``.

        ``moves`` says whether some update may have moved its row to another key.
        """
        placed = self._placed(changes)
        if not moves:
            return self._rows(placed)
        touched = (
            self._moves(placed)
            .select(F.explode(F.array("_before", "_key")).alias("_key"))
            .distinct()
        )
        touched = touched.union(self._doubled(placed)).distinct() if self.full else touched
        others = placed.join(touched, "_key", "left_anti")
        return self._rows(others).unionByName(self._replayed(placed, current, touched))

    def _placed(self, changes: "DataFrame") -> "DataFrame":
        return (
            changes.withColumn("_key", self.identity)
            .withColumn("_is_streamed", F.col("_xid").isNotNull())
            .withColumn("_is_after", F.col("_change_type") != "update_preimage")
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

    def _replayed(
        self, placed: "DataFrame", current: "DataFrame", touched: "DataFrame"
    ) -> "DataFrame":
        """Return the rows of keys that a move touches, and the keys that no row has any more."""
        names = [tick(each) for each in (*self.columns, *LAST_CHANGE, "_pg_raw")]
        was_read = (F.col("_change_type") == "insert") & ~F.col("_is_streamed")
        lacks = (F.when(~self._is_sent(name), F.lit(name)) for name in self.not_sent)
        changes = placed.select(
            "_key",
            F.when(was_read, "snapshot").otherwise(F.col("_change_type")).alias("_change_type"),
            F.array_compact(F.array(*lacks).cast(_NAMES)).alias("_absent"),
            (F.coalesce(F.size("_not_sent"), F.lit(0)) < 1).alias("_is_whole"),
            F.struct(*_PLACE).alias("_place"),
            *names,
        )
        rows = current.select(
            self.identity.alias("_key"),
            F.lit(IN_CURRENT).alias("_change_type"),
            F.col("_unknown").alias("_absent"),
            F.lit(True).alias("_is_whole"),
            F.lit(None).cast(changes.schema["_place"].dataType).alias("_place"),
            *names,
        )
        lines = rows.unionByName(changes).join(touched, "_key", "left_semi")
        # Nulls, the rows of current, come first.
        lines = lines.repartition(1).sortWithinPartitions("_place")
        replay = partial(replayed, columns=dict(self.columns), not_sent=tuple(self.not_sent))
        return lines.mapInArrow(replay, lines.schema).select(
            *names,
            "_change_type",
            F.array().cast(_NAMES).alias("_kept"),
            F.col("_absent").alias("_unknown"),
        )

    def _rows(self, placed: "DataFrame") -> "DataFrame":
        """Return the last state of each key's row."""
        place = F.struct(*_PLACE)
        always = [name for name in self.columns if name not in self.not_sent]
        facts = [*LAST_CHANGE, "_change_type", "_pg_raw"]
        last = F.max_by(F.struct(*map(tick, (*always, *facts))), place).alias("_last")
        sent = (self._last_sent(name, place) for name in self.not_sent)
        # Aggregate after the shuffle alone: Spark would sort all rows before it, too.
        rows = placed.repartition(F.col("_key")).groupBy("_key").agg(last, *sent)
        missing = [
            F.when(F.col(f"_sent_{number}").isNull(), F.lit(name))
            for number, name in enumerate(self.not_sent)
        ]
        kept = F.array_compact(F.array(*missing).cast(_NAMES))
        return rows.select(
            *(self._value(name).alias(name) for name in self.columns),
            *(F.col(f"_last.{name}").alias(name) for name in facts if name != "_pg_raw"),
            self._raw(always).alias("_pg_raw"),
            kept.alias("_kept"),
            kept.alias("_unknown"),
        )

    def _is_sent(self, name: str) -> "Column":
        """Return whether a change has a value of the column that is still valid."""
        nothing = F.array().cast(_NAMES)
        sent = ~F.array_contains(F.coalesce("_not_sent", nothing), self.columns[name])
        if name in self.altered:
            sent &= F.col("_relation_version") == self.last_version
        return sent

    def _last_sent(self, name: str, place: "Column") -> "Column":
        """Return the last value that was sent, with its text where its type cannot hold it."""
        raw = F.col("_pg_raw")[self.columns[name]]
        value = F.struct(F.col(tick(name)).alias("value"), raw.alias("raw"))
        number = list(self.not_sent).index(name)
        return F.max_by(value, F.when(self._is_sent(name), place)).alias(f"_sent_{number}")

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
