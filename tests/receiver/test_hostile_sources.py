"""Nothing a source can hold stops its receiver, and nothing is invented on the way."""

import re
import time
from functools import partial

import psycopg
import pytest
from psycopg import sql

from replview.store.connecting import connect_store
from replview.store.models import Relation
from tests.receiver.conftest import BOTH_INTERFACES, unused
from tests.support.proxy import Proxy
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@BOTH_INTERFACES
@pytest.mark.pg(15)
def test_a_value_not_sent_with_an_insert_is_absent(source: SourceDatabase, record) -> None:
    """A row filter makes an insert of an update, whose unchanged TOAST is not sent."""
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, long text)",
        "ALTER TABLE t ALTER long SET STORAGE EXTERNAL",
    )
    recording = record(source, publish="TABLE t WHERE (id > 10)")
    source.run("INSERT INTO t VALUES (1, repeat('x', 9000))", "UPDATE t SET id = 20")
    recording.caught_up()

    [transaction] = recording.transactions()
    [change] = recording.changes(transaction)
    assert (change.op, change.new) == ("I", {"id": "20"})


@BOTH_INTERFACES
@pytest.mark.pg(14)
def test_no_context_is_too_deep_or_too_long(source: SourceDatabase, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    deep = '{"actor": "deep", "a": ' + "[" * 500 + "]" * 500 + "}"
    with source.connect() as session:
        session.execute("SELECT pg_logical_emit_message(true, 'replview', %s)", [deep])
        session.execute(
            "SELECT pg_logical_emit_message(true, 'replview', "
            'format(\'{"actor": "many", "key %s": "%s"}\', n, repeat(\'x\', 1000))) '
            "FROM generate_series(1, 500) n"
        )
    recording.caught_up()

    first, many = recording.transactions()
    assert (first.actor, first.context) == ("deep", None)
    assert many.actor == "many"
    assert 0 < len(str(many.context)) <= 70_000


@BOTH_INTERFACES
@pytest.mark.parametrize(("code", "named"), [("53100", "store_full"), ("54000", "store_refused")])
def test_a_store_that_refuses_is_named_and_not_asked_again_at_once(
    source: SourceDatabase, record, code: str, named: str
) -> None:
    """A full disk, a value beyond a limit: psycopg calls them errors of operation."""
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    with connect_store() as store:
        store.execute(
            sql.SQL(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'cell value' USING ERRCODE = {}; END $$"
            ).format(code)
        )
        store.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON transaction "
            "FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        try:
            source.run("INSERT INTO t VALUES (1)")
            slot = recording.problem(named)
            assert "cell value" not in slot.problem_cause + slot.problem_remedy
            wait_for(lambda: _is_free(source, recording.slot.name), 2)
        finally:
            store.execute("DROP FUNCTION refuse CASCADE")
    recording.caught_up()
    assert [t.commit_seq for t in recording.transactions(state="committed")] == [1]


def _is_free(source: SourceDatabase, slot_name: str) -> bool:
    with source.connect() as session:
        [active] = session.execute(
            "SELECT active FROM pg_replication_slots WHERE slot_name = %s", [slot_name]
        ).fetchone()
    return not active


@BOTH_INTERFACES
def test_bytes_that_are_no_text_in_the_sources_encoding_are_kept_marked(
    source_cluster_18, record
) -> None:
    """WIN1252 has bytes that stand for nothing; the server accepts them, but cannot send them as
    UTF8.
    """
    name = unused("win1252")
    with psycopg.connect(source_cluster_18.dsn(), autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'WIN1252' LOCALE 'C'")
    source = SourceDatabase(source_cluster_18, name)
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    recording = record(source)
    source.run(
        "INSERT INTO t VALUES (1, U&'\\20ac\\00e9'), (2, convert_from('\\x4181', 'WIN1252'))"
    )
    recording.caught_up()

    one, two = recording.changes(recording.transactions()[0])
    assert one.new == {"id": "1", "v": "€é"}
    assert two.new["v"]["$bytes"] == "QYE="
    recording.end()
    source.run(f"SELECT pg_drop_replication_slot('{recording.slot.name}')")


@BOTH_INTERFACES
@pytest.mark.pg(14)
def test_odd_shapes_and_names_are_stored_as_they_are(source: SourceDatabase, record) -> None:
    name = "a\"b'c.d%s{}\\\n" + "é" * 24
    assert len(name.encode()) == 61
    table = sql.Identifier(name, name)
    wide = ", ".join(f"c{number} int" for number in range(1600))
    with source.connect() as session:
        session.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        session.execute(
            sql.SQL("CREATE TABLE {} ({} text PRIMARY KEY)").format(table, sql.Identifier(name))
        )
        session.execute("CREATE TABLE nothing ()")
        session.execute(f"CREATE TABLE wide ({wide})")
    recording = record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(table, sql.Literal(name)))
        session.execute("INSERT INTO nothing DEFAULT VALUES")
        session.execute("INSERT INTO wide DEFAULT VALUES")
        session.execute("SELECT pg_logical_emit_message(true, %s, %s)", [name, name])
        session.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(name)))
        session.execute(sql.SQL("COMMIT PREPARED {}").format(sql.Literal(name)))
    recording.caught_up()

    [transaction] = recording.transactions()
    odd, nothing, wide_row, message = recording.changes(transaction)
    assert transaction.gid == (name if source.version >= 15 else None)
    assert odd.new == {name: name}
    assert nothing.new == {}
    assert (len(wide_row.new), set(wide_row.new.values())) == (1600, {None})
    assert (message.new["prefix"], message.new["content"]) == (name, name)
    stored = Relation.objects.get(pk=odd.relation_id)
    assert (stored.schema, stored.table) == (name, name)


