"""Plan an export: its files, which depend on the slice alone, and its rows, bytes and seconds."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Self

from psycopg import sql

from replview.parquet.reading import cut, tables_of
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.cutting import cut_tables
from replview.parquet.reading.places import (
    PLACED_DAY,
    PLACED_LSN,
    PLACED_TIME,
    conditions,
    shows_size,
)
from replview.parquet.reading.slice_tables import transactions_of
from replview.parquet.slices import LAST_SEQ, OPERATIONS, Narrowing, Slice, SliceRange, SliceTable
from replview.parquet.writing import layout
from replview.parquet.writing.files import FilePart
from replview.text.parsing import whole_number

#: The size of a file that a plan aims at.
FILE_BYTES = 128 * 1024 * 1024
#: Bytes of compressed columns per byte of the stream, a high estimate (measured: 0.03 to 0.3).
STREAM_TO_FILE = 0.25
#: Smaller slices are cut finer, so that cores share them and a resumed one repeats little.
FEWEST_ROWS = 262_144
_PARTS_WANTED = 8
_TRANSACTIONS_PER_FILE = 2_000_000
_NO_SIZE = 200.0

_TRANSACTIONS = """
    SELECT day, min(commit_seq), max(commit_seq), count(*), min(lsn), max(lsn)
    FROM (SELECT t.commit_seq, {day} AS day, ({lsn} - '0/0')::bigint AS lsn, {part} AS part
          FROM transaction t WHERE {where}) AS placed
    GROUP BY day, part ORDER BY 2
"""
_PART = "(row_number() OVER (PARTITION BY {day} ORDER BY t.commit_seq) - 1) / {most}"
_SIZES = """
    SELECT count(*), sum(t.size_bytes) FILTER (WHERE {shown})::float8,
           sum(t.inserts + t.updates + t.deletes + t.truncates + t.messages)
               FILTER (WHERE {shown})::float8
    FROM transaction t WHERE {where}
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of a slice's transactions, and the average size of their changes."""

    transactions: int
    #: The average size of a change in the stream, over all tables of transactions whose size
    #: reveals nothing withheld.
    bytes_per_change: float


#: Relation → the stretches of the slice within which its files have one schema, each with the table
#: as it is there. Any other table has a single stretch, the slice.
StretchesOf = Callable[
    [StoreConnection, Slice, Sequence[SliceTable]], Mapping[int, list[tuple[Slice, SliceTable]]]
]


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The files of an export."""

    part_of: Slice
    #: Tables by relation; each further stretch of a table has a key of its own.
    tables: Mapping[int, SliceTable]
    #: Key → the dataset's folder, relative to the root.
    folders: Mapping[int, str]
    parts: tuple[FilePart, ...]
    #: Key → the place in history (commit_seq) after which the table or stretch begins.
    begins: Mapping[int, int]

    @property
    def changes(self) -> int:
        """Return how many rows will be written, without those before updates."""
        return sum(part.within.rows for part in self.parts)

    @classmethod
    def of(
        cls, connection: StoreConnection, part: Slice, *beside: StoreConnection,
        stretches_of: StretchesOf = lambda connection, part, tables: {},
    ) -> Self:  # fmt: skip
        """Count and cut the slice, in parallel on ``beside``. Raises ``StoreProblem``."""
        whole = tables_of(connection, part)
        incarnation = layout.incarnation_folder(part)
        sizes = sizes_of(connection, part)
        stretches = stretches_of(connection, part, whole)
        asks: list[_Ask] = [partial(_days, part, sizes), partial(_events, part, sizes)]
        at_once: dict[int, tuple[SliceTable, int]] = {}
        tables, folders, begins = dict[int, SliceTable](), dict[int, str](), dict[int, int]()
        names = layout.datasets(whole)
        for table in whole:
            relation = table.relation_id
            rows = rows_per_part(table.rows or 0, sizes.bytes_per_change)
            for n, (within, some) in enumerate(stretches.get(relation, [(part, table)])):
                key = -len(tables) if n else relation
                tables[key], begins[key] = some, within.after_seq
                folders[key] = f"{incarnation}/{names[relation]}"
                if relation in stretches:
                    asks.append(partial(_stretch, key, within, some, rows))
                else:
                    at_once[key] = table, rows
        asks.append(partial(cut_tables, part=part, wanted=at_once))
        ranges = _asked(asks, [connection, *beside])
        parts: list[FilePart] = []
        for key, folder in folders.items():
            parts += _parts("table", folder, ranges[key], key)
        parts += _parts("transactions", f"{incarnation}/{layout.TRANSACTIONS}", ranges[_DAYS])
        parts += _parts("events", f"{incarnation}/{layout.EVENTS}", ranges[_EVENTS])
        return cls(part, tables, folders, tuple(parts), begins)


_Ask = Callable[[StoreConnection], dict[int, list[SliceRange]]]
#: The keys of transactions and events, beside those of tables.
_DAYS, _EVENTS = -1 << 62, -1 << 61


def _asked(
    asks: Sequence[_Ask], connections: Sequence[StoreConnection]
) -> dict[int, list[SliceRange]]:
    free: SimpleQueue[StoreConnection] = SimpleQueue()
    for each in connections:
        free.put(each)

    def answer(ask: _Ask) -> dict[int, list[SliceRange]]:
        connection = free.get()
        try:
            return ask(connection)
        finally:
            free.put(connection)

    with ThreadPoolExecutor(len(connections)) as pool:
        return {key: found for one in pool.map(answer, asks) for key, found in one.items()}


def _stretch(
    key: int, within: Slice, table: SliceTable, rows: int, connection: StoreConnection
) -> dict[int, list[SliceRange]]:
    return {key: cut(connection, within, table, rows_per_part=rows, by_day=True)}


def rows_per_part(rows: int, bytes_per_change: float) -> int:
    """Return the changes per file; small tables are divided into several files."""
    fit = int(FILE_BYTES / (bytes_per_change * STREAM_TO_FILE))
    return max(1, min(fit, max(FEWEST_ROWS, -(-rows // _PARTS_WANTED))))


def _parts(
    kind: Any, folder: str, ranges: list[SliceRange], key: int | None = None
) -> list[FilePart]:
    return [
        FilePart(kind=kind, dataset=folder, path=f"{folder}/{n}", within=within, relation_id=key)
        for n, within in zip(layout.part_names(ranges), ranges, strict=True)
    ]


def sizes_of(connection: StoreConnection, part: Slice) -> Sizes:
    """Sum the sizes of the slice's transactions."""
    where = transactions_of(connection, part)
    row = connection.execute(sql.SQL(_SIZES).format(where=where, shown=shows_size(part))).fetchone()
    count, size, changes = row or (0, None, None)
    return Sizes(count, max(1.0, size / changes) if size and changes else _NO_SIZE)


