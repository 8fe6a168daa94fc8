"""Fills a migrated store with the generated record: two slots of one source.

Everything but transactions and changes is written here; those by processes of their own
(``writing``). Needs Django to be set up.
"""

import datetime as dt
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from decoder.scalars import LSN
from replview.store import models
from replview.store.write import copy_rows
from replview.store.write.copy_rows import COPY_HEADER, COPY_TRAILER
from replview.store.write.partitions import ensure_partitions
from tests.benchmarks.pages.around import write_events, write_evidence, write_open, write_samples
from tests.benchmarks.pages.scale import Plan, Scale
from tests.benchmarks.pages.shared import moment, shared_row
from tests.benchmarks.pages.tables import Table, tables
from tests.benchmarks.pages.writing import Task
from tests.benchmarks.processes import ROOT, Failed

WORKERS = max(1, min(os.cpu_count() or 1, 4))
#: The longest that one was prepared before it committed, and a day for what rounds.
_EARLIER = dt.timedelta(days=4)
#: The second slot's share of the first one's changes.
_SECOND_SLOT = 200
SYSTEM = "7512345678901234567"


def fill(dsn: str, scale: Scale, log: Path) -> None:
    """The whole record; raises ``Failed`` when a process of it does not end well."""
    end = dt.datetime.now(dt.UTC).replace(microsecond=0)
    with psycopg.connect(dsn, autocommit=True) as store:
        first = (end - dt.timedelta(days=scale.days) - _EARLIER).date()
        ensure_partitions(store, first, end.date() + dt.timedelta(days=1))
        source = _source(end)
        second = Scale(
            changes=scale.changes // _SECOND_SLOT,
            transactions=scale.transactions // _SECOND_SLOT,
            tables=min(3, scale.tables),
            days=scale.days,
        )
        for name, of_slot, first_id in (("replview", scale, 1), ("audit", second, 1 << 31)):
            _fill_slot(store, dsn, _slot(source, name, end), of_slot, end, first_id, log)
        store.execute("VACUUM (ANALYZE)")
        store.execute("CHECKPOINT")


def _source(end: dt.datetime) -> models.Source:
    source = models.Source.objects.create(
        name="shop", conninfo="host=shop.example dbname=shop", server_version=180004,
        system_identifier=SYSTEM, timeline=1, encoding="UTF8", in_recovery=False, checked_at=end,
        max_slot_wal_keep_bytes=8 << 30,
    )  # fmt: skip
    holders = {"next_xid": 1 << 20, "logical_decoding_work_mem_bytes": 64 << 20, "slots": {}}
    models.SourceLook.objects.create(
        source=source, looked_at=end, prepared=[], running=[], holders=holders
    )
    return source


def _slot(source: models.Source, name: str, end: dt.datetime) -> models.Slot:
    return models.Slot.objects.create(
        source=source, name=name, publications=["shop"], state="streaming", heartbeat_at=end,
        connected_at=end - dt.timedelta(days=2), options={"proto_version": 4, "messages": True},
        last_commit_time=end, last_stored_at=end, state_since=end - dt.timedelta(days=2),
    )  # fmt: skip


def _fill_slot(
    store: psycopg.Connection[Any], dsn: str, slot: models.Slot, scale: Scale, end: dt.datetime,
    first_id: int, log: Path,
) -> None:  # fmt: skip
    plan = Plan(scale, end)
    incarnations = _incarnations(slot, plan)
    incarnation_ids = [incarnation.pk for incarnation in incarnations]
    shapes = tables(scale.tables)
    relations = [_relation(slot, table, plan) for table in shapes]
    task = {
        "dsn": dsn, "workers": WORKERS, "changes": scale.changes, "tables": scale.tables,
        "transactions": scale.transactions, "end": end.isoformat(), "first_id": first_id,
        "incarnations": incarnation_ids, "relations": relations,
    }  # fmt: skip
    told = _run_workers(task, log)
    with store.cursor().copy(
        f"COPY transaction ({', '.join(copy_rows.TRANSACTION_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    ) as copy:
        shared = [
            shared_row(plan, n, first_id, incarnation_ids, [part[n] for part in told])
            for n in told[0]
        ]
        copy.write(COPY_HEADER + b"".join(s.pack(s.received_at_us) for s in shared) + COPY_TRAILER)
    last_lsn = LSN(plan.commit_lsn(scale.transactions - 1) + 48)
    models.Slot.objects.filter(pk=slot.pk).update(
        incarnation=incarnations[1], checkpoint_lsn=last_lsn, server_lsn=last_lsn,
        transactions_stored=plan.commits(1), changes_stored=scale.changes,
        published_tables=scale.tables,
    )  # fmt: skip
    write_events(slot, incarnations, plan, relations, shapes)
    write_evidence(slot, incarnations[0], plan, shapes, shared[0].id)
    write_open(incarnations[1], plan, relations, first_id + scale.transactions)
    write_samples(slot, plan)


def _run_workers(task: dict[str, Any], log: Path) -> list[dict[int, dict[int, list[int]]]]:
    """Every process's share; what each counted of the shared transactions."""
    command = [sys.executable, "-m", "tests.benchmarks.pages.writing"]
    started = []
    try:
        for worker in range(WORKERS):
            with open(log, "ab") as errors:
                process = subprocess.Popen(
                    command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
                )
            started.append(process)
            assert process.stdin is not None
            process.stdin.write(json.dumps(asdict(Task(**task, worker=worker))).encode())
            process.stdin.close()
        said = [process.stdout.read() for process in started if process.stdout is not None]
        if any(process.wait() for process in started):
            raise Failed(f"a process of the generator failed: see {log}")
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [
        {
            int(n): {int(relation): counts for relation, counts in found.items()}
            for n, found in json.loads(text).items()
        }
        for text in said
    ]


def _incarnations(slot: models.Slot, plan: Plan) -> list[models.SlotIncarnation]:
    """The slot was advanced by somebody after its first days: a gap."""
    begins = ((0, "created"), (plan.second_incarnation, "advanced"))
    return [
        models.SlotIncarnation.objects.create(
            slot=slot, number=number + 1, system_identifier=SYSTEM, timeline=1, reason=reason,
            started_lsn=LSN(plan.lsn(n)), started_at=moment(plan.time_us(n)),
            commit_seq=plan.commits(number),
        )
        for number, (n, reason) in enumerate(begins)
    ]  # fmt: skip


def _relation(slot: models.Slot, table: Table, plan: Plan) -> tuple[int, list[int], list[int]]:
    """The relation, its versions, and from which transaction on each was in force."""
    relation = models.Relation.objects.create(
        slot=slot, system_identifier=SYSTEM, oid=16384 + table.position, schema="public",
        table=table.name,
    )  # fmt: skip
    step = plan.scale.transactions // table.versions
    starts = [step * number for number in range(table.versions)]
    versions = [
        models.RelationVersion.objects.create(
            relation=relation, number=number, digest=f"{table.name}-{number}", schema="public",
            table=table.name, replica_identity=table.identity, columns=table.columns(number),
            key_columns=table.key_columns, first_lsn=LSN(plan.lsn(start)), first_xid=1000 + start,
            first_seen_at=moment(plan.time_us(start)),
            intervals=[{"lsn": str(LSN(plan.lsn(start))), "xid": 1000 + start}],
        )
        for number, start in enumerate(starts, start=1)
    ]  # fmt: skip
    relation.current_version = versions[-1]
    relation.save()
    return relation.pk, [version.pk for version in versions], starts
