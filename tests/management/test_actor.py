"""``replview actor``: the trigger that stamps, installed, seen and removed on a real source."""

import json
import threading
import time

import psycopg
import pytest
from django.core.management.base import CommandError

from replview.catalog.plan import stamp_run
from replview.catalog.plan.stamp_plan import plan_install
from replview.catalog.plan.stamp_run import carry_stamp
from tests.support.source_databases import SourceDatabase

#: Everything of the stamp that a database can have.
LEFT = """
    SELECT (SELECT count(*) FROM pg_trigger WHERE tgname = 'replview_stamp')
         + (SELECT count(*) FROM pg_namespace WHERE nspname = 'replview_stamp')
"""


@pytest.fixture
def any_shop(any_source: SourceDatabase) -> SourceDatabase:
    any_source.run(
        "CREATE TABLE orders (id int PRIMARY KEY, status text)",
        "CREATE TABLE audit (what text)",
        "CREATE TABLE events (id int) PARTITION BY LIST (id)",
        "CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1)",
    )
    return any_source


def stamps(source: SourceDatabase, *statements: str, application: str = "till") -> list[dict]:
    """Run the statements in a session and return the stamps that they write to the WAL."""
    with source.connect(application_name=application) as session:
        session.execute("SELECT pg_create_logical_replication_slot('look', 'pgoutput')")
        session.execute("CREATE PUBLICATION look FOR ALL TABLES")
        try:
            for statement in statements:
                session.execute(statement)
            rows = session.execute(
                "SELECT data FROM pg_logical_slot_get_binary_changes('look', NULL, NULL,"
                " 'proto_version', '1', 'publication_names', 'look', 'messages', 'on')"
            ).fetchall()
        finally:
            session.execute("SELECT pg_drop_replication_slot('look')")
            session.execute("DROP PUBLICATION look")
    marks = [bytes(data) for (data,) in rows if bytes(data)[:1] == b"M"]
    # The content stands after the prefix and its length; the LSN before may hold any byte.
    head = b"replview.stamp\0"
    return [json.loads(mark.partition(head)[2][4:]) for mark in marks if head in mark]


def test_each_writing_transaction_is_stamped_once(any_shop: SourceDatabase, run) -> None:
    run("actor", "install", any_shop.dsn, "--table", "orders", "--yes")

    found = stamps(
        any_shop,
        "BEGIN; INSERT INTO orders VALUES (1, 'new'); UPDATE orders SET status = 'paid';"
        " DELETE FROM orders; COMMIT",
        "SELECT * FROM orders",
        "INSERT INTO audit VALUES ('not a stamped table')",
        "TRUNCATE orders",
    )

    one = {"actor": "replview", "application_name": "till", "client_address": "127.0.0.1"}
    assert [{**stamp, "actor": "replview"} for stamp in found] == [one, one]


def test_a_stamp_names_the_session_user_and_the_role_it_took(source, run) -> None:
    source.run("CREATE TABLE orders (id int)", "DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk",
               "GRANT ALL ON orders TO clerk")  # fmt: skip
    run("actor", "install", source.dsn, "--table", "orders", "--yes")

    [stamp] = stamps(source, "SET ROLE clerk", "INSERT INTO orders VALUES (1)", "RESET ROLE")
    source.run("DROP OWNED BY clerk", "DROP ROLE clerk")

    with source.connect() as session:
        [(user,)] = session.execute("SELECT session_user").fetchall()
    assert (stamp["actor"], stamp["role"]) == (user, "clerk")


def test_a_stamp_lost_with_its_savepoint_is_written_again(source, run) -> None:
    source.run("CREATE TABLE orders (id int)")
    run("actor", "install", source.dsn, "--table", "orders", "--yes")

    found = stamps(
        source,
        "BEGIN; SAVEPOINT a; INSERT INTO orders VALUES (1); ROLLBACK TO a;"
        " INSERT INTO orders VALUES (2); COMMIT",
    )

    assert len(found) == 1


def test_a_false_stamp_does_not_keep_the_true_one_out(source, run) -> None:
    source.run("CREATE TABLE orders (id int)")
    run("actor", "install", source.dsn, "--table", "orders", "--yes")

    found = stamps(
        source,
        "BEGIN; SELECT pg_logical_emit_message(true, 'replview.stamp', '{\"actor\": \"root\"}');"
        " INSERT INTO orders VALUES (1); COMMIT",
    )

    assert [stamp["actor"] for stamp in found] == ["root", source.server.user]


