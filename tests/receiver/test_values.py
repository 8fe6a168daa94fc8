"""The store keeps a value exactly as the server's text, marks what is not text, or omits it."""

import json

import pytest

from replview.store.models import LargeValue, Relation, RelationVersion
from replview.store.read.rows import signed_hash
from tests.receiver.conftest import BOTH_INTERFACES
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow


@BOTH_INTERFACES
def test_unchanged_toast_is_absent_from_the_new_row(source: SourceDatabase, record) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, long text)",
        "ALTER TABLE t ALTER long SET STORAGE EXTERNAL",
    )
    recording = record(source)
    source.run("INSERT INTO t VALUES (1, 1, repeat('x', 9000))", "UPDATE t SET n = 2")
    recording.caught_up()

    _, update = recording.transactions()
    [change] = recording.changes(update)
    assert change.new == {"id": "1", "n": "2"}


@BOTH_INTERFACES
def test_a_moved_key_is_found_under_both_keys(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    source.run("INSERT INTO t VALUES (1)", "UPDATE t SET id = 2")
    recording.caught_up()

    [change] = recording.changes(recording.transactions()[1])
    assert change.key_hash == signed_hash(["2"])
    assert change.old_key_hash == signed_hash(["1"])


@BOTH_INTERFACES
def test_under_full_the_key_is_the_primary_key_of_the_catalog(
    source: SourceDatabase, record
) -> None:
    source.run("CREATE TABLE t (a int, b text PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY FULL")
    recording = record(source)
    source.run("INSERT INTO t VALUES (1, 'k')", "UPDATE t SET a = 2")
    recording.caught_up()

    [change] = recording.changes(recording.transactions()[1])
    assert (change.old_kind, change.old) == ("O", {"a": "1", "b": "k"})
    assert change.key_hash == signed_hash(["k"])
    assert RelationVersion.objects.get(pk=change.version_id).key_columns == ["b"]


def test_the_key_is_found_though_the_catalogs_connection_was_lost(
    source: SourceDatabase, record
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY FULL")
    recording = record(source)
    source.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
        "current_database() AND application_name = 'replview' AND backend_type = 'client backend'",
        "INSERT INTO t VALUES (1)",
    )
    recording.caught_up()

    [change] = recording.changes(recording.transactions()[0])
    assert change.key_hash == signed_hash(["1"])


@pytest.mark.pg(15)
def test_part_of_a_primary_key_is_no_key(source: SourceDatabase, record) -> None:
    source.run(
        "CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    recording = record(source, publish="TABLE t (a, v) WITH (publish = 'insert')")
    source.run("INSERT INTO t VALUES (1, 2, 'x')")
    recording.caught_up()

    [change] = recording.changes(recording.transactions()[0])
    assert change.key_hash is None
    assert RelationVersion.objects.get(pk=change.version_id).key_columns == []


@BOTH_INTERFACES
def test_a_message_too_long_for_jsonb_goes_aside(source, record, settings) -> None:
    settings.VALUE_ASIDE_BYTES = 100_000
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    emit = "SELECT pg_logical_emit_message({}, 'long', repeat('m', 200000))"
    source.run(emit.format("false"), emit.format("true"))
    recording.caught_up()

    for transaction in recording.transactions():
        [change] = recording.changes(transaction)
        assert change.new["content"] == {"$aside": 200_000}
        [piece] = LargeValue.objects.filter(transaction_id=transaction.pk)
        assert (piece.side, piece.column, piece.content) == ("new", "content", "m" * 200_000)


@BOTH_INTERFACES
@pytest.mark.pg(15)
def test_times_that_no_calendar_has_are_left_out(source: SourceDatabase, record) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "SELECT pg_replication_origin_create('elsewhere')",
    )
    recording = record(source)
    with source.connect() as session:
        session.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
        for number, time in enumerate(["infinity", "200000-01-01"]):
            session.execute("BEGIN")
            session.execute("INSERT INTO t VALUES (%s)", [number])
            session.execute("SELECT pg_replication_origin_xact_setup('1/1', %s)", [time])
            session.execute(f"PREPARE TRANSACTION 'far {number}'")
        session.execute("COMMIT PREPARED 'far 0'")
    source.run("ROLLBACK PREPARED 'far 1'", "SELECT pg_replication_origin_drop('elsewhere')")
    recording.caught_up()

    stored = recording.transactions()
    assert [t.prepared_at for t in stored] == [None, None]
    assert [t.state for t in stored] == ["committed", "rolled back"]


@BOTH_INTERFACES
def test_dropped_and_masked_columns_are_never_kept(source: SourceDatabase, record) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, card text, mail text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    rules = {"public.t": {"card": "drop", "mail": "mask"}}
    recording = record(source, column_rules=rules)
    source.run("INSERT INTO t VALUES (1, '4111', 'a@b')", "UPDATE t SET card = '4222'")
    # Whoever renames a table lifts no rule.
    source.run("ALTER TABLE t RENAME TO people", "INSERT INTO people VALUES (2, '4333', 'c@d')")
    recording.caught_up()

    stored = [c for t in recording.transactions() for c in recording.changes(t)]
    assert stored[0].new == {"id": "1", "mail": {"$masked": True}}
    assert stored[-1].new == {"id": "2", "mail": {"$masked": True}}
    text = json.dumps([[c.old, c.new] for c in stored])
    assert "4111" not in text
    assert "4222" not in text
    assert "a@b" not in text


def test_a_masked_key_leaves_no_hash(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (mail text PRIMARY KEY)")
    recording = record(source, column_rules={"public.t": {"mail": "mask"}})
    source.run("INSERT INTO t VALUES ('a@b')")
    recording.caught_up()

    [change] = recording.changes(recording.transactions()[0])
    assert change.key_hash is None


def test_a_value_too_long_for_jsonb_goes_aside(source, record, settings) -> None:
    settings.VALUE_ASIDE_BYTES = 100_000
    source.run("CREATE TABLE t (id int PRIMARY KEY, long text)")
    recording = record(source)
    source.run("INSERT INTO t VALUES (1, repeat('é', 200000))")
    recording.caught_up()

    [change] = recording.changes(recording.transactions()[0])
    assert change.new == {"id": "1", "long": {"$aside": 200_000}}
    [piece] = LargeValue.objects.filter(transaction_id=change.transaction_id)
    assert (piece.column, piece.content) == ("long", "é" * 200_000)


@pytest.mark.pg(14)
@pytest.mark.parametrize("content", [b'{"actor": "\\u0000"}', b"\x00\xff", b"not json", b"[1]"])
def test_no_message_can_stop_the_receiver(source: SourceDatabase, record, content) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    with source.connect() as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'replview', %s::bytea)", [content])
        connection.execute("INSERT INTO t VALUES (1)")
    recording.caught_up()

    first, second = recording.transactions()
    assert first.actor is None
    assert (second.inserts, recording.slot.problem_code) == (1, "")


@pytest.mark.pg(14)
def test_a_binary_stream_stores_the_same_text(source: SourceDatabase, record) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(12,2), at timestamptz, j jsonb, "
        "a int[], u uuid, m money)"
    )
    text = record(source)
    binary = record(source, options={"binary": "on"})
    source.run(
        "INSERT INTO t VALUES (1, 12.50, '2026-11-20 07:57:11.5+00', '{\"k\": [1]}', '{1,2}', "
        "'6f9619ff-8b86-d011-b42d-00c04fc964ff', 5)"
    )
    text.caught_up()
    binary.caught_up()

    [plain] = text.changes(text.transactions()[0])
    [decoded] = binary.changes(binary.transactions()[0])
    assert set(decoded.new["m"]) == {"$binary", "$type"}
    del plain.new["m"], decoded.new["m"]
    assert decoded.new == plain.new


