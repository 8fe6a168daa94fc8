"""A store with two million changes of two tables, made by SQL: transactions of five changes."""

import datetime as dt
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store.read.days import IDS_PER_HOUR
from replview.store.write.partitions import ensure_partitions
from tests.benchmarks.bench_servers import STORE

if TYPE_CHECKING:
    from replview.store.models import Slot

CHANGES = 2_000_000
PER_TRANSACTION = 5
#: The number of a transaction's changes in ``orders``; its last change is in the other table.
OF_ORDERS = 4
DAYS = 3

COLUMNS = [
    {"name": name, "type_oid": oid, "typmod": typmod, "type": kind, "key": name == "id"}
    for name, oid, typmod, kind in (
        ("id", 20, -1, "bigint"), ("customer", 23, -1, "integer"), ("product", 23, -1, "integer"),
        ("quantity", 21, -1, "smallint"), ("price", 1700, ((10 << 16) | 2) + 4, "numeric(10,2)"),
        ("status", 25, -1, "text"), ("at", 1184, -1, "timestamp with time zone"),
        ("note", 25, -1, "text"),
    )
]  # fmt: skip

_TRANSACTIONS = """
    INSERT INTO transaction (id, incarnation_id, commit_seq, xid, state, streamed, first_lsn,
        commit_lsn, end_lsn, commit_time, inserts, updates, deletes, truncates, messages,
        size_bytes, relations, aborted_changes, received_at, stored_at, actor, actor_grade)
    SELECT ({hour} + n * {hours} / {number}) * {per_hour} + {offset} + n, {incarnation}, n, 700 + n,
           'committed',
           false, '0/0'::pg_lsn + n * 1000, '0/0'::pg_lsn + n * 1000 + 900,
           '0/0'::pg_lsn + n * 1000 + 950,
           to_timestamp(({hour} + n * {hours} / {number}) * 3600 + n % 3600), 2, 2, 1, 0, 0, 900,
           '{{"{orders}": [1, 2, 1, 0], "{items}": [1, 0, 0, 0]}}', 0, now(), now(),
           'clerk ' || n % 40, 'claimed'
    FROM generate_series(1, {number}) n
"""
# (k's end tells of n, so that a transaction's changes lie together, as a receiver stores them.)
_CHANGES = """
    INSERT INTO change (transaction_id, seq, lsn, relation_id, version_id, op, old_kind, old, new,
                        key_hash)
    SELECT ({hour} + n * {hours} / {number}) * {per_hour} + {offset} + n, k,
           '0/0'::pg_lsn + n * 1000 + k, CASE k WHEN 5 THEN {items} ELSE {orders} END,
           CASE k WHEN 5 THEN {items_version} ELSE {orders_version} END, o.op,
           CASE o.op WHEN 'D' THEN 'K' END,
           CASE o.op WHEN 'D' THEN jsonb_build_object('id', row.id::text) END,
           CASE o.op WHEN 'D' THEN NULL ELSE jsonb_build_object(
               'id', row.id::text, 'customer', (n % 50000)::text, 'product', (n % 997)::text,
               'quantity', (1 + n % 9)::text,
               'price', ((n % 90000)::numeric / 100)::numeric(10,2)::text,
               'status', (ARRAY['new', 'paid', 'sent', 'back'])[1 + (n % 4)],
               'at', '2026-11-' || lpad((1 + n % 28)::text, 2, '0') || ' 07:57:11.369827+00',
               'note', {note}) END,
           row.id
    FROM generate_series({first}, {last}) n, generate_series(1, 5 + 0 * n) k,
         LATERAL (SELECT {row_id} AS id) row, LATERAL (SELECT ({op})::"char" AS op) o
"""
#: A change is of a row of its own.
_ONCE = {
    "row_id": "n * 5 + k",
    "op": "(ARRAY['I', 'U', 'U', 'D', 'I'])[k]",
    "note": "CASE WHEN n % 11 = 0 THEN NULL ELSE 'note of order ' || n END",
}
#: Rows that hardly repeat.
_WIDE = {
    "row_id": "n * 5 + k", "op": "(ARRAY['I', 'U', 'U', 'U', 'U'])[k]",
    "note": "md5(n::text || k) || md5(k::text || n) || md5(n || ' ' || k) || md5(k || ' ' || n)"
    " || md5(n || 'a' || k) || md5(k || 'a' || n)",
}  # fmt: skip
#: Rows of orders are changed again and again, each inserted, updated five times, deleted, and so
#: on. (A transaction's counts per operation stay those of the others: their sum is right.)
ROWS = 50_000
_TOUCH = "((n - 1) * 4 + k - 1)"
_AGAIN = {
    "note": _ONCE["note"],
    "row_id": f"CASE k WHEN 5 THEN n * 5 + k ELSE {_TOUCH} % {ROWS} END",
    "op": f"CASE WHEN k = 5 OR {_TOUCH} / {ROWS} % 7 = 0 THEN 'I'"
    f" WHEN {_TOUCH} / {ROWS} % 7 = 6 THEN 'D' ELSE 'U' END",
}


