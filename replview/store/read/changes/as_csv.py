"""Changes as CSV: one line a change, what has an inner form (rows, keys, context) as JSON.

Cells of free text that a spreadsheet would take for a formula (and those that begin with an
apostrophe) begin with one apostrophe more; nothing else is altered. An empty cell is null.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from replview.store.read.changes.as_json import Record

COLUMNS = (
    "slot", "incarnation", "commit_seq", "xid", "gid", "commit_lsn", "end_lsn", "commit_time",
    "origin", "actor", "context", "seq", "lsn", "subxid", "op", "schema", "table",
    "relation_oid", "version", "key", "old", "new", "not_sent", "cascade", "restart_identity",
    "prefix", "content", "content_base64", "transactional",
)  # fmt: skip
#: What a spreadsheet may take for the beginning of a formula, and the sign that says it is none.
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def csv_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """The heading, then a line each."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    yield _taken(buffer)
    for record in records:
        writer.writerow([_cell(record.get(name)) for name in COLUMNS])
        yield _taken(buffer)


def _taken(buffer: io.StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode()


def _cell(value: Any) -> str | int:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_RISKY) else value
    return orjson.dumps(value).decode()
