"""Writes the rest of the generated record: slot log, publications, open transactions, samples."""

import datetime as dt
from typing import Any

from django.db import connection

from decoder.scalars import LSN
from replview.store import models
from replview.store.read.days import transaction_id
from tests.benchmarks.pages.scale import Plan
from tests.benchmarks.pages.shared import moment
from tests.benchmarks.pages.tables import Table

_SAMPLES, _SAMPLED_SECONDS = 8640, 10


def write_events(
    slot: models.Slot, incarnations: list[models.SlotIncarnation], plan: Plan,
    relations: list[tuple[int, list[int], list[int]]], shapes: list[Table],
) -> None:  # fmt: skip
    """The slot's log: a connection a day, every new shape, the gap."""
    found = []

    def event(n: int, kind: str, message: str, **detail: Any) -> None:
        incarnation = incarnations[int(n >= plan.second_incarnation)]
        found.append(
            models.SlotEvent(
                slot=slot,
                incarnation=incarnation,
                at=moment(plan.time_us(n)),
                kind=kind,
                message=message,
                detail=detail,
                lsn=LSN(plan.lsn(n)),
                after_commit_seq=plan.commit_seq(n) or 0,
            )
        )

    for day in range(plan.scale.days):
        event(plan.scale.transactions * day // plan.scale.days, "connected", "Connected.")
    for (relation, versions, starts), table in zip(relations, shapes, strict=True):
        pairs = list(zip(versions, starts, strict=True))
        for number, (version, start) in enumerate(pairs[1:], start=2):
            said = f"Schema of public.{table.name} changed: version {number}."
            event(start, "schema", said, relation_id=relation, version_id=version)
    n = plan.second_incarnation
    said = "The slot is ahead of the record: what committed in between is not in the record."
    event(n, "gap", said, from_lsn=str(LSN(plan.commit_lsn(n - 1))), to_lsn=str(LSN(plan.lsn(n))))
    models.SlotEvent.objects.bulk_create(sorted(found, key=lambda row: row.at))


def write_evidence(
    slot: models.Slot,
    incarnation: models.SlotIncarnation,
    plan: Plan,
    shapes: list[Table],
    snapshot: int,
) -> None:
    """Store what the publication published, and the one baseline."""
    published = [
        {"schema": "public", "table": table.name, "oid": 16384 + table.position, "columns": None,
         "unpublished_columns": [], "row_filter": None, "operations": "IUDT",
         "replica_identity": table.identity, "primary_key": table.key_columns, "root": None}
        for table in shapes
    ]  # fmt: skip
    publication = {"name": "shop", "insert": True, "update": True, "delete": True,
                   "truncate": True, "via_root": False, "all_tables": True}  # fmt: skip
    models.PublicationLook.objects.create(
        slot=slot, first_seen_at=moment(plan.start_us), last_seen_at=plan.end, digest="1",
        facts={"publications": [publication], "tables": published, "unpublished": []},
    )  # fmt: skip
    at = moment(plan.time_us(plan.snapshot))
    models.Baseline.objects.create(
        slot=slot, incarnation=incarnation, schema="public", table=shapes[0].name, state="done",
        requested_at=at, started_at=at, finished_at=at, lsn=LSN(plan.commit_lsn(plan.snapshot)),
        transaction_id=snapshot, rows=plan.scale.snapshot, estimated_rows=plan.scale.snapshot,
    )  # fmt: skip


def write_open(
    incarnation: models.SlotIncarnation, plan: Plan,
    relations: list[tuple[int, list[int], list[int]]], first_id: int,
) -> None:  # fmt: skip
    """Some that are in flight: prepared, and two that stream."""
    number = plan.scale.transactions
    for n in range(22):
        since = plan.end - dt.timedelta(minutes=7 * n + 1)
        prepared = n >= 2
        models.Transaction.objects.create(
            id=transaction_id(first_id + n, at=since.timestamp()), incarnation=incarnation,
            state="prepared" if prepared else "streaming", streamed=not prepared,
            xid=1000 + number + n, gid=f"waiting-{n:04d}" if prepared else None,
            prepared_at=since if prepared else None, received_at=since, stored_at=since,
            first_lsn=LSN(plan.lsn(number - 1)), inserts=3, updates=6, size_bytes=1300,
            relations={str(relations[0][0]): [3, 6, 0, 0]},
        )  # fmt: skip


def write_samples(slot: models.Slot, plan: Plan) -> None:
    """A day of samples, every ten seconds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO slot_sample (slot_id, sampled_at, current_lsn, retained_wal_bytes,"
            " unconfirmed_wal_bytes, wal_status, active, transactions_stored, changes_stored)"
            " SELECT %s, %s - n * %s * interval '1 second', %s, 40000000 + n, 1000, 'reserved',"
            "  true, %s - n, %s - n * 10 FROM generate_series(0, %s) n",
            [slot.pk, plan.end, _SAMPLED_SECONDS, str(LSN(plan.commit_lsn(0))),
             plan.scale.transactions, plan.scale.changes, _SAMPLES],
        )  # fmt: skip
