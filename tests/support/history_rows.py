"""Rows of a small history, written as a receiver would write them."""

import datetime as dt
import time
from typing import Any

from decoder.scalars import LSN
from replview.store.models import (
    Change,
    Relation,
    RelationVersion,
    Slot,
    SlotIncarnation,
    Source,
    Transaction,
)
from replview.store.read.days import transaction_id
from replview.store.read.rows import signed_hash

WHEN = dt.datetime(2026, 11, 20, 7, 57, 11, 369827, tzinfo=dt.UTC)
_KINDS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates", "M": "messages",
          "S": "inserts"}  # fmt: skip


class History:
    """A slot with one table ``public.orders`` (id, status, note; known by id)."""

    def __init__(self, name: str = "replview") -> None:
        source, _ = Source.objects.get_or_create(name="shop", defaults={"conninfo": ""})
        self.slot = Slot.objects.create(source=source, name=name)
        self._made = 0
        self.incarnation = self.new_incarnation()
        self.orders = self.table("orders", 16384, ["id", "status", "note"])

    def new_incarnation(self) -> SlotIncarnation:
        """The slot begins anew."""
        self.incarnation = SlotIncarnation.objects.create(
            slot=self.slot,
            number=self.slot.incarnations.count() + 1,
            system_identifier="1",
            timeline=1,
            reason="created",
        )
        self.slot.incarnation = self.incarnation
        self.slot.save()
        return self.incarnation

    def table(self, name: str, oid: int, columns: list[str], number: int = 1) -> RelationVersion:
        """A shape of a table."""
        relation, _ = Relation.objects.get_or_create(
            slot=self.slot,
            system_identifier="1",
            oid=oid,
            defaults={"schema": "public", "table": name},
        )
        return RelationVersion.objects.create(
            relation=relation,
            number=number,
            digest=f"{number}",
            schema="public",
            table=name,
            replica_identity="DEFAULT",
            columns=[{"name": column, "key": column == "id"} for column in columns],
            key_columns=["id"],
        )

    def commit(
        self, *changes: dict[str, Any], state: str = "committed", hours_ago: int = 0, **values: Any
    ) -> int:
        """A transaction with these changes, the next in order; first seen so long ago."""
        self._made += 1
        at = time.time() - hours_ago * 3600
        identifier = transaction_id(self.slot.pk * 100_000 + self._made, at=at)
        counted: dict[str, int] = {}
        relations: dict[str, list[int]] = {}
        rows = []
        for seq, change in enumerate(changes, start=1):
            version = change.pop("version", self.orders if change["op"] != "M" else None)
            kind = _KINDS[change["op"]]
            counted[kind] = counted.get(kind, 0) + 1
            if version:
                relations[str(version.relation_id)] = [1, 0, 0, 0]
            rows.append(
                Change(
                    transaction_id=identifier,
                    seq=seq,
                    lsn=LSN(1000 * self._made + seq),
                    version_id=version.pk if version else None,
                    relation_id=version.relation_id if version else None,
                    **change,
                )
            )
        committed = state in ("committed", "message", "snapshot")
        if committed:
            self.incarnation.commit_seq += 1
        Transaction.objects.create(
            id=identifier,
            incarnation=self.incarnation,
            state=state,
            received_at=WHEN,
            **{
                "relations": relations,
                "commit_seq": self.incarnation.commit_seq if committed else None,
                "xid": 700 + self._made,
                "commit_lsn": LSN(1000 * self._made + 900),
                "end_lsn": LSN(1000 * self._made + 950),
                "commit_time": WHEN,
                **counted,
                **values,
            },
        )
        Change.objects.bulk_create(rows)
        self.incarnation.save()
        return identifier

    def baseline(self, lsn: int, *rows: dict[str, Any], **more: Any) -> int:
        """A baseline with these rows, which are known by id, at a position."""
        read = [
            {"op": "S", "new": row, "key_hash": signed_hash([row["id"]]), **more} for row in rows
        ]
        return self.commit(*read, state="snapshot", xid=None, commit_lsn=LSN(lsn), end_lsn=LSN(lsn))


def insert(number: int, **more: Any) -> dict[str, Any]:
    """An insert of a whole row."""
    return {
        "op": "I",
        "new": {"id": str(number), "status": "new", "note": None},
        "key_hash": signed_hash([str(number)]),
        **more,
    }
