"""Follow the rows of a table through their changes: which row had which key from when to when.

Changes of a table take effect in the order of ``(_commit_version, in the stream, _seq)``. A
baseline's rows (no ``_xid``) are what was committed before its position, so they come before the
commit that begins there. A change that has its row before is two rows: the ``update_preimage``
comes first and has the row's former key. One rule follows: a key is gone if its last row is a
``delete``, or an ``update_preimage`` without its postimage.

An *interval* is the time of one row under one key: from an insert (or the update that moved it
there) to its delete, the update that moved it away, or a truncation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Self

import pyarrow as pa

from replview.parquet.slice_schemas import SliceColumn
from replview.spark.history.datasets import Dataset
from replview.spark.history.engines import DataFrame, Expression, F, Window
from replview.spark.quoting import tick

#: Columns that ``placed`` adds: the order of rows with equal commits, and of a change's two rows.
STREAM, RANK = "_stream", "_rank"
PLACE = ("_commit_version", STREAM, "_seq", RANK)
#: Columns that ``with_intervals`` adds: the start of a row's interval, whether the row ends it, and
#: the next change of the key.
INTERVAL, GONE, NEXT = "_interval", "_gone", "_next"
#: Change type of the row that ``row_keys`` adds when a row cannot be followed any further.
LOST = "lost"
#: Arrow types whose values are always in their column, never in ``_pg_raw``.
_ALWAYS_HELD = (pa.string(), pa.bool_(), pa.int16(), pa.int32(), pa.int64())

#: Truncations are grouped by stretches of WAL of 64 MiB.
_STRETCH_BITS = 26

#: A place in history: commit LSN, and a change's seq in its transaction.
TruncationPosition = tuple[int, int]


def held(column: SliceColumn) -> bool:
    """Return whether values of the column are never in ``_pg_raw``."""
    return column.arrow in _ALWAYS_HELD


def raw(column: SliceColumn) -> Expression:
    """Return the text of a value that its column cannot hold; null if it can."""
    return F.try_element_at("_pg_raw", F.lit(column.source_name))


def key_names(keys: Sequence[SliceColumn]) -> list[str]:
    """Return the names of the columns that ``placed`` adds for a key."""
    return [f"_key{n}" for n in range(len(keys))] + [
        f"_key{n}_raw" for n, column in enumerate(keys) if not held(column)
    ]


def placed(changes: DataFrame, dataset: Dataset) -> DataFrame:
    """Return the changes with the columns that order them, and the key by their version."""
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
    """Return the number of a change's table version; the newest if it is unknown."""
    return F.coalesce("_relation_version", F.lit(dataset.version(None).number))


def nameless(dataset: Dataset) -> Expression:
    """Return the test for a change without key; an insert into a table without key is not one."""
    names = key_names(dataset.key_columns)
    without = F.coalesce(*(F.col(name).cast("string") for name in names)).isNull()
    own = shape(dataset).isin(dataset.keys.get((), [])) & (F.col("_change_type") == "insert")
    return without & ~own if () in dataset.keys else without


def place() -> Expression:
    """Return the place of a row of ``placed``, which is unique and ordered."""
    return F.struct(*PLACE)


def by_key(names: Sequence[str], *more: str) -> Any:
    """Return a window of each row's changes in order; ``names`` identify rows."""
    return Window.partitionBy(*names, *more).orderBy(*PLACE)


