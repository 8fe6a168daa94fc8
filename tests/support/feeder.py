"""Writes transactions into the store as a receiver would, at a chosen rate, and sends wake-ups.

For tests of the live page and for looking at it: no source, no slot, the store's rows alone.
"""

import datetime as dt
import itertools
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg

from replview.live.publisher import Publisher
from replview.store.read.days import transaction_id
from replview.store.read.rows import signed_hash
from replview.store.write.partitions import ensure_partitions

TABLES: dict[str, list[tuple[str, str, bool]]] = {
    "orders": [
        ("id", "bigint", True),
        ("customer_id", "bigint", False),
        ("status", "order_status", False),
        ("total", "numeric(12,2)", False),
        ("paid_at", "timestamptz", False),
        ("note", "text", False),
        ("channel", "text", False),
        ("created_at", "timestamptz", False),
    ],
    "order_items": [
        ("order_id", "bigint", True),
        ("position", "integer", True),
        ("sku", "text", False),
        ("quantity", "integer", False),
    ],
    "payments": [
        ("id", "bigint", True),
        ("order_id", "bigint", False),
        ("amount", "numeric(12,2)", False),
        ("method", "text", False),
        ("currency", "text", False),
        ("captured", "boolean", False),
    ],
    "stock": [
        ("sku", "text", True),
        ("warehouse", "text", True),
        ("reserved", "integer", False),
        ("on_hand", "integer", False),
    ],
    "price_list": [("sku", "text", True), ("price", "numeric(12,2)", False)],
}
#: Replica identity FULL: the old row is sent.
FULL = {"stock"}
#: The catalog's facts about the types that are not built in.
_OWN_TYPES = {
    "order_status": {
        "type_oid": 16500,
        "base": {"oid": 16500, "name": "order_status", "array": False,
                 "labels": ["pending", "paid", "shipped", "cancelled"]},
    },
}  # fmt: skip


@dataclass
class NewChange:
    """A change as the feeder is told it."""

    table: str | None
    op: str
    new: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    old_kind: str | None = None
    subxid: int | None = None


@dataclass
class NewTransaction:
    """A transaction as the feeder is told it."""

    changes: list[NewChange] = field(default_factory=list)
    state: str = "committed"
    actor: str | None = None
    grade: str | None = None
    origin: str | None = None
    gid: str | None = None
    context: dict[str, Any] | None = None
    streamed: bool = False
    #: Counts told without writing so many changes.
    counts: dict[str, list[int]] | None = None


def _key_hash(columns: list[tuple[str, str, bool]], *images: dict[str, Any] | None) -> int:
    values = []
    for name, _, key in columns:
        if key:
            values.append(next((i[name] for i in images if i and name in i), None))
    return signed_hash(values)


