"""Read one baseline: a table's rows as of one position, stored in pieces, then made visible.

Memory holds one piece of rows at a time. If reading is interrupted, the hidden rows are discarded,
and the table is read from the beginning when the baseline is requested again.
"""

import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from decoder.messages import Value
from decoder.scalars import LSN
from decoder.values import ValueDecoder
from replview.catalog.problems import SourceProblem
from replview.receiver.baselines.reading import SnapshotReader, TableSnapshot
from replview.receiver.baselines.storing import BaselineLost, BaselineWriter, IncarnationEnded
from replview.receiver.problems import name_trouble, refused, trouble
from replview.receiver.sessions.pump import StoreFailed

if TYPE_CHECKING:
    from replview.store.models import Baseline

#: Rows and bytes of one piece, which is stored in one store transaction.
_PIECE_ROWS = 5000
_PIECE_BYTES = 4 * 1024 * 1024
#: Seconds that a piece takes to read when the rate is limited.
_PIECE_SECONDS = 0.5
_MAX_ROWS = (1 << 31) - 1
_PAUSE_SECONDS = 0.25
# Source: PostgreSQL documentation, COPY, "Text Format". In every encoding that is used here, a byte
# below 128 is the same character as in ASCII.
_ESCAPES = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
}
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_NULL = b"\\N"


class BaselineStopped(Exception):
    """This worker is told to stop: another one reads the table from the beginning."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a baseline: the number of rows, and its position in WAL and history."""

    rows: int
    lsn: LSN
    commit_seq: int


@dataclass(frozen=True, slots=True)
class BaselineFacts:
    """The facts of the slot that reading a baseline needs."""

    publications: list[str]
    column_rules: dict[str, dict[str, str]]
    #: Cluster and timeline of the incarnation that the baseline belongs to.
    system_identifier: str
    timeline: int


def read_baseline(
    claim: "Baseline", store: psycopg.Connection[Any], conninfo: str, stop: threading.Event
) -> Done:
    """Read the claimed table and store it.

    Raises ``SourceProblem`` with what is wrong at the source, ``BaselineLost``,
    ``BaselineStopped``, ``StoreFailed``.
    """
    facts = _read_facts(claim, store)
    writer = BaselineWriter(store, claim)
    try:
        return _read(claim, facts, writer, conninfo, stop)
    except (SourceProblem, BaselineLost, BaselineStopped, StoreFailed):
        raise
    except IncarnationEnded:
        raise trouble("incarnation_ended") from None
    except Exception as error:
        if isinstance(error, psycopg.Error) and store.closed:
            raise StoreFailed(type(error).__name__) from error
        raise _problem_behind(error, claim, facts, conninfo) from error


def _read(
    claim: "Baseline",
    facts: BaselineFacts,
    writer: BaselineWriter,
    conninfo: str,
    stop: threading.Event,
) -> Done:
    def tick() -> None:
        if stop.is_set():
            raise BaselineStopped
        writer.beat()

    reader = SnapshotReader(conninfo, tick)
    try:
        identifier, timeline = reader.identify()
        if (identifier, timeline) != (facts.system_identifier, facts.timeline):
            raise trouble("other_cluster")
        snapshot = reader.open(claim.schema, claim.table, facts.publications)
        writer.begin(snapshot, system_identifier=identifier, column_rules=facts.column_rules)
        _copy(reader, snapshot, writer, tick)
    finally:
        reader.close()
    return Done(writer.rows, snapshot.lsn, writer.finish())


