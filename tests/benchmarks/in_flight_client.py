"""Fills a store with prepared transactions and asks for the in-flight page.

Usage: ``python -m tests.benchmarks.in_flight_client WAITING REQUESTS``; prints milliseconds of each
request as JSON, by what was asked for.
"""

import datetime as dt
import json
import sys
import time
from typing import Any

import django

MB = 1 << 20
#: Ended ones in the record besides, some of them shown below.
ENDED = 2000


def fill(waiting: int) -> int:
    """Create a slot with ``waiting`` prepared transactions; return the identifier of one."""
    from django.db import connection

    from decoder.scalars import LSN
    from replview.store import models
    from replview.store.read.days import transaction_id
    from replview.store.write.partitions import ensure_partitions

    now = dt.datetime.now(dt.UTC)
    connection.ensure_connection()
    ensure_partitions(connection.connection, now.date(), now.date())
    source = models.Source.objects.create(name="bench", conninfo="", checked_at=now)
    slot = models.Slot.objects.create(
        source=source, name="bench", state="streaming", heartbeat_at=now, server_lsn=LSN(1 << 34)
    )
    slot.incarnation = models.SlotIncarnation.objects.create(
        slot=slot, number=1, system_identifier="1", timeline=1, reason="created"
    )
    slot.save()
    tables = [
        models.Relation.objects.create(
            slot=slot, system_identifier="1", oid=oid, schema="public", table=f"table_{oid}"
        ).pk
        for oid in range(20)
    ]

    def transaction(number: int, state: str, **values: Any) -> models.Transaction:
        since = now - dt.timedelta(seconds=number)
        counts = {str(tables[(number + n) % 20]): [1, 2, 0, 0] for n in range(3)}
        return models.Transaction(
            id=transaction_id(number), incarnation=slot.incarnation, state=state, xid=1000 + number,
            gid=f"waiting_{number}", prepared_at=since, received_at=since, stored_at=since,
            first_lsn=LSN((1 << 33) + number), inserts=3, updates=6, size_bytes=900,
            relations=counts, **values,
        )  # fmt: skip

    prepared = [transaction(n, "prepared") for n in range(waiting)]
    ended = [
        transaction(waiting + n, "committed", commit_seq=n + 1, commit_time=now)
        for n in range(ENDED)
    ]
    models.Transaction.objects.bulk_create([*prepared, *ended])
    models.Transition.objects.bulk_create(
        models.Transition(transaction_id=row.pk, state="prepared", recorded_at=row.received_at)
        for row in (*prepared, *ended)
    )
    there = [
        {"gid": row.gid, "xid": row.xid, "prepared_at": row.received_at.isoformat(),
         "owner": "bench", "database": "bench"}
        for row in prepared
    ]  # fmt: skip
    models.SourceLook.objects.create(
        source=source, looked_at=now + dt.timedelta(hours=1), prepared=there, running=[],
        holders={"next_xid": 1 << 20, "logical_decoding_work_mem_bytes": 64 * MB, "slots": {
            "bench": {"restart_lsn": "2/0", "catalog_xmin": 1000, "catalog_xmin_age": 1 << 20,
                      "retained_wal_bytes": 1 << 33, "active": True, "database": "bench"}}},
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return prepared[waiting // 2].pk


def ask(addresses: dict[str, str], requests: int) -> dict[str, list[float]]:
    """Milliseconds of each answer; the first of each, which fills caches, is not counted."""
    from django.test import Client

    from tests.support.people import make_user

    client = Client(headers={"host": "localhost"})
    client.force_login(make_user("bench"))
    found: dict[str, list[float]] = {}
    for what, address in addresses.items():
        times_ms = []
        for _ in range(requests + 1):
            started = time.perf_counter()
            answer = client.get(address)
            times_ms.append((time.perf_counter() - started) * 1000)
            assert answer.status_code == 200, (address, answer.status_code)
        found[what] = times_ms[1:]
    return found


def main(waiting: int, requests: int) -> None:
    """Fill, ask, print."""
    chosen = fill(waiting)
    addresses = {
        "whole page": "/in-flight/",
        "with a drawer": f"/in-flight/?tx={chosen}",
        "part renewed": f"/in-flight/now/?tx={chosen}",
    }
    print(json.dumps(ask(addresses, requests)))


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), int(sys.argv[2]))