class Feeder:
    """One slot's receiver, as far as the store can tell."""

    def __init__(
        self, dsn: str, *, source: str = "shop", slot: str = "replview", publisher: Any = None
    ) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.publisher = publisher if publisher is not None else Publisher()
        self.clock_skew = dt.timedelta(0)
        self._ids = itertools.count(random.randrange(2**31))
        self._xids = itertools.count(481_000)
        self._lsn = 0x2_4E91_0000
        self._make(source, slot)

    def close(self) -> None:
        """End the connection and the publisher."""
        self.publisher.close()
        self.connection.close()

    def _one(self, sql: str, *parameters: Any) -> Any:
        row = self.connection.execute(sql, parameters).fetchone()
        assert row is not None
        return row[0]

    def _make(self, source: str, slot: str) -> None:
        today = dt.datetime.now(tz=dt.UTC).date()
        ensure_partitions(self.connection, today, today + dt.timedelta(days=1))  # type: ignore[arg-type]
        from django.utils import timezone

        from replview.store.models import Relation, RelationVersion, Slot, SlotIncarnation, Source

        now = timezone.now()
        made, _ = Source.objects.get_or_create(
            name=source,
            defaults={"conninfo": "host=shop", "server_version": 180004, "checked_at": now},
        )
        row, _ = Slot.objects.get_or_create(
            source=made,
            name=slot,
            defaults={"publications": ["shop"], "state": "streaming", "connected_at": now},
        )
        incarnation, _ = SlotIncarnation.objects.get_or_create(
            slot=row,
            number=1,
            defaults={"system_identifier": "7", "timeline": 1, "reason": "created"},
        )
        Slot.objects.filter(pk=row.pk).update(
            incarnation=incarnation,
            heartbeat_at=now,
            server_lsn="2/4E910000",
            checkpoint_lsn="2/4E910000",
        )
        self.slot_id, self.incarnation_id = row.pk, incarnation.pk
        self.commit_seq = incarnation.commit_seq
        self.relations: dict[str, tuple[int, int]] = {}
        for number, (table, columns) in enumerate(TABLES.items()):
            relation, _ = Relation.objects.get_or_create(
                slot=row,
                system_identifier="7",
                oid=16384 + number,
                defaults={"schema": "public", "table": table},
            )
            version, _ = RelationVersion.objects.get_or_create(
                relation=relation,
                number=1,
                defaults={
                    "digest": table,
                    "schema": "public",
                    "table": table,
                    "replica_identity": "FULL" if table in FULL else "DEFAULT",
                    "columns": [
                        {"name": n, "type": t, "key": k, **_OWN_TYPES.get(t, {})}
                        for n, t, k in columns
                    ],
                    "key_columns": [n for n, _, k in columns if k],
                },
            )
            self.relations[table] = (relation.pk, version.pk)

    def _next_lsn(self) -> str:
        self._lsn += random.randrange(80, 400)
        return f"{self._lsn >> 32:X}/{self._lsn & 0xFFFFFFFF:X}"

    def commit(self, *transactions: NewTransaction, wake: bool = True) -> list[int]:
        """Store transactions in one go, as the receiver's batch; returns their identifiers."""
        now = dt.datetime.now(tz=dt.UTC)
        ids, rows, changes = [], [], []
        for transaction in transactions:
            identifier = transaction_id(next(self._ids))
            ids.append(identifier)
            rows.append(self._row(identifier, transaction, now))
            changes.extend(self._changes(identifier, transaction.changes))
        with self.connection.transaction(), self.connection.cursor() as cursor:
            self._copy(cursor, rows, changes)
            cursor.execute(
                "UPDATE slot_incarnation SET commit_seq = %s WHERE id = %s",
                [self.commit_seq, self.incarnation_id],
            )
            cursor.execute(
                "UPDATE slot SET transactions_stored = %s, changes_stored = changes_stored + %s,"
                " heartbeat_at = now(), last_stored_at = now(), state = 'streaming',"
                " server_lsn = %s, checkpoint_lsn = %s WHERE id = %s",
                [self.commit_seq, len(changes), rows[-1]["end_lsn"], rows[-1]["end_lsn"],
                 self.slot_id],
            )  # fmt: skip
        if wake:
            self.wake(
                open_changed=any(t.state not in ("committed", "message") for t in transactions)
            )
        return ids

    def wake(self, *, open_changed: bool = False) -> None:
        """Tell the web processes."""
        self.publisher.wake(self.slot_id, self.incarnation_id, self.commit_seq, open_changed)

    def _row(self, identifier: int, new: NewTransaction, now: dt.datetime) -> dict[str, Any]:
        placed = new.state in ("committed", "message")
        if placed:
            self.commit_seq += 1
        counts = new.counts or {}
        if not counts:
            for change in new.changes:
                if change.table and change.op in "IUDT":
                    counts.setdefault(change.table, [0, 0, 0, 0])["IUDT".index(change.op)] += 1
        sums = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0, 0, 0]
        messages = sum(change.op == "M" for change in new.changes)
        opened = new.state in ("receiving", "streaming", "prepared")
        lost = new.state in ("aborted", "rolled back")
        at = now - dt.timedelta(milliseconds=18) + self.clock_skew
        first = self._next_lsn()
        commit = self._next_lsn()
        return {
            "id": identifier, "incarnation_id": self.incarnation_id,
            "commit_seq": self.commit_seq if placed else None,
            "xid": next(self._xids) if new.state != "message" else None, "gid": new.gid,
            "state": new.state, "streamed": new.streamed, "first_lsn": first,
            "commit_lsn": None if opened else commit, "end_lsn": None if opened else commit,
            "commit_time": at if placed else None,
            "prepared_at": now if new.state == "prepared" else None,
            "ended_at": at if lost else None,
            "origin": new.origin, "actor": new.actor, "actor_grade": new.grade,
            "context": None if new.context is None else json.dumps(new.context),
            "inserts": sums[0], "updates": sums[1], "deletes": sums[2], "truncates": sums[3],
            "messages": messages, "size_bytes": 84 + 145 * (sum(sums) + messages),
            "relations": json.dumps({str(self.relations[t][0]): c for t, c in counts.items()}),
            "aborted_changes": 0, "received_at": now - dt.timedelta(milliseconds=10),
            "stored_at": now,
        }  # fmt: skip

    def _changes(self, identifier: int, changes: list[NewChange]) -> list[tuple[Any, ...]]:
        rows = []
        for seq, change in enumerate(changes, 1):
            relation, version = self.relations.get(change.table or "", (None, None))
            columns = TABLES.get(change.table or "", [])
            key = _key_hash(columns, change.new, change.old) if columns else None
            rows.append((
                identifier, seq, self._next_lsn(), change.subxid, relation, version, change.op,
                change.old_kind,
                None if change.old is None else json.dumps(change.old),
                None if change.new is None else json.dumps(change.new), key,
            ))  # fmt: skip
        return rows

    def _copy(self, cursor: psycopg.Cursor[Any], rows: list[dict[str, Any]], changes: Any) -> None:
        names = ", ".join(rows[0])
        with cursor.copy(f"COPY transaction ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(list(row.values()))
        if changes:
            with cursor.copy(
                "COPY change (transaction_id, seq, lsn, subxid, relation_id, version_id, op,"
                " old_kind, old, new, key_hash) FROM STDIN"
            ) as copy:
                for change in changes:
                    copy.write_row(change)

    def open(self, new: NewTransaction) -> int:
        """Store an open transaction; returns its identifier."""
        return self.commit(new)[0]

    def grow(self, identifier: int, table: str, by: int) -> None:
        """More updates of an open transaction."""
        relation = str(self.relations[table][0])
        self.connection.execute(
            "UPDATE transaction SET updates = updates + %s, size_bytes = size_bytes + %s,"
            " relations = jsonb_set(relations, ARRAY[%s],"
            "                       jsonb_build_array(0, updates + %s, 0, 0)),"
            " stored_at = now() WHERE id = %s",
            [by, by * 145, relation, by, identifier],
        )
        self.wake(open_changed=True)

    def end(self, identifier: int, state: str) -> None:
        """End an open transaction: committed, aborted or rolled back."""
        committed = state == "committed"
        if committed:
            self.commit_seq += 1
        lsn = self._next_lsn()
        with self.connection.transaction():
            self.connection.execute(
                "UPDATE transaction SET state = %s, commit_seq = %s, commit_lsn = %s, end_lsn = %s,"
                " commit_time = CASE WHEN %s THEN now() END, stored_at = clock_timestamp(),"
                " ended_at = CASE WHEN %s THEN NULL ELSE now() END WHERE id = %s",
                [state, self.commit_seq if committed else None, lsn, lsn, committed, committed,
                 identifier],
            )  # fmt: skip
            self.connection.execute(
                "UPDATE slot_incarnation SET commit_seq = %s WHERE id = %s",
                [self.commit_seq, self.incarnation_id],
            )
        self.wake(open_changed=True)

    def event(self, kind: str, message: str, **detail: Any) -> None:
        """A line of the slot's log."""
        self.connection.execute(
            "INSERT INTO slot_event (slot_id, incarnation_id, at, kind, message, detail,"
            " after_commit_seq) VALUES (%s, %s, now(), %s, %s, %s, %s)",
            [self.slot_id, self.incarnation_id, kind, message, json.dumps(detail), self.commit_seq],
        )
        self.publisher.slot_changed(self.slot_id)

    def flood(self, per_second: int, seconds: float) -> None:
        """Single-row transactions at a steady rate, in batches of a fiftieth of a second."""
        batch = max(1, per_second // 50)
        start, done = time.monotonic(), 0
        while (elapsed := time.monotonic() - start) < seconds:
            if done <= elapsed * per_second:
                self.commit(*(single() for _ in range(batch)))
                done += batch
            else:
                time.sleep(0.002)


def single(number: int | None = None) -> NewTransaction:
    """One payment inserted."""
    number = random.randrange(10**6) if number is None else number
    new = {"id": str(number), "order_id": "42", "amount": "128.40", "method": "card",
           "currency": "EUR", "captured": "t"}  # fmt: skip
    return NewTransaction([NewChange("payments", "I", new)])
