"""Batches of typed rows whose missing rows before updates are filled in from the record.

The query gives an ``update_preimage`` for every update of a keyed row, with what the server sent of
it (nothing, or the old key). Here each gets what the record tells; where that is nothing, it stays
only if its update moved the row to another key.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import orjson
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.marked_rows import ASIDE, ORIGIN
from replview.parquet.reading.packed_values import INT8, Fields
from replview.parquet.slice_schemas import Column
from replview.parquet.slices import Slice, SliceTable
from replview.store.read.row_history.before_images import Before, Shared, before_at
from replview.store.read.session import Parameters, ReadSession
from replview.store.read.visibility import MASKED, Grants, Visibility

#: What the query tells besides: 0 nothing, 1 the row before may be worked out, 2 and if it cannot
#: be, the old key stands alone.
OWN_FIELDS: Fields = {"derivable": INT8}
_PLACE = ["id", "seq", "version_id", "derivable"]
#: Set here: whether the row was worked out.
DERIVED = "derived"

#: Updates looked up together: few at first, since nobody knows how large their rows are.
_FEWEST, _MOST = 64, 4_096
_CHARACTERS = 16 * 1024 * 1024


class _WholeSession(ReadSession):
    """Reads values as they are stored: the slice's own masks are laid over them afterwards."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, Visibility(self.rows, Grants))
        #: Characters of rows read since the last look.
        self.read_characters = 0

    def rows(self, statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Counted."""
        found = super().rows(statement, parameters)
        self.read_characters += sum(
            len(value) for row in found for value in row if isinstance(value, str)
        )
        return found


class Derivation:
    """Works on a connection of its own: the other one is in a COPY."""

    def __init__(
        self, connection: Connection, part: Slice, table: SliceTable, columns: Sequence[Column]
    ) -> None:
        self._info = connection.info
        self._part, self._table, self._columns = part, table, columns
        self._connection: Connection | None = None
        self._session: _WholeSession | None = None
        self._shared = Shared()
        self._together = _FEWEST
        self._masked = {*part.masked_of(table.name)}
        self._names = {
            version.id: {str(each["name"]) for each in version.columns}
            for version in table.versions
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def filled(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts of which none holds much more than what was looked up together."""
        wanted = pc.indices_nonzero(pc.fill_null(batch.column("derivable"), 0)).to_pylist()
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
        at = (
            batch.select(["id", "seq", "version_id", "derivable"])
            .take(pa.array(places))
            .to_pylist()
        )
        keys = [(each["id"], each["seq"]) for each in at]
        pasts = self._look_up(keys)
        lines: list[dict[str, Any]] = []
        order, derived = [], []
        told = dict(zip(places, zip(keys, at, strict=True), strict=True))
        for place in range(batch.num_rows):
            key, own = told.get(place, (None, None))
            past = pasts.get(key) if key is not None else None
            if past is not None and own is not None:
                order.append(batch.num_rows + len(lines))
                lines.append(self._line(batch, place, past, own["version_id"]))
            elif own is None or own["derivable"] == 2:
                order.append(place)
            else:
                continue
            derived.append(past is not None)
        made = pa.RecordBatch.from_pylist(lines, batch.schema)
        table = pa.Table.from_batches([batch, made]).take(pa.array(order, pa.int64()))
        [whole] = table.combine_chunks().to_batches() or [batch.slice(0, 0)]
        return _marked(whole, derived)

    def _look_up(self, keys: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], Before]:
        if self._session is None:
            self._connection = psycopg.connect(
                self._info.dsn, password=self._info.password, autocommit=True
            )
            # Looked up by index, row by row: compiling that costs more than it saves.
            self._connection.execute("SET jit = off; SET max_parallel_workers_per_gather = 0")
            self._session = _WholeSession(self._connection)
        self._session.read_characters = 0
        found = before_at(self._session, keys, self._shared)
        if self._session.read_characters > _CHARACTERS:
            self._together = max(1, self._together // 4)
        elif self._session.read_characters < _CHARACTERS // 4:
            self._together = min(_MOST, self._together * 2)
        return found

    def _line(
        self, batch: pa.RecordBatch, place: int, past: Before, version_id: int
    ) -> dict[str, Any]:
        """A row as the query would have given it."""
        line = {name: batch.column(name)[place].as_py() for name in ("id", "seq", "lsn", "kind")}
        line |= {"version_id": version_id, "derivable": 0}
        missing, marked = [], False
        having = self._names[version_id]
        image = {
            name: MASKED if name in self._masked and value is not None else value
            for name, value in past.image.items()
        }
        for number, column in enumerate(self._columns):
            name = column.source_name
            if name in image:
                value = image[name]
                marked = marked or isinstance(value, dict)
                line[f"x{number}"] = (
                    None if value is None or isinstance(value, dict) else str(value)
                )
            elif name in having:
                missing.append(f"{number},")
        line["missing"] = "".join(missing) or None
        line["marked"] = _with_origins(past, image) if marked else None
        return line


def _with_origins(past: Before, image: Mapping[str, Any]) -> str:
    """The row with where each value that is kept aside belongs."""
    found = {
        name: {**value, ORIGIN: list(past.origins[name])}
        if isinstance(value, dict) and ASIDE in value and name in past.origins
        else value
        for name, value in image.items()
    }
    return orjson.dumps(found).decode()


def _marked(batch: pa.RecordBatch, derived: Sequence[bool]) -> pa.RecordBatch:
    return batch.append_column(DERIVED, pa.array(derived, pa.bool_()))
