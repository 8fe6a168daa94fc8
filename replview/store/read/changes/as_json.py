"""The one JSON form of a change, shared by the command line, the API and downloads.

Every record has the same fields in the same order; what does not apply is null. A truncation adds
``cascade`` and ``restart_identity``, a message ``prefix``, ``content`` or ``content_base64``, and
``transactional``; a change whose values the asker has no right to see adds ``hidden``. Marked
values (``{"$masked": true}`` …) are as ``models.history.Change`` says.
"""

import datetime as dt
from typing import Any

from replview.store.read.rows import ChangeRow, Slot, TransactionRow

OPERATIONS = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "T": "truncate",
    "M": "message",
    "S": "snapshot",
}
#: What a truncation or a message keeps in ``new``, as it appears in the record.
_OWN_FIELDS = {
    "T": ("cascade", "restart_identity"),
    "M": ("prefix", "content", "content_base64", "transactional"),
}

Record = dict[str, Any]


def as_json(
    change: ChangeRow,
    transaction: TransactionRow,
    slot: Slot,
    incarnation: int,
    relation_oid: int | None,
) -> Record:
    """One change as in the design's "One change, as JSON".

    ``incarnation`` is the number of the slot's life, ``relation_oid`` the table's oid on its
    source, None for a message.
    """
    record = _transaction_part(transaction, slot, incarnation)
    record |= _table_part(change, relation_oid)
    if change.hidden:
        # Not that there was nothing: whoever asks has no right to see it.
        record["hidden"] = True
    if own_fields := _OWN_FIELDS.get(change.op):
        told = change.new or {}
        record |= {"key": None, "old": None, "new": None, "not_sent": []}
        record |= {name: told[name] for name in own_fields if name in told}
        return record
    names = [column["name"] for column in change.columns]
    sent = (change.old if change.op == "D" else change.new) or {}
    record["key"] = _key(change)
    record["old"] = _in_order(change.old, names)
    record["new"] = _in_order(change.new, names)
    # Columns of the new row (or the deleted one) that the server sent no value for.
    record["not_sent"] = [name for name in names if name not in sent]
    return record


def _transaction_part(transaction: TransactionRow, slot: Slot, incarnation: int) -> Record:
    return {
        "slot": slot.name,
        "incarnation": incarnation,
        "commit_seq": transaction.commit_seq,
        "xid": transaction.xid,
        "gid": transaction.gid,
        "commit_lsn": transaction.commit_lsn,
        "end_lsn": transaction.end_lsn,
        "commit_time": utc_text(transaction.commit_time),
        "origin": transaction.origin,
        "actor": transaction.actor,
        "context": transaction.context,
    }


def _table_part(change: ChangeRow, relation_oid: int | None) -> Record:
    return {
        "seq": change.seq,
        "lsn": change.lsn,
        "subxid": change.subxid,
        "op": OPERATIONS[change.op],
        "schema": change.schema,
        "table": change.table,
        "relation_oid": relation_oid,
        "version": change.version,
    }


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
    if row is None:
        return None
    return {name: row[name] for name in names if name in row}


def utc_text(moment: dt.datetime | None) -> str | None:
    """``2026-11-20T07:57:11.369827Z``."""
    if moment is None:
        return None
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
