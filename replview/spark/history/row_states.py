"""Replay a table's changes by either engine: the states of its rows, and what each change did.

A table's key may change: its replica identity becomes another index, or it gets another primary
key. Each stretch of changes under one key is replayed by itself, and the states at its end are
carried into the next one. A row continues there if its values of the new key are known and no other
row has them. Otherwise its further history is unknown: its state ends as ``lost``, and it is
counted.
"""

# All names in SQL are ours, and values of others are literals.
# ruff: noqa: S608

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from decoder.scalars import LSN
from replview.parquet.slice_schemas import CHANGE_FIELDS, DAY, SliceColumn
from replview.spark.history.change_sql import (
    digest_of,
    hash_of,
    nameless,
    not_before,
    version_of,
)
from replview.spark.history.datasets import Dataset
from replview.spark.history.duckdb_session import DuckSession
from replview.spark.history.engines import DataFrame, Session, by_piece
from replview.spark.history.key_chains import CHAINS, chain_table
from replview.spark.history.replay_piece import ADDED, PLACE
from replview.spark.history.replayed_change import INCARNATION, TABLE
from replview.spark.history.row_replay import RowReplay, never
from replview.spark.quoting import shared_literal, timestamp
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
    pa.field("row_id", pa.int64()), pa.field("is_carried", pa.bool_()),
    pa.field("nameless", pa.bool_()),
]  # fmt: skip


@dataclass(frozen=True)
class RowStates:
    """The changes of a table as the replay gives them: ``_FOR_REPLAY``, ``ADDED`` and values."""

    session: Session
    frame: DataFrame
    #: Sentences that say why rows could not be followed.
    reasons: tuple[str, ...] = ()

    @property
    def lasting(self) -> DataFrame:
        """Return the states that have not ended."""
        return self.session.sql(f"SELECT * FROM {{rows}} WHERE {_IS_OPEN}", rows=self.frame)


@dataclass(frozen=True)
class _KeyStretch:
    """Changes under one key, until the next stretch."""

    key: tuple[str, ...]
    #: Place of its first change as ``PLACE``, and its commit time.
    place: tuple[int, ...]
    time: dt.datetime | None

    @property
    def begins(self) -> str:
        """Return the SQL condition for a change at or after the first one."""
        return not_before(PLACE, self.place)