@dataclass(frozen=True)
class Truncations:
    """The truncations of a table; the engine holds them, since there may be many."""

    #: ``_commit_version bigint, _seq int, _commit_timestamp timestamp`` of each.
    frame: DataFrame
    count: int
    #: First and last truncation; None without any.
    first: TruncationPosition | None
    last: TruncationPosition | None

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """Read truncations from rows, which may repeat."""
        frame = frame.distinct().localCheckpoint()
        places = F.struct("_commit_version", "_seq")
        ends = F.min(places).alias("first"), F.max(places).alias("last")
        [found] = frame.agg(F.count("*").alias("count"), *ends).collect()
        first, last = (None if end is None else tuple(end) for end in found[1:])
        return cls(frame, found[0], first, last)

    @property
    def _numbered(self) -> DataFrame:
        """Return the truncations with a number from 1."""
        order = Window.partitionBy().orderBy("_commit_version", "_seq")
        return self.frame.withColumn("_number", F.row_number().over(order).cast("bigint"))

    @property
    def ends(self) -> DataFrame:
        """Return the truncation that ends each epoch.

        Columns: ``_epoch bigint, _end struct<v: its commit version, t: its time>``.
        """
        end = F.struct(F.col("_commit_version").alias("v"), F.col("_commit_timestamp").alias("t"))
        return self._numbered.select((F.col("_number") - 1).alias("_epoch"), end.alias("_end"))

    def by_stretch(self) -> DataFrame:
        """Return the truncations by stretch of WAL, from the first stretch to the last.

        Columns: ``_stretch bigint, _before bigint`` (their number before it), ``_within
        array<struct<v, s>>``.
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
    """Return the number of the stretch of WAL."""
    return F.shiftright("_commit_version", _STRETCH_BITS)


def _at(seq: str | Expression) -> Expression:
    return F.struct(F.col("_commit_version").alias("v"), F.coalesce(seq).alias("s"))


def in_epochs(rows: DataFrame, truncations: Truncations | None) -> DataFrame:
    """Return rows of ``placed`` with ``_epoch``: the number of truncations before."""
    if truncations is None or truncations.last is None:
        return rows.withColumn("_epoch", F.lit(0).cast("bigint"))
    # A baseline's row precedes the commit at its position.
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
    """Return rows of ``in_epochs`` with ``_next``, ``_gone`` and ``_begins`` (of an interval)."""
    window = by_key(names, "_epoch")
    other = F.struct("_commit_version", "_commit_timestamp", STREAM, "_seq", "_change_type")
    # Compute these together, because DuckDB would sort once for each step.
    rows = rows.withColumns({
        NEXT: F.lead(other).over(window), "_former": F.lag(other).over(window)
    })  # fmt: skip
    begins = (F.col("_change_type") == "insert") | F.coalesce(_ends("_former.", ""), F.lit(True))
    return rows.withColumns({GONE: _ends("", f"{NEXT}."), "_begins": begins}).drop("_former")


def _ends(one: str, after: str) -> Expression:
    """Return the test for a change that ends its interval.

    ``one`` and ``after`` are the prefixes of its columns and of those of the next change.
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
    """Return rows of ``with_ends`` with ``_interval`` and ``_next_gone``."""
    window = by_key(names, "_epoch")
    start = F.last(F.when(F.col("_begins"), place()), ignorenulls=True)
    return with_ends(rows, names).withColumns({
        INTERVAL: start.over(window), "_next_gone": F.lead(GONE).over(window)
    })  # fmt: skip


@dataclass(frozen=True)
class Unsent:
    """Columns that an update left out, because a large value was unchanged."""

    dataset: Dataset
    columns: Sequence[SliceColumn]

    def known(self, number: int) -> str:
        """Return the name of a column's last known value: ``struct<value, raw>``, or null."""
        return f"_known{number}"

    def filled(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """Return rows of ``with_intervals`` with the last known value of each such column.

        If an update moved its row to another key and left a value out, the former key has it.
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

    def sent(self, column: SliceColumn) -> Expression:
        """Return the test for a row that has the column's value."""
        sent = ~F.array_contains("_not_sent", column.source_name)
        lacking = self.dataset.lacking(column)
        return sent & ~F.col("_relation_version").isin(lacking) if lacking else sent

    def _cell(self, column: SliceColumn) -> Expression:
        text = F.lit(None).cast("string") if held(column) else raw(column)
        return F.struct(F.col(tick(column.name)).alias("value"), text.alias("raw"))

    def _followed(self, rows: DataFrame) -> DataFrame:
        """Return rows with values from former keys, however often the row moved."""
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
    """Return whether an update moved its row to another key and left values out."""
    at = ["_commit_version", "_seq"]
    key, kind = F.struct(*names), F.col("_change_type")
    moved = rows.where((kind == "update_postimage") & (F.size("_not_sent") > 0))
    before = rows.where(kind == "update_preimage").select(*at, key.alias("before"))
    both = moved.select(*at, key.alias("now")).join(before, at)
    return not both.where(~F.col("now").eqNullSafe(F.col("before"))).isEmpty()


def _follow(found: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return for each interval the values known at the end of the one before, or of earlier ones.

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
