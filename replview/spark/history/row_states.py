"""Replay a table's changes by either engine: the states of its rows, and what each change did.

A table's key may change: its replica identity becomes another index, or it gets another primary
key. Each stretch of changes under one key is replayed by itself, and the states at its end are
carried into the next one. A row continues there if its values of the new key are known and no other
row has them. Otherwise its further history is unknown: its state ends as ``lost``, and it is
counted.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa

from decoder.scalars import LSN
from replview.parquet.slice_schemas import CHANGE_FIELDS, DAY, SliceColumn
from replview.spark.history.datasets import Dataset
from replview.spark.history.engines import DataFrame, Expression, F, Session, Window, by_piece
from replview.spark.history.key_chains import CHAINS, MOVES, chain_table
from replview.spark.history.replay_piece import ADDED, PLACE
from replview.spark.history.replayed_change import INCARNATION, TABLE
from replview.spark.history.row_replay import RowReplay
from replview.spark.quoting import tick
from replview.store.read.row_history.breaks import Lapse
from replview.store.read.rows import OPEN_END

#: Changes are replayed in memory, at once about as many values (changes times columns) or, where
#: the values are kept, about as many bytes.
PIECE_VALUES = 4_000_000
PIECE_BYTES = 256 * 1024 * 1024
#: Columns of the files that a replay has beside values.
_OWN = [field for field in CHANGE_FIELDS
        if field.name not in ("_lsn", "_commit_seq", "_derived", "_pg_raw")]  # fmt: skip
_RAW = next(field for field in CHANGE_FIELDS if field.name == "_pg_raw")
_FOR_REPLAY = [
    pa.field("stream", pa.int32()), pa.field("rank", pa.int32()), pa.field("key", pa.int64()),
    pa.field("row", pa.int64()), pa.field("is_carried", pa.bool_()),
    pa.field("nameless", pa.bool_()),
]  # fmt: skip


@dataclass(frozen=True)
class RowStates:
    """The changes of a table as the replay gives them: ``_FOR_REPLAY``, ``ADDED`` and values."""

    frame: DataFrame
    #: Sentences that say why rows could not be followed.
    reasons: tuple[str, ...] = ()

    @property
    def lasting(self) -> DataFrame:
        """Return the states that have not ended."""
        return self.frame.where(_is_open())


@dataclass(frozen=True)
class _KeyStretch:
    """Changes under one key, until the next stretch."""

    key: tuple[str, ...]
    #: Place of its first change as ``PLACE``, and its commit time.
    place: tuple[int, ...]
    time: dt.datetime | None

    @property
    def start(self) -> Expression:
        """Return the place of the first change."""
        kinds = ("bigint", "int", "int", "int")
        return F.struct(*(
            F.lit(value).cast(kind).alias(name)
            for name, value, kind in zip(PLACE, self.place, kinds, strict=True)
        ))  # fmt: skip


def place() -> Expression:
    """Return the place of a row, which is unique and ordered."""
    return F.struct(*PLACE)


def _raw(column: SliceColumn) -> Expression:
    """Return the text of a value that its column cannot hold; null if it can."""
    return F.try_element_at("_pg_raw", F.lit(column.source_name))


def _digest(column: SliceColumn) -> Expression:
    """Return a hash of a value, including one that its column cannot hold."""
    value, text = F.col(tick(column.name)), _raw(column)
    # Look up the text only where there is no value, since it is slow.
    other = F.when(text.isNotNull(), F.xxhash64(text, F.lit(1))).otherwise(F.lit(0))
    return F.when(value.isNotNull(), F.xxhash64(value)).otherwise(other)


def row_key(dataset: Dataset) -> Expression:
    """Return a hash of the row's key, by the table version of the change."""
    known = {column.source_name: column for column in dataset.columns}
    keys = [(key, numbers) for key, numbers in dataset.keys.items() if key]
    hashes = [F.xxhash64(*(_digest(known[name]) for name in key)) for key, _ in keys]
    tests = [_version(dataset).isin(numbers) for _, numbers in keys]
    return F.coalesce(*(F.when(*both) for both in zip(tests, hashes, strict=True)))


def nameless(dataset: Dataset) -> Expression:
    """Return the test for a change without key; an insert into a table without key is not one."""
    known = {column.source_name: column for column in dataset.columns}
    found: Any = F.lit(False)
    for key, numbers in dataset.keys.items():
        without = reduce(and_, (_is_unknown(known[name]) for name in key), F.lit(True))
        own = F.lit(bool(key)) | (F.col("_change_type") != "insert")
        found |= _version(dataset).isin(numbers) & without & own
    return found


def _is_unknown(column: SliceColumn) -> Expression:
    """Return the test for a value that is null; a mark (masked, erased) is no value."""
    is_no_value = F.coalesce(_raw(column).startswith('{"$'), F.lit(True))
    return F.col(tick(column.name)).isNull() & is_no_value


def _version(dataset: Dataset) -> Expression:
    """Return the number of a change's table version; the newest if it is unknown."""
    number = F.col("_relation_version")
    known = number.isin([version.number for version in dataset.relation.versions])
    return F.when(known, number).otherwise(F.lit(dataset.version(None).number))