_IS_OPEN = "is_state AND ended_by IS NULL"


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
            return RowStates(self.session, self._replay(self._keyed(rows, key, 0)))
        # Read once, since each stretch reads the rows again.
        rows = rows.localCheckpoint()
        stretches = self._stretches(rows)
        found: DataFrame = None
        carried: DataFrame = None
        reasons: list[str] = []
        for number, here in enumerate(stretches):
            own = self._keyed(self._within(rows, stretches[number:]), here.key, number)
            if carried is not None:
                own = self._both(own, self._keyed(carried, here.key, number))
            # Drop the plan, which the plans of later stretches would repeat.
            states = self._replay(own).localCheckpoint()
            if number + 1 < len(stretches):
                states, carried, lost = self._carried(states, here, stretches[number + 1])
                reasons += lost
            found = states if found is None else self._both(found, states)
        return RowStates(self.session, found, tuple(reasons))

    def _both(self, first: DataFrame, second: DataFrame) -> DataFrame:
        names = ", ".join(first.columns)
        return self.session.sql(
            f"SELECT {names} FROM {{first}} UNION ALL SELECT {names} FROM {{second}}",
            first=first, second=second,
        )  # fmt: skip

    def _within(self, rows: DataFrame, stretches: Sequence[_KeyStretch]) -> DataFrame:
        """Return the rows of the first of these stretches."""
        here, *later = stretches
        until = f" AND NOT {later[0].begins}" if later else ""
        return self.session.sql(f"SELECT * FROM {{rows}} WHERE {here.begins}{until}", rows=rows)

    def _prepared(self, changes: DataFrame) -> DataFrame:
        """Return the changes with what the replay needs of them, beside their key."""
        own = [field.name for field in (*_OWN, DAY) if field.name != "_relation_version"]
        digests = [digest_of(self.dataset, column) for column in self.dataset.columns]
        columns = [
            *own, f"CAST({version_of(self.dataset)} AS int) AS _relation_version",
            "CASE WHEN _xid IS NULL THEN 0 ELSE 1 END AS stream",
            "CASE WHEN _change_type = 'update_preimage' THEN 0 ELSE 1 END AS rank",
            f"{nameless(self.dataset)} AS nameless", "false AS is_carried",
            *(f"{digest} AS digest{n}" for n, digest in enumerate(digests)),
            *(f"value{n}" for n in self.values), *(["_pg_raw"] if self.values else []),
        ]  # fmt: skip
        return self.session.sql(f"SELECT {', '.join(columns)} FROM {{rows}}", rows=changes)

    def _keyed(self, rows: DataFrame, key: tuple[str, ...], stretch: int) -> DataFrame:
        """Return rows with their hash of a key, and the identity that it stands for."""
        own = hash_of(PLACE)
        if key:
            names = [column.source_name for column in self.dataset.columns]
            digests = [f"digest{names.index(name)}" for name in key]
            own = f"CASE WHEN nameless THEN {own} ELSE {hash_of(digests)} END"
        columns = [name for name in rows.columns if name != "key"]
        text = f"SELECT {', '.join(columns)}, {own} AS key FROM {{rows}}"
        # A carried state keeps the identity of the stretch before.
        if "row_id" not in columns:
            text = f"SELECT *, {hash_of((str(stretch), 'key'))} AS row_id FROM ({text})"
        return self.session.sql(text, rows=rows)

    def _replay(self, rows: DataFrame) -> DataFrame:
        """Replay keyed rows, in pieces of whole key chains."""
        facts = RowReplay(
            self.dataset.relation.versions,
            [column.source_name for column in self.dataset.columns],
            self.truncations, _lapses(self.dataset), self._schema.names,
            is_interrupted=self.session.is_interrupted
            if isinstance(self.session, DuckSession) else never,
        )  # fmt: skip
        if self.pieces > 1:
            chains = by_piece(self.session, self._moves(rows), chain_table, CHAINS)
            place = f"coalesce(chains.chain, changes.key) % {self.pieces}"
            rows = self.session.sql(
                f"""
                SELECT changes.*, CAST(({place} + {self.pieces}) % {self.pieces} AS int) AS piece
                FROM {{changes}} AS changes LEFT JOIN {{chains}} AS chains
                    ON changes.key = chains.key
                """,
                changes=rows, chains=chains,
            )  # fmt: skip
        return by_piece(self.session, rows, facts, self._schema)

    def _moves(self, rows: DataFrame) -> DataFrame:
        """Return the different moves of rows between keys."""
        return self.session.sql(
            """
            SELECT DISTINCT former.key AS before, latter.key AS after
            FROM {rows} AS former JOIN {rows} AS latter
                ON former._commit_version = latter._commit_version
                AND former.stream = latter.stream AND former._seq = latter._seq
            WHERE former._change_type = 'update_preimage'
                AND latter._change_type = 'update_postimage' AND former.key <> latter.key
            """,
            rows=rows,
        )

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
        cases = (
            f"WHEN _relation_version IN ({', '.join(map(str, numbers))}) THEN {n}"
            for n, numbers in enumerate(self.dataset.keys.values())
        )
        place = ", ".join(PLACE)
        # Sort within partitions, so that no task sorts all rows. (DuckDB ignores the hint.)
        begun = self.session.sql(
            f"""
            SELECT key_number, _commit_timestamp, {place} FROM (
                SELECT *, lag(key_number) OVER (PARTITION BY part ORDER BY {place}) AS before FROM (
                    SELECT *, spark_partition_id() AS part FROM (
                        SELECT /*+ REPARTITION_BY_RANGE({place}) */
                            CASE {" ".join(cases)} END AS key_number, _commit_timestamp, {place}
                        FROM {{rows}})))
            WHERE key_number IS DISTINCT FROM before
            """,
            rows=rows,
        )
        found: list[_KeyStretch] = []
        for number, time, *place in sorted(begun.collect(), key=lambda row: row[2:]):
            if not found or found[-1].key != keys[number]:
                found.append(_KeyStretch(keys[number], tuple(place), time))
        newest = self.dataset.version(None).key_columns
        return found or [_KeyStretch(newest, (0, 0, 0, 0), None)]

    def _carried(
        self, states: DataFrame, here: _KeyStretch, following: _KeyStretch
    ) -> tuple[DataFrame, DataFrame, list[str]]:
        """Return a stretch's states, those that go on in the next one, and what was lost."""
        goes_on = self._goes_on(states, here, following)
        states = self.session.sql(f"SELECT *, {goes_on} AS goes_on FROM {{rows}}", rows=states)
        states = states.localCheckpoint()
        lost = f"{_IS_OPEN} AND NOT goes_on"
        assert following.time is not None
        ends = {"ended_by": "'lost'", "to_version": following.place[0],
                "to_time": timestamp(following.time)}  # fmt: skip
        columns = {
            **{name: name for name in states.columns if name != "goes_on"},
            **{name: f"CASE WHEN {lost} THEN {end} ELSE {name} END" for name, end in ends.items()},
            # The next stretch gives the state, which may end there.
            "is_state": "is_state AND NOT goes_on",
        }
        done = self._columns(columns, states)
        more = {"_not_sent": "unknown", "is_carried": "true"}
        own = {name: more.get(name, name) for name in columns if name not in ADDED.names}
        carried = self._columns(own, states, "goes_on")
        count = self._columns({"key": "key"}, states, lost).count()
        names = [", ".join(each.key) or "none" for each in (here, following)]
        reason = (
            f"{count} rows cannot be followed across the change of the key from ({names[0]}) to "
            f"({names[1]}) at {LSN(following.place[0])}: what became of them is unknown"
        )
        return done, carried, [reason] if count else []

    def _columns(
        self, columns: Mapping[str, str], rows: DataFrame, condition: str = "true"
    ) -> DataFrame:
        chosen = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        return self.session.sql(f"SELECT {chosen} FROM {{rows}} WHERE {condition}", rows=rows)

    def _goes_on(self, states: DataFrame, here: _KeyStretch, following: _KeyStretch) -> str:
        """Return the test for a state whose row is identified in the next stretch."""
        if not following.key:
            return f"({_IS_OPEN})"
        if not here.key and self._columns({"key": "key"}, states, "nameless").take(1):
            # Changes without key may be of any row, so no row can be followed.
            return "false"
        names = [column.source_name for column in self.dataset.columns]
        digests = [f"digest{names.index(name)}" for name in following.key]
        known = [f"NOT array_contains(unknown, {shared_literal(each)})" for each in following.key]
        of_same = ", ".join(["is_state", "ended_by IS NULL", *digests])
        is_one = f"count(*) OVER (PARTITION BY {of_same}) = 1"
        return f"({' AND '.join([_IS_OPEN, *known, is_one])})"


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
