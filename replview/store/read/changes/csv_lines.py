"""Changes as lines of CSV.

Values with an inner structure (rows, keys, context) are JSON. A cell of free text that a
spreadsheet would take for a formula, or that begins with an apostrophe, gets one apostrophe in
front; nothing else is altered. An empty cell is null.
"""

import csv
import io
from collections.abc import Iterable, Sequence

import orjson

from replview.store.read.changes.records import Record

COLUMNS = (
    "slot", "incarnation", "transaction", "commit_seq", "xid", "gid", "commit_lsn", "end_lsn",
    "commit_time", "origin", "actor", "context", "seq", "lsn", "subxid", "op", "schema", "table",
    "relation_oid", "version", "key", "old", "new", "not_sent", "cascade", "restart_identity",
    "prefix", "content", "content_base64", "transactional",
)  # fmt: skip
#: First characters that a spreadsheet may take for a formula's, and the apostrophe that prevents
#: it.
RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Return the rows as CSV text in UTF-8."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode()


def lines_of(records: Iterable[Record | str], form: str) -> bytes:
    """Return the records as lines of ``jsonl``, where some may be text already, or of ``csv``."""
    if form == "csv":
        dicts = (record for record in records if not isinstance(record, str))
        return csv_lines([_cell(record.get(name)) for name in COLUMNS] for record in dicts)
    lines = io.BytesIO()
    # Records are written one by one: holding all of them takes ten times as long.
    for record in records:
        if isinstance(record, str):
            lines.write(record.encode())
        else:
            lines.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
    return lines.getvalue()


def _cell(value: object) -> str | int:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return f"'{value}" if value.startswith(RISKY) else value
    return orjson.dumps(value).decode()