def _days(part: Slice, sizes: Sizes, connection: StoreConnection) -> dict[int, list[SliceRange]]:
    """Cut the slice into days, each of whole transactions."""
    # Numbering the transactions takes longer than the rest of the query.
    is_one = sizes.transactions <= _TRANSACTIONS_PER_FILE
    query = sql.SQL(_TRANSACTIONS).format(
        day=PLACED_DAY,
        lsn=PLACED_LSN,
        part=sql.SQL("0" if is_one else _PART).format(day=PLACED_DAY, most=_TRANSACTIONS_PER_FILE),
        where=transactions_of(connection, part),
    )
    return {_DAYS: [
        SliceRange(after=(first - 1, LAST_SEQ), through=(last, LAST_SEQ), rows=count,
                   first_lsn=first_lsn, last_lsn=last_lsn, commit_date=day, by_day=True)
        for day, first, last, count, first_lsn, last_lsn in connection.execute(query)
    ]}  # fmt: skip


def _events(part: Slice, sizes: Sizes, connection: StoreConnection) -> dict[int, list[SliceRange]]:
    wanted = ("truncate",) if part.tables else ("truncate", "message")
    asked = tuple(each for each in part.operations or OPERATIONS if each in wanted)
    if not asked:
        return {_EVENTS: []}
    most = rows_per_part(0, sizes.bytes_per_change)
    of_them = replace(part, operations=asked)
    return {_EVENTS: cut(connection, of_them, None, rows_per_part=most, by_day=True)}


#: Spark, where installed, writes slices of this many rows; REPLVIEW_SPARK_FROM_ROWS overrides it.
_SPARK_FROM_ROWS = 1_000_000
#: Measured on two cores shared with the store: the time for sessions, planning and manifests;
#: changes a second of a table with few columns; the start of Spark.
_BEGIN_SECONDS = 0.5
_ROWS_PER_SECOND = 150_000.0
_STREAM_BYTES_PER_SECOND = 30_000_000.0
_SPARK_SECONDS = 6.0
#: Changes per second whose row before is looked up in the record.
DERIVED_PER_SECOND = 2_500.0

