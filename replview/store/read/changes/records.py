"""The one JSON form of a change, shared by the command line, the API and downloads; the same as a
line of CSV; and the JSON form of a transaction.

Every record has the same fields in the same order; what does not apply is null. A truncation adds
``cascade`` and ``restart_identity``, a message ``prefix``, ``content`` or ``content_base64``, and
``transactional``; one withheld ``hidden``. Marked values are as ``models.history.Change`` says.
"""

import csv
import datetime as dt
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from replview.store.read.rows import ChangeRow, Slot, TransactionRow

OPERATIONS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate", "M": "message",
              "S": "snapshot"}  # fmt: skip
#: What a truncation or a message keeps in ``new``, as it appears in the record.
_OWN_FIELDS = {
    "T": ("cascade", "restart_identity"),
    "M": ("prefix", "content", "content_base64", "transactional"),
}

Record = dict[str, Any]
#: Counts of a table's changes, in the order the record keeps them.
_COUNTS = ("insert", "update", "delete", "truncate")
COLUMNS = (
    "slot", "incarnation", "transaction", "commit_seq", "xid", "gid", "commit_lsn", "end_lsn",
    "commit_time", "origin", "actor", "context", "seq", "lsn", "subxid", "op", "schema", "table",
    "relation_oid", "version", "key", "old", "new", "not_sent", "cascade", "restart_identity",
    "prefix", "content", "content_base64", "transactional",
)  # fmt: skip
#: What a spreadsheet may take for the beginning of a formula, and the sign that says it is none.
RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def transaction_part(transaction: TransactionRow, slot: Slot, incarnation: int) -> Record:
    """What all records of a transaction begin with; ``incarnation``: its number."""
    return {
        "slot": slot.name, "incarnation": incarnation, "transaction": transaction.id,
        "commit_seq": transaction.commit_seq, "xid": transaction.xid, "gid": transaction.gid,
        "commit_lsn": transaction.commit_lsn, "end_lsn": transaction.end_lsn,
        "commit_time": utc_text(transaction.commit_time), "origin": transaction.origin,
        "actor": transaction.actor, "context": transaction.context,
    }  # fmt: skip


def table_part(change: ChangeRow, relation_oid: int | None) -> tuple[Record, list[str]]:
    """What all records of one shape of a table share, and its columns; ``relation_oid``: the
    table's oid on its source, None for a message.
    """
    record = {"schema": change.schema, "table": change.table, "relation_oid": relation_oid,
              "version": change.version}  # fmt: skip
    return record, [column["name"] for column in change.columns]


def as_json(change: ChangeRow, transaction: Record, table: tuple[Record, list[str]]) -> Record:
    """One change as in the design's "One change, as JSON", with what it shares with others."""
    shape, names = table
    record: Record = {
        **transaction, "seq": change.seq, "lsn": change.lsn, "subxid": change.subxid,
        "op": OPERATIONS[change.op], **shape,
    }  # fmt: skip
    if change.hidden:
        # Not that there was nothing: whoever asks has no right to see it.
        record["hidden"] = True
    if own_fields := _OWN_FIELDS.get(change.op):
        message = change.new or {}
        record |= {"key": None, "old": None, "new": None, "not_sent": []}
        record |= {name: message[name] for name in own_fields if name in message}
        return record
    record["key"] = _key(change)
    record["old"] = old = _in_order(change.old, names)
    record["new"] = new = _in_order(change.new, names)
    # Columns of the new row (or the deleted one) that the server sent no value for.
    sent = (old if change.op == "D" else new) or {}
    whole = len(sent) == len(names)
    record["not_sent"] = [] if whole else [name for name in names if name not in sent]
    return record


def _key(change: ChangeRow) -> dict[str, Any] | None:
    """The row's key before the change if it was sent, else after; None unless it is whole."""
    if not change.key_columns:
        return None
    key: dict[str, Any] = {}
    for name in change.key_columns:
        side = change.old if change.old and name in change.old else change.new
        if not side or name not in side:
            return None
        key[name] = side[name]
    return key


def _in_order(row: dict[str, Any] | None, names: list[str]) -> dict[str, Any] | None:
    """The table's own order of columns, which JSONB does not keep."""
    return None if row is None else {name: row[name] for name in names if name in row}


def utc_text(moment: dt.datetime | None) -> str | None:
    """``2026-11-20T07:57:11.369827Z``."""
    return None if moment is None else f"{moment.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def transaction_json(
    row: TransactionRow, names: Mapping[int, tuple[str, str]], slot: str, incarnation: int
) -> dict[str, Any]:
    """One transaction; ``names``: ``{relation id: (schema, table)}``. Times are UTC by the source's
    clock, but ``received_at`` and ``stored_at`` by ours. In a *snapshot* ``insert`` counts the rows
    read.
    """
    return {
        "id": row.id,
        "slot": slot,
        "incarnation": incarnation,
        "commit_seq": row.commit_seq,
        "state": row.state,
        "xid": row.xid,
        "gid": row.gid,
        "streamed": row.streamed,
        "first_lsn": row.first_lsn,
        "commit_lsn": row.commit_lsn,
        "end_lsn": row.end_lsn,
        "commit_time": utc_text(row.commit_time),
        "prepared_at": utc_text(row.prepared_at),
        "ended_at": utc_text(row.ended_at),
        "origin": row.origin,
        "actor": row.actor,
        "actor_grade": row.actor_grade or ("claimed" if row.actor else "unknown"),
        "actors": row.actors,
        "context": row.context,
        "counts": {
            "insert": row.inserts,
            "update": row.updates,
            "delete": row.deletes,
            "truncate": row.truncates,
            "message": row.messages,
        },
        "rolled_back_changes": row.aborted_changes,
        "size_bytes": row.told_bytes,
        "tables": [_table(int(key), counts, names) for key, counts in row.relations.items()],
        "received_at": utc_text(row.received_at),
        "stored_at": utc_text(row.stored_at),
    }


def _table(
    relation_id: int, counts: list[int], names: Mapping[int, tuple[str, str]]
) -> dict[str, object]:
    schema, table = names.get(relation_id, (None, None))
    counted = dict(zip(_COUNTS, counts, strict=False))
    return {"relation": relation_id, "schema": schema, "table": table, **counted}


# In CSV, what has an inner form (rows, keys, context) is JSON. Cells of free text that a
# spreadsheet would take for a formula (and those that begin with an apostrophe) begin with one
# apostrophe more; nothing else is altered. An empty cell is null.


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