def _is_open() -> Expression:
    return F.col("is_state") & F.col("ended_by").isNull()


def replayed(
    session: Session,
    dataset: Dataset,
    changes: DataFrame,
    truncations: pa.Table,
    values: Iterable[SliceColumn] = (),
) -> RowStates:
    """Replay changes of a table; the rows have the ``values`` in ``value<n>``, see ``value_of``.

    A change that does not say which row it is of is ``nameless``, and begins no state. Raises
    ``SparkProblem`` if the table never had a key.
    """
    dataset.require_key()
    wanted = [n for n, column in enumerate(dataset.columns) if column in [*values]]
    return TableReplay(session, dataset, truncations, wanted).of(changes)


def value_of(dataset: Dataset, column: SliceColumn) -> Expression:
    """Return a column's last known value."""
    return F.col(f"value{dataset.columns.index(column)}")


@dataclass(frozen=True)
class TableReplay:
    """The replay of one table."""

    session: Session
    dataset: Dataset
    truncations: pa.Table
    #: Numbers of the columns whose values are kept.
    values: Sequence[int]

    def of(self, changes: DataFrame) -> RowStates:
        """Return the states of all rows."""
        rows = self._prepared(changes)
        if len(self.dataset.keys) == 1:
            [key] = self.dataset.keys
            return RowStates(self._replay(self._keyed(rows, key, 0)))
        # Read once, since each stretch reads the rows again.
        rows = rows.localCheckpoint()
        stretches = self._stretches(rows)
        found: DataFrame = None
        carried: DataFrame = None
        reasons: list[str] = []
        for number, here in enumerate(stretches):
            own = self._keyed(_within(rows, stretches, number), here.key, number)
            if carried is not None:
                own = own.unionByName(self._keyed(carried, here.key, number))
            # Drop the plan, which the plans of later stretches would repeat.
            states = self._replay(own).localCheckpoint()
            if number + 1 < len(stretches):
                states, carried, lost = self._carried(states, here, stretches[number + 1])
                reasons += lost
            found = states if found is None else found.unionByName(states)
        return RowStates(found, tuple(reasons))

    def _prepared(self, changes: DataFrame) -> DataFrame:
        """Return the changes with what the replay needs of them, beside their key."""
        columns = self.dataset.columns
        own: dict[str, Any] = {field.name: F.col(field.name) for field in (*_OWN, DAY)}
        own["_relation_version"] = _version(self.dataset).cast("int")
        return changes.select(
            *(value.alias(name) for name, value in own.items()),
            F.col("_xid").isNotNull().cast("int").alias("stream"),
            (F.col("_change_type") != "update_preimage").cast("int").alias("rank"),
            nameless(self.dataset).alias("nameless"), F.lit(False).alias("is_carried"),
            *(_digest(column).alias(f"digest{n}") for n, column in enumerate(columns)),
            *(F.col(tick(columns[n].name)).alias(f"value{n}") for n in self.values),
            *([F.col("_pg_raw")] if self.values else ()),
        )  # fmt: skip

    def _keyed(self, rows: DataFrame, key: tuple[str, ...], stretch: int) -> DataFrame:
        """Return rows with their hash of a key, and the identity that it stands for."""
        own = F.xxhash64(*PLACE)
        if key:
            names = [column.source_name for column in self.dataset.columns]
            digests = [f"digest{names.index(name)}" for name in key]
            own = F.when(F.col("nameless"), own).otherwise(F.xxhash64(*digests))
        rows = rows.withColumn("key", own)
        # A carried state keeps the identity of the stretch before.
        is_carried = "row" in rows.columns
        return rows if is_carried else rows.withColumn("row", F.xxhash64(F.lit(stretch), "key"))

    def _replay(self, rows: DataFrame) -> DataFrame:
        """Replay keyed rows, in pieces of whole key chains."""
        facts = RowReplay(
            self.dataset.relation.versions,
            [column.source_name for column in self.dataset.columns],
            self.truncations, _lapses(self.dataset), self._schema.names,
        )  # fmt: skip
        if self.pieces > 1:
            chains = by_piece(self.session, _moves(rows), chain_table, CHAINS)
            rows = rows.join(chains, "key", "left")
            piece = F.pmod(F.coalesce("chain", "key"), F.lit(self.pieces)).cast("int")
            rows = rows.withColumn("piece", piece).drop("chain")
        return by_piece(self.session, rows, facts, self._schema)

    @property
    def pieces(self) -> int:
        """Return the number of pieces that fit into memory."""
        by_values = self.dataset.rows * len(self.dataset.columns) // PIECE_VALUES
        by_bytes = self.dataset.size_bytes // PIECE_BYTES if self.values else 0
        return max(by_values, by_bytes) + 1

    @property
    def _schema(self) -> pa.Schema:
        columns = self.dataset.columns
        kept = range(len(columns)) if len(self.dataset.keys) > 1 else ()
        return pa.schema([
            *_OWN, DAY, *_FOR_REPLAY,
            *(pa.field(f"digest{n}", pa.int64()) for n in kept),
            *(pa.field(f"value{n}", columns[n].arrow) for n in self.values),
            *([_RAW] if self.values else ()), *ADDED,
        ])  # fmt: skip

    def _stretches(self, rows: DataFrame) -> list[_KeyStretch]:
        """Return the stretches between changes of the key; at least one."""
        keys = list(self.dataset.keys)
        of_versions = [
            F.when(F.col("_relation_version").isin(numbers), F.lit(n))
            for n, numbers in enumerate(self.dataset.keys.values())
        ]
        key = F.coalesce(*of_versions).alias("key")
        # Sort within partitions, so that no task sorts all rows.
        parts = rows.select(key, place().alias("place"), "_commit_timestamp")
        parts = parts.repartitionByRange("place").withColumn("part", F.spark_partition_id())
        before = F.lag("key").over(Window.partitionBy("part").orderBy("place"))
        begun = parts.withColumn("before", before).where(~F.col("key").eqNullSafe(F.col("before")))
        found: list[_KeyStretch] = []
        for row in sorted(begun.collect(), key=lambda each: tuple(each["place"])):
            if not found or found[-1].key != keys[row["key"]]:
                time = row["_commit_timestamp"]
                found.append(_KeyStretch(keys[row["key"]], tuple(row["place"]), time))
        newest = self.dataset.version(None).key_columns
        return found or [_KeyStretch(newest, (0, 0, 0, 0), None)]

    def _carried(
        self, states: DataFrame, here: _KeyStretch, following: _KeyStretch
    ) -> tuple[DataFrame, DataFrame, list[str]]:
        """Return a stretch's states, those that go on in the next one, and what was lost."""
        states = states.withColumn("goes_on", self._goes_on(states, here, following))
        states = states.localCheckpoint()
        lost = _is_open() & ~F.col("goes_on")
        ended = {
            "ended_by": (lost, F.lit("lost")), "to_version": (lost, F.lit(following.place[0])),
            "to_time": (lost, F.lit(following.time)),
        }  # fmt: skip
        kinds = {field.name: field.dataType for field in states.schema}
        done = states.withColumns({
            **{name: F.when(*end).otherwise(F.col(name)).cast(kinds[name])
               for name, end in ended.items()},
            # The next stretch gives the state, which may end there.
            "is_state": F.col("is_state") & ~F.col("goes_on"),
        })  # fmt: skip
        carried = states.where(F.col("goes_on")).withColumns({
            "_not_sent": F.col("unknown"), "is_carried": F.lit(True),
        })  # fmt: skip
        carried = carried.drop("goes_on", *ADDED.names)
        count = states.where(lost).count()
        names = [", ".join(each.key) or "none" for each in (here, following)]
        reason = (
            f"{count} rows cannot be followed across the change of the key from ({names[0]}) to "
            f"({names[1]}) at {LSN(following.place[0])}: what became of them is unknown"
        )
        return done.drop("goes_on"), carried, [reason] if count else []

    def _goes_on(self, states: DataFrame, here: _KeyStretch, following: _KeyStretch) -> Expression:
        """Return the test for a state whose row is identified in the next stretch."""
        if not following.key:
            return _is_open()
        if not here.key and not states.where(F.col("nameless")).isEmpty():
            # Changes without key may be of any row, so no row can be followed.
            return F.lit(False)
        names = [column.source_name for column in self.dataset.columns]
        digests = [f"digest{names.index(name)}" for name in following.key]
        known = [~F.array_contains("unknown", name) for name in following.key]
        of_same = Window.partitionBy("is_state", F.col("ended_by").isNull(), *digests)
        return reduce(and_, known, _is_open()) & (F.count("*").over(of_same) == 1)


