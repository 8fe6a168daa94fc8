"""A stream that catches up: twice the backlog takes about twice the time."""

import datetime as dt
import json
import tempfile
import time
from typing import Any

import psycopg

from replview.store.read.days import IDS_PER_HOUR
from replview.store.write.partitions import ensure_partitions
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.spark.filling import COLUMNS, new_slot
from tests.benchmarks.spark.reading import session

BAR_RATIO = 2.2
#: The number of micro-batches of the whole backlog, whatever its size.
_BATCHES = 50

# Each inserts one row.
_TRANSACTIONS = """
    INSERT INTO transaction (id, incarnation_id, commit_seq, xid, state, streamed, first_lsn,
        commit_lsn, end_lsn, commit_time, inserts, updates, deletes, truncates, messages,
        size_bytes, relations, aborted_changes, received_at)
    SELECT {first} + n, {incarnation}, n, n, 'committed', false,
           '0/0'::pg_lsn + n * 10, '0/0'::pg_lsn + n * 10, '0/0'::pg_lsn + n * 10 + 5,
           now(), 1, 0, 0, 0, 0, 90,
           '{{"{relation}": [1, 0, 0, 0]}}', 0, now()
    FROM generate_series(1, {number}) n
"""
_CHANGES = """
    INSERT INTO change (transaction_id, seq, lsn, relation_id, version_id, op, new)
    SELECT {first} + n, 1, '0/0'::pg_lsn + n * 10, {relation}, {version}, 'I',
           jsonb_build_object('id', n::text)
    FROM generate_series(1, {number}) n
"""


def catching_up(dsn: str, changes: int) -> list[Result]:
    """Half a million transactions (of 2 million ``changes``), and a million."""
    whole = changes // 2
    backlogs = {"half": whole // 2, "whole": whole}
    with psycopg.connect(dsn, autocommit=True) as store:
        for place, (name, number) in enumerate(backlogs.items(), start=1):
            _fill(store, name, number, place)
        store.execute("VACUUM (ANALYZE)")
    with session() as spark:
        # Spark itself starts.
        _stream(spark, dsn, "half", backlogs["half"], backlogs["half"])
        half, all_of_it = (
            _stream(spark, dsn, name, number, whole // _BATCHES)
            for name, number in backlogs.items()
        )
    detail = f"{half:.1f} s for {backlogs['half']:,}, {all_of_it:.1f} s for {whole:,} transactions"
    return [
        Result(
            "catching up over twice the backlog, of the time",
            f"{all_of_it / half:.2f} ({detail})",
            f"≤ {BAR_RATIO:g}",
            all_of_it / half <= BAR_RATIO,
        )
    ]


def _stream(spark: Any, dsn: str, slot: str, number: int, most: int) -> float:
    """Seconds until so many transactions are read, in a run for each batch (as PySpark 4.1 can)."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for end in range(most, number + 1, most):
            frame = spark.readStream.format("replview").options(
                dsn=dsn, slot=slot, relation="public.t", upTo=json.dumps({"1": end})
            )
            query = (
                frame.load().writeStream.format("noop").option("checkpointLocation", folder)
                .trigger(availableNow=True).start()
            )  # fmt: skip
            query.awaitTermination()
            if query.exception() is not None:
                raise Failed(f"the stream ended: {query.exception()}")
    return time.monotonic() - started


def _fill(store: psycopg.Connection, name: str, number: int, place: int) -> None:
    """A slot with so many transactions of today, in hours of their own."""
    from replview.store import models

    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    ensure_partitions(store, today.date(), today.date())
    slot = new_slot(name, number)
    relation = models.Relation.objects.create(
        slot=slot, system_identifier="1", oid=16384, schema="public", table="t"
    )
    version = models.RelationVersion.objects.create(
        relation=relation, number=1, digest="1", schema="public", table="t",
        replica_identity="DEFAULT", columns=COLUMNS[:1], key_columns=["id"],
    )  # fmt: skip
    first = (int(today.timestamp()) // 3600 + place) * IDS_PER_HOUR + IDS_PER_HOUR // 4 * 3
    made = {"first": first, "incarnation": slot.incarnation_id, "relation": relation.pk,
            "version": version.pk, "number": number}  # fmt: skip
    store.execute(_TRANSACTIONS.format(**made))
    store.execute(_CHANGES.format(**made))
