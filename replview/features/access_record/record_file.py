"""Write the access record as JSON lines or CSV, in pieces."""

from collections.abc import Iterable, Iterator, Sequence

import orjson

from replview.access.reading import record_json
from replview.store.models import AccessRecord
from replview.ui.streaming import csv_pieces

_PIECE_BYTES = 64 * 1024
_CSV_COLUMNS = ("id", "at", "action", "user", "via", "address", "request_id", "page", "subject",
                "source", "tables", "details")  # fmt: skip


def json_pieces(records: Iterable[AccessRecord]) -> Iterator[bytes]:
    """Yield records as JSON lines, in pieces of about 64 kB."""
    piece = bytearray()
    for record in records:
        piece += orjson.dumps(record_json(record)) + b"\n"
        if len(piece) > _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def csv_lines(records: Iterable[AccessRecord]) -> Iterator[bytes]:
    """Yield a heading and one line per record; table names are separated by spaces."""
    return csv_pieces(_rows(records))


def _rows(records: Iterable[AccessRecord]) -> Iterator[Sequence[object]]:
    yield _CSV_COLUMNS
    for record in records:
        facts = record_json(record)
        facts["tables"] = " ".join(facts["tables"])
        facts["details"] = orjson.dumps(facts["details"]).decode()
        yield [facts[name] for name in _CSV_COLUMNS]