@contextmanager
def filled_store(changes: int) -> Iterator[str]:
    """The address of a started store with so many changes; it is gone afterwards."""
    settings = {**STORE, "fsync": "off", "random_page_cost": "1.1"}
    with EmbeddedPostgres.temporary(settings=settings) as server:
        server.create_database("replview")
        dsn = server.dsn("replview")
        _migrate(dsn, server.data_dir.parent)
        with psycopg.connect(dsn, autocommit=True) as store:
            _fill(store, changes // PER_TRANSACTION, "replview", _ONCE)
        yield dsn


def add_histories(dsn: str, changes: int) -> None:
    """Another slot, ``histories``, with so many changes: rows that have a past."""
    with psycopg.connect(dsn, autocommit=True) as store:
        _fill(store, changes // PER_TRANSACTION, "histories", _AGAIN)


def add_wide(dsn: str, changes: int) -> None:
    """A third one, ``wide``: large rows, all of one day."""
    with psycopg.connect(dsn, autocommit=True) as store:
        _fill(store, changes // PER_TRANSACTION, "wide", _WIDE, days=1)


def _migrate(dsn: str, folder: Path) -> None:
    os.environ.update({
        "REPLVIEW_STORE_URL": dsn,
        "REPLVIEW_DATA": str(folder),
        "REPLVIEW_SECRET_KEY": secrets.token_urlsafe(24),
        "REPLVIEW_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "replview.settings",
    })  # fmt: skip
    import django
    from django.core.management import call_command

    if "replview.settings" in sys.modules:
        raise RuntimeError("the settings were read before the store was there")
    django.setup()
    call_command("migrate", verbosity=0)


def new_slot(name: str, commit_seq: int) -> "Slot":
    """A slot of the shop whose record has so many transactions."""
    from replview.store import models

    source, _ = models.Source.objects.get_or_create(name="shop", defaults={"conninfo": ""})
    slot = models.Slot.objects.create(source=source, name=name, publications=["shop"])
    slot.incarnation = models.SlotIncarnation.objects.create(
        slot=slot, number=1, system_identifier="1", timeline=1, reason="created",
        commit_seq=commit_seq,
    )  # fmt: skip
    slot.save()
    return slot


def _fill(
    store: psycopg.Connection, number: int, name: str, rows: dict[str, str], *, days: int = DAYS
) -> None:
    from replview.store import models

    today = dt.datetime.now(dt.UTC).date()
    first_day = today - dt.timedelta(days=days)
    ensure_partitions(store, first_day, today)
    slot = new_slot(name, number)
    made = {}
    for oid, table in ((16384, "orders"), (16385, "items")):
        relation = models.Relation.objects.create(
            slot=slot, system_identifier="1", oid=oid, schema="public", table=table
        )
        version = models.RelationVersion.objects.create(
            relation=relation, number=1, digest="1", schema="public", table=table,
            replica_identity="DEFAULT", columns=COLUMNS, key_columns=["id"],
        )  # fmt: skip
        made |= {table: relation.pk, f"{table}_version": version.pk}
    midnight = dt.datetime.combine(first_day, dt.time(), tzinfo=dt.UTC)
    made |= {
        "incarnation": slot.incarnation_id, "number": number,
        "hours": days * 24, "per_hour": IDS_PER_HOUR,
        "hour": int(midnight.timestamp()) // 3600,
        # Beside those of other slots.
        "offset": IDS_PER_HOUR // 8 * (0 if rows is _ONCE else 4 if rows is _AGAIN else 2),
    }  # fmt: skip
    store.execute(_TRANSACTIONS.format(**made))
    store.execute(_CHANGES.format(**made, **rows, first=1, last=number))
    store.execute("VACUUM (ANALYZE)")
    store.execute("CHECKPOINT")
