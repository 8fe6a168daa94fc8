"""Rows of ``change`` go into a segment and come back as the same rows."""

from collections.abc import Iterable

import pyarrow as pa
import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings

from replview.segments.layout import SCHEMA, SegmentChange, changes_of, table_of
from replview.segments.reading import SegmentReader
from replview.segments.writing import write_segment
from tests.segments.random_changes import changes

_TABLE = "CREATE TEMPORARY TABLE {} (commit_seq bigint, LIKE change) ON COMMIT DROP"
_COLUMNS = ", ".join(f'"{name}"' for name in SCHEMA.names)
_INSERT = f"""
    INSERT INTO {{}} ({_COLUMNS}) SELECT w.commit_seq, w.transaction_id, w.seq,
        '0/0'::pg_lsn + w.lsn, w.subxid, w.relation_id, w.version_id, w.op::"char",
        w.old_kind::"char", w.key_hash, w.old_key_hash, w.old::jsonb, w.new::jsonb
    FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::numeric[], %s::bigint[], %s::bigint[],
                %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[],
                %s::text[]) AS w ({_COLUMNS})
"""
_SELECT = (
    f"SELECT {_COLUMNS} FROM {{}} ORDER BY transaction_id, seq".replace('"lsn"', "(lsn - '0/0')")
    .replace('"old"', "old::text")
    .replace('"new"', "new::text")
)
_DIFFERENCES = "(TABLE {0} EXCEPT ALL TABLE {1}) UNION ALL (TABLE {1} EXCEPT ALL TABLE {0})"


@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes())
def test_rows_come_back_from_a_segment_as_they_were(rows) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        _store(cursor, "before", rows)
        cursor.execute(_SELECT.format("before"))
        stored = [SegmentChange(row[0], row[1], row[2], int(row[3]), *row[4:]) for row in cursor]

        payload = write_segment(1, table_of(stored), group_rows=3)
        reader = SegmentReader(pa.BufferReader(payload))
        _store(cursor, "after", (change for table in reader.read() for change in changes_of(table)))

        cursor.execute(_DIFFERENCES.format("before", "after"))
        assert cursor.fetchall() == []
        cursor.execute("SELECT count(*) FROM after")
        assert cursor.fetchone() == (len(rows),)
        transaction.set_rollback(True)


def _store(cursor, table: str, rows: Iterable[SegmentChange]) -> None:
    cursor.execute(_TABLE.format(table))
    cursor.execute(_INSERT.format(table), [list(column) for column in zip(*rows, strict=True)])