def _copy(
    reader: SnapshotReader, snapshot: TableSnapshot, writer: BaselineWriter, tick: Any
) -> None:
    """Store all rows of the table, no faster than the rate limit."""
    columns = snapshot.relation.columns
    parser = RowParser(tuple(column.type_oid for column in columns), snapshot.encoding)
    pace = _RateLimit(tick, writer.rows_per_second)

    def piece_rows() -> int:
        """Return the rows of the next piece: few at a low rate, so that rows come evenly."""
        rate = writer.rows_per_second
        return _PIECE_ROWS if rate is None else max(1, min(_PIECE_ROWS, int(rate * _PIECE_SECONDS)))

    for lines in reader.rows(snapshot, piece_rows, _PIECE_BYTES):
        tick()
        if writer.rows + len(lines) > _MAX_ROWS:
            raise trouble("too_many_rows")
        writer.write([parser.parse(line) for line in lines], sum(map(len, lines)))
        pace.keep(writer.rows, writer.rows_per_second)


class _RateLimit:
    """A rate limit: it waits so that no more rows a second are read than requested."""

    def __init__(self, tick: Any, rate: int | None) -> None:
        self._tick = tick
        self._rate = rate
        self._from = (time.monotonic(), 0)

    def keep(self, rows: int, rate: int | None) -> None:
        """Wait until ``rows`` rows may have been read at this rate."""
        if rate != self._rate:  # the rate was changed
            self._rate, self._from = rate, (time.monotonic(), rows)
        if rate is None:
            return
        begun, rows_at_start = self._from
        deadline = begun + (rows - rows_at_start) / rate
        while (remaining := deadline - time.monotonic()) > 0:
            time.sleep(min(remaining, _PAUSE_SECONDS))
            self._tick()


def _read_facts(claim: "Baseline", store: psycopg.Connection[Any]) -> BaselineFacts:
    row = store.execute(
        "SELECT s.publications, s.column_rules, i.system_identifier, i.timeline, s.plugin "
        "FROM slot s JOIN slot_incarnation i ON i.id = s.incarnation_id "
        "WHERE s.id = %s AND s.incarnation_id = %s AND s.desired <> 'removing'",
        [claim.slot_id, claim.incarnation_id],
    ).fetchone()
    if row is None:
        raise trouble("incarnation_ended")
    if row[4] != "pgoutput":
        raise trouble("other_plugin", plugin=row[4])
    return BaselineFacts(row[0], row[1], row[2], row[3])


def _problem_behind(
    error: Exception, claim: "Baseline", facts: BaselineFacts, conninfo: str
) -> SourceProblem:
    """Return the problem behind an error, without any value of the source."""
    role = ""
    if isinstance(error, psycopg.Error):
        role = str(psycopg.conninfo.conninfo_to_dict(conninfo).get("user") or "")
    refusal = refused(error, claim.schema, claim.table, role)
    return refusal or name_trouble(
        error, conninfo=conninfo, slot="(temporary)", publications=facts.publications
    )


class RowParser:
    """A parser of ``COPY … TO STDOUT`` in text format: it yields values as the stream has them."""

    def __init__(self, type_oids: tuple[int, ...], encoding: str) -> None:
        """Set the column types, and ``encoding``: Python's name of the session's encoding."""
        self._type_oids = type_oids
        self._encoding = encoding
        self._values = ValueDecoder(encoding)

    def parse(self, line: bytes) -> list[Value]:
        """Return a line's values in column order.

        Raises ``ValueError`` if their number is wrong.
        """
        if not self._type_oids:
            return []
        line = line[:-1]  # its line feed
        if b"\\" not in line:
            try:
                values: list[Value] = list(line.decode(self._encoding).split("\t"))
            except UnicodeError:
                values = self._one_by_one(line)
        else:
            values = self._one_by_one(line)
        if len(values) != len(self._type_oids):
            raise ValueError(f"{len(values)} values in a row of {len(self._type_oids)} columns")
        return values

    def _one_by_one(self, line: bytes) -> list[Value]:
        fields = line.split(b"\t")
        return [
            None if field == _NULL else self._values.text(_plain(field), oid)
            for field, oid in zip(fields, self._type_oids, strict=True)
        ]


def _plain(field: bytes) -> bytes:
    if b"\\" not in field:
        return field
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), field)