def test_names_in_the_search_path_change_no_stamp(source, run) -> None:
    source.run(
        "CREATE TABLE orders (id int)",
        "CREATE SCHEMA trap",
        "CREATE FUNCTION trap.never(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true'",
        "CREATE OPERATOR trap.= (leftarg = text, rightarg = text, function = trap.never)",
        "CREATE FUNCTION trap.host(inet) RETURNS text LANGUAGE sql AS $$SELECT '6.6.6.6'$$",
    )
    run("actor", "install", source.dsn, "--table", "orders", "--yes")

    [stamp] = stamps(
        source,
        "SET search_path = trap, pg_catalog, public",
        "INSERT INTO public.orders VALUES (1)",
        "RESET search_path",
    )  # fmt: skip

    assert stamp["client_address"] == "127.0.0.1"


def test_partitions_are_stamped_with_their_root(any_shop: SourceDatabase, run) -> None:
    run("actor", "install", any_shop.dsn, "--table", "events", "--yes")

    found = stamps(any_shop, "INSERT INTO events VALUES (1)", "INSERT INTO events_1 VALUES (1)")

    assert len(found) == 2


def test_the_plan_shows_every_statement_with_rights_and_locks(any_shop, run) -> None:
    shown = run("actor", "install", any_shop.dsn, "--all-tables", "--dry-run")

    assert "CREATE SCHEMA replview_stamp;" in shown
    assert (
        'CREATE TRIGGER "replview_stamp" BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON '
        '"public"."events_1" FOR EACH STATEMENT EXECUTE FUNCTION "replview_stamp".stamp();' in shown
    )
    assert "SHARE ROW EXCLUSIVE" in shown
    assert "needs: TRIGGER on the table" in shown
    assert "nothing was changed" in shown
    with any_shop.connect() as session:
        assert session.execute(LEFT).fetchone() == (0,)


def test_removing_leaves_nothing(any_shop: SourceDatabase, run) -> None:
    run("actor", "install", any_shop.dsn, "--all-tables", "--revoke-emit", "--yes")
    with any_shop.connect() as session:
        session.execute("INSERT INTO orders VALUES (1, 'new')")

    said = run("actor", "remove", any_shop.dsn, "--yes")

    assert "ACCESS EXCLUSIVE" in said
    assert "the trigger and its function are dropped" in said
    with any_shop.connect() as session:
        assert session.execute(LEFT).fetchone() == (0,)
        may = "SELECT bool_and(has_function_privilege('public', oid, 'EXECUTE')) FROM pg_proc"
        where = " WHERE proname = 'pg_logical_emit_message'"
        assert session.execute(may + where).fetchone() == (True,)
    assert "nothing to do" in run("actor", "remove", any_shop.dsn, "--yes")


def test_with_the_right_revoked_only_the_trigger_writes_messages(source, run) -> None:
    source.run("CREATE TABLE orders (id int)", "DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk",
               "GRANT ALL ON orders TO clerk")  # fmt: skip
    run("actor", "install", source.dsn, "--table", "orders", "--revoke-emit", "--yes")

    with source.connect() as session:
        session.execute("SET ROLE clerk")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT pg_logical_emit_message(true, 'replview.stamp', '{}')")
        session.execute("INSERT INTO orders VALUES (1)")
    assert "other roles cannot forge one" in run("actor", "status", source.dsn)

    run("actor", "remove", source.dsn, "--yes")
    source.run("DROP OWNED BY clerk", "DROP ROLE clerk")


def test_a_table_in_use_is_left_and_told(shop, run, monkeypatch) -> None:
    monkeypatch.setattr(stamp_run, "PAUSE_SECONDS", 0.01)
    with shop.connect() as plan_connection:
        plan = plan_install(plan_connection, ["orders", "audit"], all_tables=False, revoke=False)
    told: list[str] = []

    with shop.connect() as writer, writer.transaction():
        writer.execute("INSERT INTO orders VALUES (1)")
        carried = carry_stamp(shop.dsn, plan, told.append, lock_timeout_ms=50)

    assert [step.name for step in carried.left] == ["public.orders"]
    assert "public.orders is in use: try 2 of 5 follows" in told
    assert '"stamped": [\n    "public.audit"' in run("actor", "status", shop.dsn, format="json")


