"""Complete typed rows: replace marks by values, and derive the rows before updates.

A row with marked values (masked, binary, not text, or kept aside because of their length) comes
with its whole JSON, since a mark read as text looks like a text that begins so.

Where rows before updates are derived, the query gives an ``update_preimage`` for every update of a
keyed row, with what the server sent of it (nothing, or the old key). This module fills each from
the record. Where the record has nothing, the row stays only if its update moved the row to another
key. Where whole rows are requested, rows after updates and deleted rows are filled in the same way.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.conninfo import make_conninfo

from replview.parquet.reading.connecting import StoreConnection, connect
from replview.parquet.reading.packed_values import INT8, Fields
from replview.parquet.reading.typed_query import TRUNCATE
from replview.parquet.slice_schemas import SliceColumn
from replview.parquet.slices import Slice, SliceTable
from replview.store.read.row_history.before_images import Shared, before_at
from replview.store.read.row_history.replay import BeforeImage
from replview.store.read.session import Parameters, ReadSession, Statement
from replview.store.read.visibility import MASKED, Grants, Visibility

ASIDE = "$aside"
#: The key beside ``$aside`` where another change stored the value: transaction, seq, side.
ORIGIN = "$of"
#: Bytes of the largest value that files hold; of a larger one they have the size and the SHA-256.
#: Arrow and Parquet need a value in one piece, and writing it takes eight times its size.
MOST_BYTES = 384 * 1024 * 1024
#: Characters fetched for one portion of rows, unless one row alone has more.
_PORTION = 32 * 1024 * 1024
_PIECES = """
    SELECT content FROM large_value
    WHERE transaction_id = %s AND seq = %s AND side = %s AND "column" = %s ORDER BY piece
"""


#: Column → row → the value's text and the raw text of its mark; None where there is none.
Marks = dict[str, dict[int, tuple[str | None, str | None]]]


class SideConnection:
    """A second connection, made when first needed: the first one is in a COPY."""

    def __init__(self, connection: StoreConnection) -> None:
        self._info = connection.info
        self._made: StoreConnection | None = None

    def connection(self) -> StoreConnection:
        """Return the connection; the first call opens it."""
        if self._made is None:
            self._made = connect(make_conninfo(self._info.dsn, password=self._info.password))
        return self._made

    def close(self) -> None:
        """Close the connection if it was opened."""
        if self._made is not None:
            self._made.close()


def marks_of(batch: pa.RecordBatch, kinds: Sequence[str], beside: SideConnection) -> Marks:
    """Return the marks of a batch's rows, with the values that are kept aside."""
    found: Marks = {}
    images = batch.column("marked")
    if images.null_count == len(images):
        return found
    for place, image in enumerate(images.to_pylist()):
        for name, value in orjson.loads(image or "{}").items():
            if not isinstance(value, dict):
                continue
            text = mark = None
            origin = value.pop(ORIGIN, None)
            if ASIDE in value:
                text, too_large = _aside(beside, name, *(origin or _origin(batch, place, kinds)))
                value = too_large or value
            if text is None:
                mark = orjson.dumps(value).decode()
            found.setdefault(name, {})[place] = (text, mark)
    return found


def unmarked(marks: Marks, texts: pa.Array, name: str) -> tuple[pa.Array, Mapping[int, str]]:
    """Return a column's texts without marks, and the raw texts of its marks by row."""
    there = marks.get(name)
    if not there:
        return texts, {}
    values = texts.to_pylist()
    for place, (text, _) in there.items():
        values[place] = text
    raw = {place: mark for place, (_, mark) in there.items() if mark is not None}
    return pa.array(values, pa.string()), raw


def _aside(
    beside: SideConnection, column: str, transaction_id: int, seq: int, side: str
) -> tuple[str | None, dict[str, object] | None]:
    """Return the whole value that is kept aside; None where it has been deleted.

    The second item is the mark in place of a value that is too large for a file.
    """
    pieces: list[str] = []
    size, digest = 0, hashlib.sha256()
    key = [transaction_id, seq, side, column]
    for (piece,) in beside.connection().cursor().stream(_PIECES, key):
        raw = piece.encode()
        digest.update(raw)
        size += len(raw)
        if size <= MOST_BYTES:
            pieces.append(piece)
        else:
            pieces.clear()
    if size > MOST_BYTES:
        return None, {"$too_large": size, "$sha256": digest.hexdigest()}
    return "".join(pieces) if size else None, None


