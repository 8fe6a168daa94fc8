"""Changes as lines of CSV.

What has an inner form (rows, keys, context) is JSON. Cells of free text that a spreadsheet would
take for a formula (and those that begin with an apostrophe) begin with one apostrophe more; nothing
else is altered. An empty cell is null.
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
#: What a spreadsheet may take for the beginning of a formula, and the sign that says it is none.
RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode()


def lines_of(records: Iterable[Record | str], form: str) -> bytes:
    """Lines of ``jsonl``, of which some may be written, or ``csv``."""
    if form == "csv":
        dicts = (record for record in records if not isinstance(record, str))
        return csv_lines([_cell(record.get(name)) for name in COLUMNS] for record in dicts)
    lines = io.BytesIO()
    # Each is written and forgotten: to hold them all takes ten times as long.
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
