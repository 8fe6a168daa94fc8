"""The one JSON form of a transaction, for the API: what the record holds of it, without changes."""

from collections.abc import Mapping
from typing import Any

from replview.store.read.changes.as_json import utc_text
from replview.store.read.rows import TransactionRow

#: Counts of a table's changes, in the order the record keeps them.
_COUNTS = ("insert", "update", "delete", "truncate")


def transaction_json(
    row: TransactionRow, names: Mapping[int, tuple[str, str]], slot: str, incarnation: int
) -> dict[str, Any]:
    """One transaction; ``names``: ``{relation id: (schema, table)}``.

    LSNs as PostgreSQL writes them, times in UTC by the source's clock but for ``received_at`` and
    ``stored_at``, which are ours. In a *snapshot* ``insert`` counts the rows that were read.
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
        "context": row.context,
        "counts": {
            "insert": row.inserts,
            "update": row.updates,
            "delete": row.deletes,
            "truncate": row.truncates,
            "message": row.messages,
        },
        "rolled_back_changes": row.aborted_changes,
        "size_bytes": row.size_bytes,
        "tables": [_table(int(key), counts, names) for key, counts in row.relations.items()],
        "received_at": utc_text(row.received_at),
        "stored_at": utc_text(row.stored_at),
    }


def _table(
    relation_id: int, counts: list[int], names: Mapping[int, tuple[str, str]]
) -> dict[str, Any]:
    schema, table = names.get(relation_id, (None, None))
    return {
        "relation": relation_id,
        "schema": schema,
        "table": table,
        **dict(zip(_COUNTS, counts, strict=False)),
    }