def _within(rows: DataFrame, stretches: Sequence[_KeyStretch], number: int) -> DataFrame:
    """Return the rows of one stretch."""
    here, *later = stretches[number:]
    if number:
        rows = rows.where(place() >= here.start)
    return rows.where(place() < later[0].start) if later else rows


def _moves(rows: DataFrame) -> DataFrame:
    """Return the different moves of rows between keys."""
    at = ["_commit_version", "stream", "_seq"]
    before = rows.where(F.col("_change_type") == "update_preimage")
    after = rows.where(F.col("_change_type") == "update_postimage")
    both = before.select(*at, F.col("key").alias("before")).join(
        after.select(*at, F.col("key").alias("after")), at
    )
    return both.where(F.col("before") != F.col("after")).select(*MOVES.names).distinct()


def _lapses(dataset: Dataset) -> list[Lapse]:
    """Return the times in which changes of the table may not have been published."""
    return [
        Lapse(
            relation_id=TABLE, incarnation_id=INCARNATION, from_lsn=each.from_lsn or 0,
            to_lsn=OPEN_END if each.to_lsn is None else each.to_lsn, over_lsn=OPEN_END,
            from_time=None, to_time=None, kind="", operations=each.operations,
        )
        for whole in dataset.incarnation.wholes
        for each in whole.lapses
        if each.oid == dataset.oid
    ]  # fmt: skip