def test_each_shape_is_a_version_and_a_flip_back_is_none(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, price numeric(12,2))")
    recording = record(source)
    source.run(
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD note varchar(40)",
        "INSERT INTO t VALUES (2)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (3)",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
        "INSERT INTO t VALUES (4)",
    )
    recording.caught_up()

    [relation] = Relation.objects.filter(slot=recording.slot)
    versions = list(relation.versions.order_by("number"))
    assert [v.replica_identity for v in versions] == ["DEFAULT", "DEFAULT", "FULL"]
    assert [c["type"] for c in versions[1].columns] == [
        "integer", "numeric(12,2)", "character varying(40)",
    ]  # fmt: skip
    assert relation.current_version == versions[1]
    assert len(versions[1].intervals) == 2


@BOTH_INTERFACES
def test_shapes_that_flip_within_one_batch_stay_with_their_rows(
    any_source: SourceDatabase, record
) -> None:
    any_source.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    recording = record(any_source, start=False)
    any_source.run(
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD b text",
        "INSERT INTO t VALUES (2, 'x')",
        "ALTER TABLE t DROP b",
        "INSERT INTO t VALUES (3)",
        "BEGIN; INSERT INTO t VALUES (4); ALTER TABLE t ADD b text; "
        "INSERT INTO t VALUES (5, 'y'); COMMIT",
        "TRUNCATE t, other RESTART IDENTITY CASCADE",
    )
    recording.start()
    recording.caught_up()

    *inserting, truncating = recording.transactions()
    inserted = [change for t in inserting for change in recording.changes(t)]
    assert [c.new for c in inserted] == [
        {"id": "1"}, {"id": "2", "b": "x"}, {"id": "3"}, {"id": "4"}, {"id": "5", "b": "y"},
    ]  # fmt: skip
    wide = {c.version_id for c in inserted if "b" in c.new}
    narrow = {c.version_id for c in inserted if "b" not in c.new}
    assert not wide & narrow
    versions = RelationVersion.objects.in_bulk(wide | narrow)
    assert all(len(versions[c.version_id].columns) == len(c.new) for c in inserted)
    truncations = recording.changes(truncating)
    assert [c.op for c in truncations] == ["T", "T"]
    assert truncations[0].new == {"cascade": True, "restart_identity": True}
    assert len({c.relation_id for c in truncations}) == 2
