"""The one JSON form of a change and of a transaction, for the command line, the API and downloads.

Every record has the same fields in the same order; a field that does not apply is null. A
truncation adds ``cascade`` and ``restart_identity``, a message ``prefix``, ``content`` or
``content_base64``, and ``transactional``; a withheld change adds ``hidden``. Marked values have the
forms of ``store.models.history.Change``. The ``insert`` count of a *snapshot* is the number of rows
read.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from replview.store.read.rows import ChangeRow, QueriedSlot, TransactionRow

OPERATIONS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate", "M": "message",
              "S": "snapshot"}  # fmt: skip
#: Fields that a truncation or a message keeps in ``new``, and shows in its record.
_OWN_FIELDS = {
    "T": ("cascade", "restart_identity"),
    "M": ("prefix", "content", "content_base64", "transactional"),
}

Record = dict[str, Any]
#: Names of a table's counts, in the order of ``Transaction.relations``.
_COUNTS = ("insert", "update", "delete", "truncate")


def transaction_part(transaction: TransactionRow, slot: QueriedSlot, incarnation: int) -> Record:
    """Return the fields that all records of a transaction share; ``incarnation`` is its number."""
    return {
        "slot": slot.name, "incarnation": incarnation, "transaction": transaction.id,
        "commit_seq": transaction.commit_seq, "xid": transaction.xid, "gid": transaction.gid,
        "commit_lsn": transaction.commit_lsn, "end_lsn": transaction.end_lsn,
        "commit_time": utc_text(transaction.commit_time), "origin": transaction.origin,
        "actor": transaction.actor, "context": transaction.context,
    }  # fmt: skip


def table_part(change: ChangeRow, relation_oid: int | None) -> tuple[Record, list[str]]:
    """Return the fields that all records of one shape of a table share, and its columns.

    ``relation_oid`` is the table's oid on its source; None for a message.
    """
    record = {"schema": change.schema, "table": change.table, "relation_oid": relation_oid,
              "version": change.version}  # fmt: skip
    return record, [column["name"] for column in change.columns]


def as_json(change: ChangeRow, transaction: Record, table: tuple[Record, list[str]]) -> Record:
    """Return the record of one change, given the fields that it shares with others."""
    shape, names = table
    record: Record = {
        **transaction, "seq": change.seq, "lsn": change.lsn, "subxid": change.subxid,
        "op": OPERATIONS[change.op], **shape,
    }  # fmt: skip
    if change.hidden:
        # The record differs from that of an empty change: the reader has no right to see the
        # values.
        record["hidden"] = True
    if own_fields := _OWN_FIELDS.get(change.op):
        message = change.new or {}
        record |= {"key": None, "old": None, "new": None, "not_sent": []}
        record |= {name: message[name] for name in own_fields if name in message}
        return record
    record["key"] = _key(change)
    record["old"] = old = _in_order(change.old, names)
    record["new"] = new = _in_order(change.new, names)
    # Columns of the new row (or the deleted row) for which the server sent no value.
    sent = (old if change.op == "D" else new) or {}
    is_complete = len(sent) == len(names)
    record["not_sent"] = [] if is_complete else [name for name in names if name not in sent]
    return record


def _key(change: ChangeRow) -> dict[str, Any] | None:
    """Return the row's key before the change if sent, else after; None if it is incomplete."""
    if not change.key_columns:
        return None
    key: dict[str, Any] = {}
    for name in change.key_columns:
        image = change.old if change.old and name in change.old else change.new
        if not image or name not in image:
            return None
        key[name] = image[name]
    return key


def _in_order(row: dict[str, Any] | None, names: list[str]) -> dict[str, Any] | None:
    """Return the row in the table's order of columns, which JSONB does not keep."""
    return None if row is None else {name: row[name] for name in names if name in row}


def utc_text(moment: dt.datetime | None) -> str | None:
    """Return the moment as text: ``2026-11-20T07:57:11.369827Z``."""
    return None if moment is None else f"{moment.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def transaction_json(
    row: TransactionRow, names: Mapping[int, tuple[str, str]], slot: str, incarnation: int
) -> dict[str, Any]:
    """Return the JSON form of one transaction; ``names`` is ``{relation id: (schema, table)}``.

    Times are UTC by the source's clock, but ``received_at`` and ``stored_at`` by ours.
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
        "size_bytes": row.shown_size_bytes,
        "tables": [_table(int(key), counts, names) for key, counts in row.relations.items()],
        "received_at": utc_text(row.received_at),
        "stored_at": utc_text(row.stored_at),
    }


def _table(
    relation_id: int, counts: list[int], names: Mapping[int, tuple[str, str]]
) -> dict[str, object]:
    schema, table = names.get(relation_id, (None, None))
    by_operation = dict(zip(_COUNTS, counts, strict=False))
    return {"relation": relation_id, "schema": schema, "table": table, **by_operation}