def _origin(batch: pa.RecordBatch, place: int, kinds: Sequence[str]) -> tuple[int, int, str]:
    """Return the transaction, seq and side (``old``, ``new``) of a row of a batch."""
    kind = kinds[batch.column("kind")[place].as_py()]
    side = "old" if kind in ("update_preimage", "delete") else "new"
    return batch.column("id")[place].as_py(), batch.column("seq")[place].as_py(), side


def as_mark(text: str) -> str:
    """Return a raw text; one that is a mark is written like the other marks."""
    if not text.startswith('{"$'):
        return text
    try:
        return orjson.dumps(orjson.loads(text)).decode()
    except orjson.JSONDecodeError:
        return text


def portions(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split the batch so that the values kept aside of each part fit in memory."""
    images = batch.column("marked")
    if images.null_count == len(images):
        yield batch
        return
    start = size = 0
    for place, image in enumerate(images.to_pylist()):
        values = orjson.loads(image).values() if image else ()
        longer = sum(int(v[ASIDE]) for v in values if isinstance(v, dict) and ASIDE in v)
        if size and longer and size + longer > _PORTION:
            yield batch.slice(start, place - start)
            start, size = place, 0
        size += longer
    yield batch.slice(start)


#: The query's column ``derivable``: 0 not derivable, 1 the row before may be derived, 2 the same,
#: and a row that cannot be derived stays, with its old key alone.
OWN_FIELDS: Fields = {"derivable": INT8}
_PLACE = ["id", "seq", "version_id", "derivable"]
#: The first value of ``kind`` that is a row after an update, or a deleted row.
_AFTER = 2
#: The column that this module adds: true when the row, or some of it, was derived.
DERIVED = "derived"

#: Updates looked up together: few at first, since the size of their rows is unknown.
_FEWEST, _MOST = 64, 4_096
_CHARACTERS = 16 * 1024 * 1024


class _WholeSession(ReadSession):
    """A session that reads values as stored: the slice's own masks are applied afterwards."""

    def __init__(self, connection: StoreConnection) -> None:
        super().__init__(connection, Visibility(self.rows, Grants))
        #: Characters read since the last lookup began.
        self.read_characters = 0

    def rows(
        self, statement: Statement, parameters: Parameters | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the statement's rows, and count their characters."""
        found = super().rows(statement, parameters)
        self.read_characters += sum(
            len(value) for row in found for value in row if isinstance(value, str)
        )
        return found


class Derivation:
    """Derives the rows before the updates of one table."""

    def __init__(
        self, beside: SideConnection, part: Slice, table: SliceTable, columns: Sequence[SliceColumn]
    ) -> None:
        self._beside = beside
        self._columns = columns
        self._session: _WholeSession | None = None
        self._shared = Shared()
        self._together = _FEWEST
        self._whole = part.before == "full"
        self._masked = {*part.masked_of(table.name)}
        self._names = {
            version.id: {str(each["name"]) for each in version.columns}
            for version in table.versions
        }

    def filled(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch in parts, with the rows before its updates derived.

        A part ends before the first row that was not looked up with the others of the part.
        """
        asked = pc.greater(pc.fill_null(batch.column("derivable"), 0), 0)
        if self._whole:
            kind = batch.column("kind")
            whole = pc.and_(pc.greater_equal(kind, _AFTER), pc.less(kind, TRUNCATE))
            asked = pc.or_(asked, pc.and_(whole, batch.column("missing").is_valid()))
        wanted = pc.indices_nonzero(asked).to_pylist()
        start = done = 0
        while done < len(wanted):
            some = wanted[done : done + self._together]
            done += len(some)
            end = wanted[done] if done < len(wanted) else batch.num_rows
            yield self._portion(batch.slice(start, end - start), [place - start for place in some])
            start = end
        if start < batch.num_rows:
            yield _marked(batch.slice(start), [False] * (batch.num_rows - start))

    def _portion(self, batch: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
        at = batch.select(_PLACE).take(pa.array(places)).to_pylist()
        pasts = self._look_up([(each["id"], each["seq"]) for each in at])
        lines: list[dict[str, Any]] = []
        order, derived = [], []
        by_place = dict(zip(places, at, strict=True))
        for place in range(batch.num_rows):
            own = by_place.get(place, {"id": None, "seq": None, "derivable": 0})
            past = pasts.get((own["id"], own["seq"]))
            line = None if past is None else self._told(batch, place, past, own)
            if line is not None:
                order.append(batch.num_rows + len(lines))
                lines.append(line)
            elif own["derivable"] != 1:
                order.append(place)
            else:
                continue
            derived.append(line is not None)
        made = pa.RecordBatch.from_pylist(lines, batch.schema)
        table = pa.Table.from_batches([batch, made]).take(pa.array(order, pa.int64()))
        [whole] = table.combine_chunks().to_batches() or [batch.slice(0, 0)]
        return _marked(whole, derived)

    def _look_up(self, keys: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], BeforeImage]:
        if self._session is None:
            self._session = _WholeSession(self._beside.connection())
        self._session.read_characters = 0
        found = before_at(self._session, keys, self._shared, sent=self._whole)
        if self._session.read_characters > _CHARACTERS:
            self._together = max(1, self._together // 4)
        elif self._session.read_characters < _CHARACTERS // 4:
            self._together = min(_MOST, self._together * 2)
        return found

    def _told(
        self, batch: pa.RecordBatch, place: int, past: BeforeImage, own: Mapping[str, Any]
    ) -> dict[str, object] | None:
        """Return a row completed from the record; None where the record adds nothing."""
        if own["derivable"]:
            return self._line(batch, place, past, own["version_id"])
        line: dict[str, Any] = {
            name: batch.column(name)[place].as_py() for name in batch.schema.names
        }
        missing = line["missing"].rstrip(",").split(",")
        names = {number: self._columns[int(number)].source_name for number in missing}
        found = self._shown(past, {*names.values()})
        for number, name in names.items():
            line[f"x{number}"] = _plain(found.get(name))
        left = [f"{number}," for number in missing if names[number] not in found]
        line["missing"] = "".join(left) or None
        if any(isinstance(value, dict) for value in found.values()):
            mine = orjson.loads(line["marked"] or "{}")
            line["marked"] = _with_origins(past, {**mine, **found}, {*found})
        return line if found else None

    def _shown(self, past: BeforeImage, names: Collection[str]) -> dict[str, Any]:
        """Return the known values of these columns in the row before, with the slice's masks."""
        return {
            name: MASKED if name in self._masked else value
            for name, value in past.image.items()
            if name in names
        }

    def _line(
        self, batch: pa.RecordBatch, place: int, past: BeforeImage, version_id: int
    ) -> dict[str, object]:
        """Return the row before an update in the columns of the query."""
        line = {name: batch.column(name)[place].as_py() for name in ("id", "seq", "lsn", "kind")}
        line |= {"version_id": version_id, "derivable": 0}
        missing, marked = [], False
        having = self._names[version_id]
        image = self._shown(past, past.image.keys())
        for number, column in enumerate(self._columns):
            name = column.source_name
            if name in image:
                value = image[name]
                marked = marked or isinstance(value, dict)
                line[f"x{number}"] = _plain(value)
            elif name in having:
                missing.append(f"{number},")
        line["missing"] = "".join(missing) or None
        line["marked"] = _with_origins(past, image, past.origins) if marked else None
        return line


def _plain(value: object) -> str | None:
    """Return a value as the query gives it; None for a mark, which is in the column ``marked``."""
    return None if value is None or isinstance(value, dict) else str(value)


def _with_origins(past: BeforeImage, image: Mapping[str, object], of_past: Collection[str]) -> str:
    """Return the row as JSON, with the origin of each value of ``of_past`` that is kept aside."""
    found = {
        name: {**value, ORIGIN: list(past.origins[name])}
        if isinstance(value, dict) and ASIDE in value and name in past.origins and name in of_past
        else value
        for name, value in image.items()
    }
    return orjson.dumps(found).decode()


def _marked(batch: pa.RecordBatch, derived: Sequence[bool]) -> pa.RecordBatch:
    return batch.append_column(DERIVED, pa.array(derived, pa.bool_()))
