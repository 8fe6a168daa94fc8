"""A source that describes more tables, or more shapes of one, than it has any use for."""

import struct
from collections.abc import Callable, Sequence

import pytest
from django.db import connection

from replview.store.models import Relation, RelationVersion, SlotEvent
from tests.hostile.tampering import HEAD, MOST_BYTES, Tampering, data, peak_bytes
from tests.support.proxy import Proxy
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.pg(16)]


def relation(oid: int, name: str, *columns: str) -> bytes:
    """A Relation message; the first column is the key, all are integers."""
    described = [
        struct.pack(">B", n == 0) + column.encode() + b"\0" + struct.pack(">ii", 23, -1)
        for n, column in enumerate(columns)
    ]
    head = b"R" + struct.pack(">I", oid) + b"public\0" + name.encode() + b"\0d"
    return head + struct.pack(">h", len(columns)) + b"".join(described)


def before(messages: Sequence[bytes]) -> Callable[[bytes], bytes]:
    """All of them stand before this one."""
    return lambda frame: b"".join(data(frame[:HEAD] + one) for one in messages) + data(frame)


def _most_at_once() -> int:
    """Return how many tables the largest store transaction stored: a store transaction that asks
    the source's catalog for too many takes so long that the receiver gives it up.
    """
    tables = "SELECT count(DISTINCT relation_id) AS n FROM relation_version GROUP BY xmin::text"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT max(n) FROM ({tables})")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("flood", ["tables", "shapes", "columns"])
def test_a_flood_of_relations_is_stored_or_refused_and_the_slot_goes_on(
    source: SourceDatabase, record, monkeypatch: pytest.MonkeyPatch, flood: str
) -> None:
    monkeypatch.setattr("replview.receiver.run.pause_seconds", lambda code, attempt: 0.05)
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with source.connect() as session:
        [oid] = session.execute("SELECT 't'::regclass::oid::int").fetchone()
    messages = {
        "tables": [relation(1_000_000 + n, f"t{n}", "id", f"c{n}") for n in range(250)],
        "shapes": [relation(oid, "t", "id", f"c{n}") for n in range(200)],
        "columns": [relation(1_000_000, "w", *(f"c{n}" for n in range(30_000)))],
    }[flood]
    recording, memory = record(source, start=False), peak_bytes()
    with Proxy(source.server.port) as proxy:
        recording.dsn = proxy.dsn(source.dsn)
        recording.start()
        recording.streaming()
        proxy.to_client.rewrite = tampering = Tampering(b"R", before(messages))
        source.run("INSERT INTO t VALUES (1, 'x')", "INSERT INTO t VALUES (2, 'y')")
        wait_for(lambda: tampering.done)
        recording.caught_up(120)
        recording.end()

    assert peak_bytes() - memory < MOST_BYTES
    transactions = recording.transactions()
    assert [t.commit_seq for t in transactions] == [1, 2]
    changes = [change for t in transactions for change in recording.changes(t)]
    assert [c.new for c in changes] == [{"id": "1", "v": "x"}, {"id": "2", "v": "y"}]
    stored = {"tables": (251, 251), "shapes": (1, 201), "columns": (1, 1)}
    assert (Relation.objects.count(), RelationVersion.objects.count()) == stored[flood]
    assert _most_at_once() <= 101  # 100 of the flood, and the table of the insert
    told = SlotEvent.objects.filter(slot=recording.slot, kind__in=["disconnected", "problem"])
    refused = ["protocol"] * (flood == "columns")
    assert [event.detail["code"] for event in told] == refused


def test_a_table_of_too_many_shapes_stops_its_slot_until_more_are_allowed(
    source: SourceDatabase, record, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    monkeypatch.setattr("replview.receiver.run.pause_seconds", lambda code, attempt: 0.05)
    settings.VERSIONS_PER_TABLE = 3
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    for number in range(4):
        source.run(f"INSERT INTO t VALUES ({number})", f"ALTER TABLE t ADD c{number} int")

    slot = recording.problem("too_many_versions")
    assert "public.t was altered so often that it has more than 3 versions" in slot.problem_cause
    assert "REPLVIEW_VERSIONS_PER_TABLE" in slot.problem_remedy
    assert RelationVersion.objects.count() <= 3
    settings.VERSIONS_PER_TABLE = 4
    recording.caught_up()
    recording.end()
    found = [change for t in recording.transactions() for change in recording.changes(t)]
    assert [change.new["id"] for change in found] == ["0", "1", "2", "3"]
    assert RelationVersion.objects.count() == 4
