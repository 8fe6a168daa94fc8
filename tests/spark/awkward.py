"""A source with PostgreSQL's awkward values, received; and what a reader must give."""

import json
from typing import Any

import pyarrow as pa

from replview.parquet.pg_values import convert
from replview.parquet.slices import SliceTable
from replview.store.models import Change, LargeValue, RelationVersion, Transaction
from tests.support.source_databases import SourceDatabase

TYPES = """
    CREATE TYPE mood AS ENUM ('fine', 'sad');
    CREATE TYPE pair AS (a int, b text);
"""
TABLE = """
    CREATE TABLE "Awkward" (
        id int PRIMARY KEY, "ID" text, _seq int, "a ""b".c' text, flag boolean, n numeric,
        price numeric(12,2), at timestamptz, local timestamp, day date, span interval, hour time,
        code uuid, doc jsonb, raw bytea, tags text[], grid int[], feeling mood, during int4range,
        two pair, wide text
    )
""".replace('"a ""b".c\'', '"a ""b.c\'"')
ROWS = [
    """(1, 'x', 7, 'q', true, 1.50, 'NaN', 'infinity', '-infinity', '0044-03-15 BC', '1 year',
        '24:00', gen_random_uuid(), '{"$masked": true, "a": [1]}', '\\x00ff', '{a,NULL,"b,c"}',
        '{{1,2},{3,4}}', 'fine', '[1,5)', row(1, 'x'), 'z')""",
    """(2, '', NULL, E'line\\nbreak,"q"', false, 'NaN', 9999999999.99, '10000-01-01 00:00+00',
        '2026-11-20 07:57:11.3', '2026-11-20', '-3 days', '07:57', NULL, 'null', '', '{}',
        '{1,NULL}', 'sad', 'empty', NULL, '{"$looks like a mark": 1}')""",
    """(3, NULL, NULL, '\\.', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, repeat('long', 3000))""",
]  # fmt: skip


def write_awkward(source: SourceDatabase, record: Any) -> Any:
    """Receive a history: values, unchanged TOAST, aborted savepoints, changes of shape."""
    source.run(TYPES, TABLE, 'ALTER TABLE "Awkward" ALTER wide SET STORAGE EXTERNAL')
    source.run("CREATE TABLE other (id int PRIMARY KEY, v text)")
    source.run("ALTER TABLE other REPLICA IDENTITY FULL")
    recording = record(source)
    source.run(*[f'INSERT INTO "Awkward" VALUES {row}' for row in ROWS])
    source.run(
        'UPDATE "Awkward" SET price = 1 WHERE id = 3',
        'UPDATE "Awkward" SET id = 4 WHERE id = 2',
        "INSERT INTO other SELECT n, 'v' || n FROM generate_series(1, 300) n",
        "UPDATE other SET v = NULL WHERE id <= 2",
        """BEGIN; INSERT INTO other VALUES (1001, 'kept'); SAVEPOINT s;
           INSERT INTO other SELECT n, repeat('gone', 100) FROM generate_series(2000, 2999) n;
           ROLLBACK TO s; INSERT INTO other VALUES (1002, 'kept'); COMMIT""",
        'DELETE FROM "Awkward" WHERE id = 1',
    )
    # Read later, the catalog does not tell whether a shape is the same: versions would be more.
    recording.caught_up()
    source.run(
        'ALTER TABLE "Awkward" DROP COLUMN two; '
        'ALTER TABLE "Awkward" RENAME COLUMN hour TO o_clock; '
        'ALTER TABLE "Awkward" ALTER id TYPE bigint; '
        'ALTER TABLE "Awkward" ADD COLUMN extra text',
        "INSERT INTO \"Awkward\" (id, extra) VALUES (99999999999, 'e')",
        "TRUNCATE other",
        "SELECT pg_logical_emit_message(true, 'p', 'told')",
    )
    recording.caught_up()
    return recording


def expected_rows(table: SliceTable) -> list[dict[str, Any]]:
    """Every row of a table in the store, worked out one by one."""
    versions = {v.pk: v for v in RelationVersion.objects.filter(relation_id=table.relation_id)}
    made = []
    places = Transaction.objects.filter(state__in=["committed", "snapshot"]).order_by("commit_seq")
    for transaction in places:
        gone = set(_aborted(transaction.pk))
        changes = Change.objects.filter(
            transaction_id=transaction.pk, relation_id=table.relation_id
        ).exclude(op="T")
        for change in changes.order_by("seq"):
            if change.subxid in gone:
                continue
            for kind, side in _images(change):
                made.append(
                    _row(table, versions[change.version_id], transaction, change, kind, side)
                )
    return made


def _aborted(transaction_id: int) -> list[int]:
    from replview.store.models import AbortedSubtransaction

    found = AbortedSubtransaction.objects.filter(transaction_id=transaction_id)
    return [each.subxid for each in found]


def _images(change: Change) -> list[tuple[str, str]]:
    if change.op == "D":
        return [("delete", "old")]
    if change.op == "U":
        whole = change.old_kind == "O" or change.old_key_hash is not None
        before = [("update_preimage", "old")] if whole else []
        return [*before, ("update_postimage", "new")]
    return [("insert", "new")]


def _row(table, version, transaction, change, kind, side) -> dict[str, Any]:
    image = getattr(change, side) or {}
    names = [column["name"] for column in version.columns]
    row: dict[str, Any] = {}
    raw: dict[str, str] = {}
    for column in table.columns:
        value = image.get(column.source_name)
        if isinstance(value, dict) and "$aside" in value:
            pieces = LargeValue.objects.filter(
                transaction_id=change.transaction_id, seq=change.seq, side=side,
                column=column.source_name,
            ).order_by("piece")  # fmt: skip
            value = "".join(piece.content for piece in pieces)
        found = convert([value], column.arrow)
        row[column.name] = found.array[0].as_py()
        if found.raw:
            raw[column.source_name] = found.raw[0]
    return row | {
        "_change_type": kind,
        "_commit_version": int(transaction.commit_lsn),
        "_commit_timestamp": transaction.commit_time,
        "_lsn": str(change.lsn),
        "_xid": transaction.xid,
        "_commit_seq": transaction.commit_seq,
        "_seq": change.seq,
        "_actor": transaction.actor,
        "_relation_version": version.number,
        "_derived": False,
        "_not_sent": [
            column.source_name
            for column in table.columns
            if column.source_name in names and column.source_name not in image
        ],
        "_pg_raw": raw,
    }


def as_rows(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Batches as the rows of ``expected_rows``."""
    return [row for b in batches for row in b.to_pylist(maps_as_pydicts="strict")]


def mark(name: str) -> str:
    """A mark as ``_pg_raw`` tells it."""
    return json.dumps({name: True}, separators=(",", ":"))
