"""The rows of a table through their changes: from when to when each stood under which key.

Changes of a table take effect in the order of ``(_commit_version, in the stream, _seq)``. A
baseline's rows (no ``_xid``) are what had committed before the position they are of, so they come
before the commit that begins there. A change that has its row before is two rows: the
``update_preimage`` comes first, and says which key the row had. So one rule tells what became of a
key: where a ``delete``, or an ``update_preimage`` without its postimage, is the last of it, it is
gone.

An *interval* is the time of one row under one key: from an insert (or the update that moved it
there) to its delete, the update that moved it away, or a truncation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from replview.parquet.slice_schemas import Column
from replview.spark.history.datasets import Dataset
from replview.spark.quoting import tick

#: What ``placed`` adds: the order of rows with equal commits, and of a change's two rows.
STREAM, RANK = "_stream", "_rank"
PLACE = ("_commit_version", STREAM, "_seq", RANK)
#: What ``with_intervals`` adds: the place where a row's interval begins, whether it ends it, the
#: next change of its key.
INTERVAL, GONE, NEXT = "_interval", "_gone", "_next"
#: The change type of what ``row_keys`` puts where a row cannot be followed any further.
LOST = "lost"
#: Arrow types whose values always stand in their column: none of them is ever in ``_pg_raw``.
_ALWAYS_HELD = (pa.string(), pa.bool_(), pa.int16(), pa.int32(), pa.int64())

#: A place in history: commit LSN, and a change's seq in its transaction.
Truncation = tuple[int, int]


def held(column: Column) -> bool:
    """Whether a value of the column never is in ``_pg_raw``."""
    return column.arrow in _ALWAYS_HELD


def raw(column: Column) -> Expression:
    """The text of a value that its column cannot hold; null: it holds it."""
    return F.try_element_at("_pg_raw", F.lit(column.source_name))


def key_names(keys: Sequence[Column]) -> list[str]:
    """The columns that ``placed`` makes of a key."""
    return [f"_key{n}" for n in range(len(keys))] + [
        f"_key{n}_raw" for n, column in enumerate(keys) if not held(column)
    ]


def placed(changes: DataFrame, dataset: Dataset) -> DataFrame:
    """Changes with what they are ordered by, and the key that each says of its row: its shape's."""
    added: dict[str, Any] = {
        STREAM: F.col("_xid").isNotNull().cast("int"),
        RANK: (F.col("_change_type") != "update_preimage").cast("int"),
    }
    for n, column in enumerate(dataset.key_columns if dataset.tells_rows_apart else ()):
        others = [
            v for key, of in dataset.keys.items() if column.source_name not in key for v in of
        ]
        mine = ~shape(dataset).isin(others) if others else F.lit(True)
        added[f"_key{n}"] = F.when(mine, F.col(tick(column.name)))
        if not held(column):
            added[f"_key{n}_raw"] = F.when(mine, raw(column))
    return changes.withColumns(added)


def shape(dataset: Dataset) -> Expression:
    """The number of the shape that a change was made under; the newest's where it is not known."""
    return F.coalesce("_relation_version", F.lit(dataset.version(None).number))


def nameless(dataset: Dataset) -> Expression:
    """Whether a row of ``placed`` does not say which row it is of: an insert without a key is a
    row of its own.
    """
    names = key_names(dataset.key_columns)
    without = F.coalesce(*(F.col(name).cast("string") for name in names)).isNull()
    own = shape(dataset).isin(dataset.keys.get((), [])) & (F.col("_change_type") == "insert")
    return without & ~own if () in dataset.keys else without


def place() -> Expression:
    """The place of a row of ``placed``: comparable, and of no other row of the table."""
    return F.struct(*PLACE)


def by_key(names: Sequence[str], *more: str) -> WindowSpec:
    """A window of each row's changes, in their order; ``names``: what rows are told apart by."""
    return Window.partitionBy(*names, *more).orderBy(*PLACE)


def truncations_before(truncations: Sequence[Truncation]) -> Expression:
    """How many truncations a row comes after."""
    known = F.from_json(
        F.lit(orjson.dumps([{"v": v, "s": s} for v, s in truncations]).decode()),
        "array<struct<v:bigint,s:int>>",
    )
    # A baseline's row comes before all that the commit at its position did.
    mine = F.struct(
        F.col("_commit_version").alias("v"),
        F.when(F.col(STREAM) == 1, F.col("_seq")).otherwise(F.lit(-1)).alias("s"),
    )
    return F.size(F.filter(known, lambda one: one < mine))


def in_epochs(rows: DataFrame, truncations: Sequence[Truncation]) -> DataFrame:
    """Rows of ``placed`` with ``_epoch``: how many truncations came before."""
    return rows.withColumn("_epoch", truncations_before(truncations) if truncations else F.lit(0))