@BOTH_INTERFACES
def test_a_database_without_an_encoding_is_stored_whole(source_cluster_18, record) -> None:
    name = unused("bytes")
    with psycopg.connect(source_cluster_18.dsn(), autocommit=True) as session:
        session.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
        )
    source = SourceDatabase(source_cluster_18, name)
    with psycopg.connect(source.dsn, autocommit=True, client_encoding="SQL_ASCII") as session:
        session.execute(b'CREATE TABLE "t\xff" (id text PRIMARY KEY, "v\xfe" text)')
        session.execute(b'ALTER TABLE "t\xff" REPLICA IDENTITY FULL')
        recording = record(source)
        session.execute(
            b"BEGIN; INSERT INTO \"t\xff\" VALUES ('k\xe9', '\xff\xfe'), ('\xc3\xa9', 'plain'); "
            b"SELECT pg_logical_emit_message(true, 'p\xff', 'm\xff'); "
            b"UPDATE \"t\xff\" SET id = 'moved' WHERE id = 'k\xe9'; COMMIT"
        )
        session.execute(b"BEGIN; DELETE FROM \"t\xff\"; PREPARE TRANSACTION 'g\xff'")
        session.execute(b"COMMIT PREPARED 'g\xff'")
    recording.caught_up()

    first, second = recording.transactions()
    bad, good, message, moved = recording.changes(first)
    assert bad.new["id"]["$bytes"] == "a+k="
    assert bad.key_hash is None
    assert (good.new["id"], good.new["v\\xfe"]) == ("é", "plain")
    assert message.new["content_base64"] == "bf8="
    assert moved.new["id"] == "moved"
    assert second.gid == "g\\xff"
    recording.end()
    source.run(f"SELECT pg_drop_replication_slot('{recording.slot.name}')")


@BOTH_INTERFACES
@pytest.mark.slow
def test_very_many_subtransactions_are_stored_in_bounded_time(
    source: SourceDatabase, record
) -> None:
    source.run("CREATE TABLE t (id int, filler text)")
    recording = record(source)
    began = time.process_time()
    source.run(
        "DO $$ BEGIN FOR n IN 1..20000 LOOP BEGIN INSERT INTO t VALUES (n, repeat('x', 50)); "
        "IF n % 2 = 0 THEN RAISE EXCEPTION 'undone'; END IF; "
        "EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$"
    )
    recording.caught_up(seconds=300)

    # The receiver's own time: how long that is by the clock, a busy machine decides.
    assert time.process_time() - began < 20
    [transaction] = recording.transactions(state="committed")
    assert transaction.inserts == 10_000


#: The bytes before a position that a server sends: in a keepalive, in data, in a commit.
POSITIONS = {
    "keepalive": rb"(d\0\0\0\x16k).{8}",
    "data": rb"(d\0\0\0.w.{8}).{8}",
    "commit": rb"(d\0\0\0\x37w.{24}C\0.{8}).{8}",
}


@pytest.mark.parametrize("told", POSITIONS)
def test_a_position_beyond_the_servers_wal_is_never_taken(
    source: SourceDatabase, record, told: str
) -> None:
    """A position beyond the server's WAL is refused: confirming it would lose the slot."""
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source, start=False)
    tampered = re.compile(POSITIONS[told], re.DOTALL)
    with Proxy(source.server.port) as proxy:
        recording.dsn = proxy.dsn(source.dsn)
        proxy.to_client.rewrite = partial(tampered.sub, rb"\1" + b"\xff" * 8)
        recording.start()
        source.run("INSERT INTO t VALUES (1)")
        slot = recording.problem("beyond_wal")
        assert "FFFFFFFF/FFFFFFFF" in slot.problem_cause
        with source.connect() as session:
            query = """
                SELECT pg_current_wal_lsn() >= ALL (ARRAY[confirmed_flush_lsn, %s, %s]::pg_lsn[])
                FROM pg_replication_slots WHERE slot_name = %s
            """
            positions = [str(slot.checkpoint_lsn or "0/0"), str(slot.server_lsn or "0/0")]
            assert session.execute(query, [*positions, slot.name]).fetchone() == (True,)

        proxy.to_client.rewrite = None
        source.run("INSERT INTO t VALUES (2)")
        recording.caught_up()
        recording.end()
    assert [(t.commit_seq, t.inserts) for t in recording.transactions()] == [(1, 1), (2, 1)]
