"""Reads the slot's stored history as users do: by ``iterate_changes``."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from replview.access.visibility import reading_session
from replview.store.models import Slot, Transaction
from tests.chaos.witness import NOT_SENT, WitnessChange
from tests.support.recorded import iterate_changes

Record = dict[str, Any]


@dataclass(slots=True)
class StoredTransaction:
    """A transaction of history, or a message that belongs to none, with its changes."""

    incarnation: int
    commit_seq: int
    state: str
    xid: int | None
    gid: str | None
    commit_lsn: int | None
    end_lsn: int | None
    commit_time: Any
    origin: str | None
    streamed: bool
    #: Its counters: changes and messages, less what aborted subtransactions took away.
    counted: int
    records: list[Record] = field(default_factory=list)

    @property
    def changes(self) -> list[WitnessChange]:
        """Its changes in the form both sides are compared in."""
        return [comparable(record) for record in self.records]


def read_history(slot: Slot) -> list[StoredTransaction]:
    """Everything with a place in history, by incarnation and ``commit_seq``."""
    rows = Transaction.objects.filter(incarnation__slot=slot, commit_seq__isnull=False)
    places = {}
    for row in rows.select_related("incarnation").order_by("incarnation__number", "commit_seq"):
        places[row.incarnation.number, row.commit_seq] = _transaction(row)
    for cursor, records in groupby(
        iterate_changes(reading_session(), slot), key=lambda found: found[0]
    ):
        told = [record for _, record in records]
        places[cursor.incarnation, cursor.commit_seq].records += told
    return list(places.values())


def _transaction(row: Transaction) -> StoredTransaction:
    operations = row.inserts + row.updates + row.deletes + row.truncates + row.messages
    return StoredTransaction(
        incarnation=row.incarnation.number,
        commit_seq=row.commit_seq or 0,
        state=row.state,
        xid=row.xid,
        gid=row.gid,
        commit_lsn=None if row.commit_lsn is None else int(row.commit_lsn),
        end_lsn=None if row.end_lsn is None else int(row.end_lsn),
        commit_time=row.commit_time,
        origin=row.origin,
        streamed=row.streamed,
        counted=operations,
    )


def comparable(record: Record) -> WitnessChange:
    """A record of the change stream as the witness would tell it."""
    table = f"{record['schema']}.{record['table']}" if record["table"] else ""
    op = record["op"]
    if op == "truncate":
        flags = (("cascade", record["cascade"]), ("restart", record["restart_identity"]))
        return WitnessChange(op, table, new=tuple((name, str(flag)) for name, flag in flags))
    if op == "message":
        return WitnessChange(
            op, "", new=(("prefix", record["prefix"]), ("content", content(record).hex()))
        )
    new = dict(record["new"] or {})
    if op == "update":
        new |= dict.fromkeys(record["not_sent"], NOT_SENT)
    return WitnessChange(op, table, _sorted(record["old"]), _sorted(new))


def content(record: Record) -> bytes:
    """A message's content."""
    if "content_base64" in record:
        from base64 import b64decode

        return b64decode(record["content_base64"])
    return str(record["content"]).encode()


def _sorted(row: dict[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((row or {}).items()))


def records_in_order(history: list[StoredTransaction]) -> Iterator[Record]:
    """All changes of history."""
    for transaction in history:
        yield from transaction.records