_NEAREST = """
    (SELECT {time}, {lsn}::text FROM transaction t
     WHERE {where} AND t.commit_seq > {place} ORDER BY t.commit_seq LIMIT 1)
    UNION ALL
    (SELECT {time}, {lsn}::text FROM transaction t
     WHERE {where} AND t.commit_seq <= {place} ORDER BY t.commit_seq DESC LIMIT 1)
"""
_PLACE = "SELECT coalesce(max(t.commit_seq), 0) FROM transaction t WHERE {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEstimate:
    """The expected size of one table's files."""

    schema: str
    table: str
    #: The number of changes, counted.
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expected size and duration of an export."""

    #: Changes of tables; rows before updates come on top.
    rows: int
    transactions: int
    #: Approximate bytes on disk.
    bytes: int
    seconds: float
    #: True when Spark should write it: it is large enough, and Spark is installed with a Java.
    spark: bool
    tables: tuple[TableEstimate, ...]
    #: For an empty slice, ``{"time", "lsn"}`` of the nearest change outside of its times and LSNs.
    nearest: Mapping[str, Any] | None = None


def estimate(connection: StoreConnection, part: Slice) -> Estimate:
    """Estimate a slice from its transactions' counts. Raises ``StoreProblem``."""
    tables = tables_of(connection, part)
    sizes = sizes_of(connection, part)
    each_bytes = sizes.bytes_per_change * STREAM_TO_FILE
    rows = sum(table.rows or 0 for table in tables)
    streamed = rows * sizes.bytes_per_change / _STREAM_BYTES_PER_SECOND
    seconds = _BEGIN_SECONDS + max(rows / _ROWS_PER_SECOND, streamed)
    seconds += _looked_up(connection, part) / DERIVED_PER_SECOND
    spark = spark_writes(rows)
    return Estimate(
        rows=rows,
        transactions=sizes.transactions,
        bytes=int(rows * each_bytes),
        seconds=round(seconds + (_SPARK_SECONDS if spark else 0.0), 1),
        spark=spark,
        tables=tuple(
            TableEstimate(schema=table.schema, table=table.table, rows=n, bytes=int(n * each_bytes))
            for table in tables
            for n in [table.rows or 0]
        ),
        nearest=None if sizes.transactions else _nearest(connection, part),
    )


def _looked_up(connection: StoreConnection, part: Slice) -> int:
    """Return the number of changes whose row before must be derived; FULL tables need none."""
    looked_up = {"sent": (), "derived": ("update",), "full": ("update", "delete")}[part.before]
    asked = tuple(each for each in looked_up if each in (part.operations or OPERATIONS))
    if not asked:
        return 0
    tables = tables_of(connection, replace(part, operations=asked))
    whole = [all(v.replica_identity == "FULL" for v in table.versions) for table in tables]
    return sum(table.rows or 0 for table, full in zip(tables, whole, strict=True) if not full)


def spark_writes(rows: int) -> bool:
    """Return whether Spark should write so many rows: enough of them, and Spark is installed."""
    said = whole_number(os.environ.get("REPLVIEW_SPARK_FROM_ROWS", ""))
    return rows >= (_SPARK_FROM_ROWS if said is None else said) and spark_is_there()


def spark_is_there() -> bool:
    """Return whether PySpark and, unless a Spark Connect server has it, a Java are installed."""
    elsewhere = os.environ.get("REPLVIEW_SPARK", "").startswith("sc://")
    java = elsewhere or shutil.which("java") is not None or "JAVA_HOME" in os.environ
    return java and importlib.util.find_spec("pyspark") is not None


def _nearest(connection: StoreConnection, part: Slice) -> dict[str, Any] | None:
    """Return the place nearest to an empty slice with the same tables, actors and operations."""
    open_ended = replace(
        part, after_seq=0, through_seq=(1 << 62), since=None, until=None, from_lsn=None, to_lsn=None
    )
    where, place = transactions_of(connection, open_ended), _place(connection, part)
    query = sql.SQL(_NEAREST).format(time=PLACED_TIME, lsn=PLACED_LSN, where=where, place=place)
    found = connection.execute(query).fetchall()
    if not found:
        return None
    middle = part.since or part.until
    if middle is not None:
        found.sort(key=lambda row: abs(row[0] - middle))
    return {"time": found[0][0].isoformat(), "lsn": found[0][1]}


def _place(connection: StoreConnection, part: Slice) -> int:
    """Return the place in history before which an empty slice is."""
    before = replace(
        part, after_seq=0, through_seq=(1 << 62), since=None, from_lsn=None, actors=(), tables=(),
        operations=(), narrowed=Narrowing(), until=part.since or part.until,
        to_lsn=part.from_lsn if part.from_lsn is not None else part.to_lsn,
    )  # fmt: skip
    if before.until is None and before.to_lsn is None:
        return part.after_seq
    [(place,)] = connection.execute(sql.SQL(_PLACE).format(where=conditions(before))).fetchall()
    return int(place)
