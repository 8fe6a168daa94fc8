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
from typing import Any, Self

import pyarrow as pa

from replview.parquet.slice_schemas import Column
from replview.spark.history.datasets import Dataset
from replview.spark.history.engines import DataFrame, Expression, F, Window
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

#: Truncations are looked for in stretches of WAL of 64 MiB.
_STRETCH_BITS = 26

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


def by_key(names: Sequence[str], *more: str) -> Any:
    """A window of each row's changes, in their order; ``names``: what rows are told apart by."""
    return Window.partitionBy(*names, *more).orderBy(*PLACE)


@dataclass(frozen=True)
class Truncations:
    """Where a table was truncated; however often, it is the engine that holds them."""

    #: ``_commit_version bigint, _seq int, _commit_timestamp timestamp`` of each.
    frame: DataFrame
    count: int
    #: None: there are none.
    first: Truncation | None
    last: Truncation | None

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """Of these rows; one may be there several times."""
        frame = frame.distinct().localCheckpoint()
        places = F.struct("_commit_version", "_seq")
        ends = F.min(places).alias("first"), F.max(places).alias("last")
        [found] = frame.agg(F.count("*").alias("count"), *ends).collect()
        first, last = (None if end is None else tuple(end) for end in found[1:])
        return cls(frame, found[0], first, last)

    @property
    def _numbered(self) -> DataFrame:
        """From 1."""
        order = Window.partitionBy().orderBy("_commit_version", "_seq")
        return self.frame.withColumn("_number", F.row_number().over(order).cast("bigint"))

    @property
    def ends(self) -> DataFrame:
        """The truncation that ends each epoch: ``_epoch bigint, _end struct<v: its commit version,
        t: its time>``.
        """
        end = F.struct(F.col("_commit_version").alias("v"), F.col("_commit_timestamp").alias("t"))
        return self._numbered.select((F.col("_number") - 1).alias("_epoch"), end.alias("_end"))

    def by_stretch(self) -> DataFrame:
        """For each stretch of WAL from the first to the last: ``_stretch bigint, _before bigint``
        (how many there are before it), ``_within array<struct<v, s>>``.
        """
        own = self._numbered.groupBy(_stretch().alias("_own")).agg(
            (F.min("_number") - 1).alias("_before"),
            F.max("_number").alias("_through"),
            F.collect_list(_at("_seq")).alias("_within"),
        )
        order = Window.partitionBy().orderBy("_own")
        until = F.coalesce(F.lead("_own").over(order), F.col("_own") + 1) - 1
        every = own.withColumn("_until", until).withColumn(
            "_stretch", F.explode(F.sequence("_own", "_until"))
        )
        first = F.col("_stretch") == F.col("_own")
        before = F.when(first, F.col("_before")).otherwise(F.col("_through"))
        within = F.when(first, F.col("_within"))
        return every.select("_stretch", before.alias("_before"), within.alias("_within"))


def _stretch() -> Expression:
    """Which part of WAL something is in."""
    return F.shiftright("_commit_version", _STRETCH_BITS)


def _at(seq: str | Expression) -> Expression:
    return F.struct(F.col("_commit_version").alias("v"), F.coalesce(seq).alias("s"))


def in_epochs(rows: DataFrame, truncations: Truncations | None) -> DataFrame:
    """Rows of ``placed`` with ``_epoch``: how many truncations came before."""
    if truncations is None or truncations.last is None:
        return rows.withColumn("_epoch", F.lit(0).cast("bigint"))
    # A baseline's row comes before all that the commit at its position did.
    mine = _at(F.when(F.col(STREAM) == 1, F.col("_seq")).otherwise(F.lit(-1)))
    lsn, seq = truncations.last
    last = F.struct(F.lit(lsn).cast("bigint").alias("v"), F.lit(seq).cast("int").alias("s"))
    within = F.coalesce(F.size(F.filter(F.col("_within"), lambda one: one < mine)), F.lit(0))
    rows = rows.withColumn("_stretch", _stretch())
    rows = rows.join(truncations.by_stretch(), "_stretch", "left")
    epoch = F.when(mine > last, F.lit(truncations.count)).otherwise(
        F.coalesce("_before", F.lit(0)) + within
    )
    rows = rows.withColumn("_epoch", epoch.cast("bigint"))
    return rows.drop("_stretch", "_before", "_within")


def with_ends(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows of ``in_epochs`` with ``_next``, ``_gone`` and ``_begins``: whether one begins an
    interval.
    """
    window = by_key(names, "_epoch")
    other = F.struct("_commit_version", "_commit_timestamp", STREAM, "_seq", "_change_type")
    # Together: each that is told by another would be sorted once more by DuckDB.
    rows = rows.withColumns({
        NEXT: F.lead(other).over(window), "_former": F.lag(other).over(window)
    })  # fmt: skip
    begins = (F.col("_change_type") == "insert") | F.coalesce(_ends("_former.", ""), F.lit(True))
    return rows.withColumns({GONE: _ends("", f"{NEXT}."), "_begins": begins}).drop("_former")


def _ends(one: str, after: str) -> Expression:
    """Whether a change ends its interval; before these words stand its columns, and those of the
    one after it.
    """
    kind = F.col(f"{one}_change_type")
    stays = (
        (F.col(f"{after}_change_type") == "update_postimage")
        & (F.col(f"{after}_commit_version") == F.col(f"{one}_commit_version"))
        & (F.col(f"{after}_seq") == F.col(f"{one}_seq"))
    )
    leaves = (kind == "update_preimage") & ~F.coalesce(stays, F.lit(False))
    return kind.isin("delete", LOST) | leaves


def with_intervals(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows of ``with_ends`` with ``_interval`` and ``_next_gone``, too."""
    window = by_key(names, "_epoch")
    start = F.last(F.when(F.col("_begins"), place()), ignorenulls=True)
    return with_ends(rows, names).withColumns({
        INTERVAL: start.over(window), "_next_gone": F.lead(GONE).over(window)
    })  # fmt: skip


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