def test_with_every_table_in_use_nothing_stays(shop, monkeypatch) -> None:
    monkeypatch.setattr(stamp_run, "PAUSE_SECONDS", 0.01)
    with shop.connect() as connection:
        plan = plan_install(connection, ["orders"], all_tables=False, revoke=False)

    with shop.connect() as writer, writer.transaction():
        writer.execute("INSERT INTO orders VALUES (1)")
        carry_stamp(shop.dsn, plan, lambda line: None, lock_timeout_ms=50)

    with shop.connect() as session:
        assert session.execute(LEFT).fetchone() == (0,)


def test_writers_are_never_held_up_longer_than_the_lock_timeout(shop) -> None:
    with shop.connect() as connection:
        plan = plan_install(connection, ["orders"], all_tables=False, revoke=False)
    with shop.connect() as holder, shop.connect() as writer, holder.transaction():
        holder.execute("INSERT INTO orders VALUES (1)")
        stop = threading.Event()
        stop.set()  # one try
        carrying = threading.Thread(
            target=carry_stamp, args=[shop.dsn, plan, lambda line: None],
            kwargs={"lock_timeout_ms": 300, "stop": stop},
        )  # fmt: skip
        carrying.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while writer.execute(waits).fetchone() == (0,):
            time.sleep(0.005)
        began = time.monotonic()
        writer.execute("INSERT INTO orders VALUES (2)")
        waited = time.monotonic() - began
        carrying.join()

    assert 0.02 < waited < 1


def test_a_failure_half_way_takes_all_back(shop) -> None:
    with shop.connect() as connection:
        plan = plan_install(connection, ["orders", "audit"], all_tables=False, revoke=False)
    shop.run("DROP TABLE orders")

    with pytest.raises(Exception, match=r"trigger public\.orders"):
        carry_stamp(shop.dsn, plan, lambda line: None)

    with shop.connect() as session:
        assert session.execute(LEFT).fetchone() == (0,)


def test_installing_again_adds_what_is_missing(shop, run) -> None:
    run("actor", "install", shop.dsn, "--table", "orders", "--yes")

    said = run("actor", "install", shop.dsn, "--all-tables", "--yes")

    assert "CREATE SCHEMA" not in said
    assert '"public"."orders"' not in said
    assert '"public"."audit"' in said
    assert "nothing to do" in run("actor", "install", shop.dsn, "--all-tables", "--yes")


def test_status_tells_a_trigger_that_is_switched_off(shop, run) -> None:
    run("actor", "install", shop.dsn, "--table", "orders", "--yes")
    shop.run("ALTER TABLE orders DISABLE TRIGGER replview_stamp")

    said = run("actor", "status", shop.dsn)

    assert "switched off (1): public.orders" in said
    assert "not stamped (1): public.audit" in said
    assert "every role may write logical messages" in said


def test_a_sources_name_will_do(registered, run) -> None:
    assert "not installed" in run("actor", "status", "shop")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name the tables"),
        (("--table", "nothing"), "there is no permanent table nothing"),
        (("--table", "orders", "--all-tables"), "name the tables"),
        (("--table", "orders"), "Give --yes"),
    ],
)
def test_a_wrong_wish_is_one_sentence(shop, run, words, why) -> None:
    with pytest.raises(CommandError, match=why):
        run("actor", "install", shop.dsn, *words)


def test_a_schema_of_that_name_that_is_not_ours_is_left_alone(shop, run) -> None:
    shop.run("CREATE SCHEMA replview_stamp")

    with pytest.raises(CommandError, match="that replview did not make"):
        run("actor", "remove", shop.dsn, "--yes")


def test_a_role_without_the_rights_is_told_so(shop, run) -> None:
    shop.run("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN PASSWORD 'guest'")
    dsn = psycopg.conninfo.make_conninfo(shop.dsn, user="guest", password="guest")

    with pytest.raises(CommandError, match="may not create a schema"):
        run("actor", "install", dsn, "--table", "orders", "--yes")
    shop.run("DROP ROLE guest")