def with_intervals(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows of ``in_epochs`` with ``_interval``, ``_gone``, ``_next`` and ``_next_gone``."""
    window = by_key(names, "_epoch")
    kind = F.col("_change_type")
    following = F.struct("_commit_version", "_commit_timestamp", STREAM, "_seq", "_change_type")
    rows = rows.withColumn(NEXT, F.lead(following).over(window))
    stays = (
        (F.col(f"{NEXT}._change_type") == "update_postimage")
        & (F.col(f"{NEXT}._commit_version") == F.col("_commit_version"))
        & (F.col(f"{NEXT}._seq") == F.col("_seq"))
    )
    gone = kind.isin("delete", LOST) | (
        (kind == "update_preimage") & ~F.coalesce(stays, F.lit(False))
    )
    rows = rows.withColumn(GONE, gone)
    rows = rows.withColumn("_next_gone", F.lead(GONE).over(window))
    begins = (kind == "insert") | F.coalesce(F.lag(GONE).over(window), F.lit(True))
    rows = rows.withColumn("_begins", begins)
    start = F.last(F.when(F.col("_begins"), place()), ignorenulls=True).over(window)
    return rows.withColumn(INTERVAL, start)


@dataclass(frozen=True)
class Unsent:
    """Columns of which some update sent no value, because a large one stayed as it was."""

    dataset: Dataset
    columns: Sequence[Column]

    def known(self, number: int) -> str:
        """The name of the last value known of a column: ``struct<value, raw>``, null: unknown."""
        return f"_known{number}"

    def filled(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """Rows of ``with_intervals`` with the last known value of each such column; where an update
        that moved its row to another key left one out, it is looked for under the key before.
        """
        moves = _some_move_unsent(rows, names)
        window = by_key(names, "_epoch")
        latest = {}
        for n, column in enumerate(self.columns):
            mine = F.struct(self._cell(column).alias("cell"), F.col(INTERVAL).alias("interval"))
            last = F.last(F.when(self.sent(column), mine), ignorenulls=True)
            latest[self.known(n)] = last.over(window)
        rows = rows.withColumns(latest)
        rows = rows.withColumns({
            name: F.when(F.col(f"{name}.interval") == F.col(INTERVAL), F.col(f"{name}.cell"))
            for name in latest
        })  # fmt: skip
        return self._followed(rows) if moves else rows

    def sent(self, column: Column) -> Expression:
        """Whether a row says what the column holds."""
        sent = ~F.array_contains("_not_sent", column.source_name)
        lacking = self.dataset.lacking(column)
        return sent & ~F.col("_relation_version").isin(lacking) if lacking else sent

    def _cell(self, column: Column) -> Expression:
        text = F.lit(None).cast("string") if held(column) else raw(column)
        return F.struct(F.col(tick(column.name)).alias("value"), text.alias("raw"))

    def _followed(self, rows: DataFrame) -> DataFrame:
        """Values that a row had under the keys it had before, however often it moved."""
        names = [self.known(n) for n in range(len(self.columns))]
        moved_in = (F.col("_change_type") == "update_postimage") & F.col("_begins")
        here = rows.where(moved_in).select(
            "_commit_version", "_seq", F.col(INTERVAL).alias("interval")
        )
        there = rows.where(F.col(GONE) & (F.col("_change_type") == "update_preimage")).select(
            "_commit_version", "_seq", F.col(INTERVAL).alias("former"), *names
        )
        found = here.join(there, ["_commit_version", "_seq"]).select("interval", "former", *names)
        found = _follow(found.persist(), names)
        resolved = found.select(
            F.col("interval").alias(INTERVAL), *(F.col(n).alias(f"{n}x") for n in names)
        )
        joined = rows.join(resolved, INTERVAL, "left")
        return joined.withColumns({n: F.coalesce(n, f"{n}x") for n in names}).drop(
            *(f"{n}x" for n in names)
        )


def _some_move_unsent(rows: DataFrame, names: Sequence[str]) -> bool:
    """Whether some update moved its row to another key without sending all of it."""
    at = ["_commit_version", "_seq"]
    key, kind = F.struct(*names), F.col("_change_type")
    moved = rows.where((kind == "update_postimage") & (F.size("_not_sent") > 0))
    before = rows.where(kind == "update_preimage").select(*at, key.alias("before"))
    both = moved.select(*at, key.alias("now")).join(before, at)
    return not both.where(~F.col("now").eqNullSafe(F.col("before"))).isEmpty()


def _follow(found: DataFrame, names: Sequence[str]) -> DataFrame:
    """Interval → what was known at the end of the interval it came from, or of those before that.

    Each round reaches twice as far back as the one before.
    """
    unknown = reduce(or_, (F.col(name).isNull() for name in names), F.lit(False))
    while True:
        back = found.select(
            F.col("interval").alias("former"),
            F.col("former").alias("further"),
            *(F.col(name).alias(f"{name}x") for name in names),
        )
        if found.where(unknown).join(back, "former", "left_semi").isEmpty():
            return found
        further = found.join(back, "former", "left").select(
            "interval",
            F.col("further").alias("former"),
            *(F.coalesce(name, f"{name}x").alias(name) for name in names),
        )
        further.persist().count()
        found.unpersist()
        found = further
