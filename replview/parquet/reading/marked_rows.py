"""Values that a mark stands for: masked, binary, not text, or kept aside because of their length.

Such a row comes with its whole JSON, since a mark read as text looks like a text that begins so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import orjson
import psycopg
import pyarrow as pa

from replview.parquet.reading.connecting import Connection

ASIDE = "$aside"
#: Beside it, where the value is another change's: transaction, seq, side.
ORIGIN = "$of"
#: Characters fetched for one portion of rows, unless one row alone has more.
_PORTION = 32 * 1024 * 1024
_PIECES = """
    SELECT content FROM large_value
    WHERE transaction_id = %s AND seq = %s AND side = %s AND "column" = %s ORDER BY piece
"""


@dataclass(slots=True)
class Marked:
    """The marked values of a batch."""

    #: Column → row → the text to put there (None: nothing) and the raw one (None: none).
    found: dict[str, dict[int, tuple[str | None, str | None]]] = field(default_factory=dict)

    def column(self, texts: pa.Array, name: str) -> tuple[pa.Array, Mapping[int, str]]:
        """A column's texts without marks, and what its raw ones are."""
        there = self.found.get(name)
        if not there:
            return texts, {}
        values = texts.to_pylist()
        raw: dict[int, str] = {}
        for place, (text, mark) in there.items():
            values[place] = text
            if mark is not None:
                raw[place] = mark
        return pa.array(values, pa.string()), raw


def unmarked(batch: pa.RecordBatch, kinds: Sequence[str], asides: "Asides") -> Marked:
    """Look at the rows that may have marks."""
    found = Marked()
    images = batch.column("marked")
    if images.null_count == len(images):
        return found
    for place, image in enumerate(images.to_pylist()):
        if image is None:
            continue
        for name, value in orjson.loads(image).items():
            if not isinstance(value, dict):
                continue
            text = mark = None
            origin = value.pop(ORIGIN, None)
            if ASIDE in value:
                transaction, seq, side = origin or _origin(batch, place, kinds)
                text = asides.text(transaction, seq, side, name)
            if text is None:
                mark = orjson.dumps(value).decode()
            found.found.setdefault(name, {})[place] = (text, mark)
    return found


def _origin(batch: pa.RecordBatch, place: int, kinds: Sequence[str]) -> tuple[int, int, str]:
    """The change and the side of it that a row of a batch is."""
    kind = kinds[batch.column("kind")[place].as_py()]
    side = "old" if kind in ("update_preimage", "delete") else "new"
    return batch.column("id")[place].as_py(), batch.column("seq")[place].as_py(), side


def as_mark(text: str) -> str:
    """A raw text, written as other marks are if it is one."""
    if not text.startswith('{"$'):
        return text
    try:
        return orjson.dumps(orjson.loads(text)).decode()
    except orjson.JSONDecodeError:
        return text


class Asides:
    """Fetches what is kept aside, over a connection of its own: the other one is in a COPY."""

    def __init__(self, connection: Connection) -> None:
        self._info = connection.info
        self._connection: Connection | None = None

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

    def text(self, transaction_id: int, seq: int, side: str, column: str) -> str | None:
        """The whole value; None where it is not there any more."""
        if self._connection is None:
            self._connection = psycopg.connect(
                self._info.dsn, password=self._info.password, autocommit=True
            )
        rows = self._connection.execute(_PIECES, [transaction_id, seq, side, column]).fetchall()
        return "".join(row[0] for row in rows) if rows else None

    def portions(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts that do not grow beyond memory when their values are fetched."""
        images = batch.column("marked")
        if images.null_count == len(images):
            yield batch
            return
        start = size = 0
        for place, image in enumerate(images.to_pylist()):
            longer = _characters_aside(image) if image is not None else 0
            if size and longer and size + longer > _PORTION:
                yield batch.slice(start, place - start)
                start, size = place, 0
            size += longer
        yield batch.slice(start)


def _characters_aside(image: str) -> int:
    values: dict[str, Any] = orjson.loads(image)
    return sum(
        int(value[ASIDE]) for value in values.values() if isinstance(value, dict) and ASIDE in value
    )
