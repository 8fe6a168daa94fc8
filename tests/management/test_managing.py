"""Sources and slots managed by commands: tables, records kept, credentials, moves, secrets."""

import io

import pytest
from django.core.management.base import CommandError

from replview.store.dsn import full_conninfo
from replview.store.models import AccessRecord, Slot, SlotEvent, Source, Webhook
from replview.store.secrets import SecretKeyChanged, seal, unseal
from tests.support.source_traces import left_on


def test_tables_are_added_and_removed(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes", "--tables", "orders")
    shop.run("CREATE TABLE more (id int PRIMARY KEY)")

    text = run("slot", "tables", "shop", "mine", "--add", "more", "--remove", "orders", "--yes")

    assert 'ALTER PUBLICATION "mine" DROP TABLE "public"."orders";' in text
    assert 'ALTER PUBLICATION "mine" ADD TABLE "public"."more";' in text
    assert "replview baseline shop/mine public.more" in text
    line = SlotEvent.objects.get(kind="managed", detail__act="tables")
    assert "Done by the command line." in line.message
    record = AccessRecord.objects.filter(action="changed_slot").first()
    assert (record.details["act"], record.via) == ("tables", "command")
    with pytest.raises(CommandError, match="is already published"):
        run("slot", "tables", "shop", "mine", "--add", "more", "--yes")
    with pytest.raises(CommandError, match="is not named in a publication"):
        run("slot", "tables", "shop", "mine", "--remove", "orders", "--yes")


def test_columns_are_left_out_masked_and_kept_again(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes", "--tables", "orders")
    columns = ("slot", "columns", "shop", "mine")

    text = run(*columns, "--exclude-column", "orders.note", "--mask-column", "orders.status",
               "--yes")  # fmt: skip

    assert 'ALTER PUBLICATION "mine" ADD TABLE "public"."orders" ("id", "status");' in text
    assert "the columns of shop/mine are changed" in text
    rules = {"public.orders": {"note": "drop", "status": "mask"}}
    assert Slot.objects.get().column_rules == rules
    assert AccessRecord.objects.filter(action="changed_slot").first().details["act"] == "columns"
    text = run(*columns, "--keep-column", "public.orders.note", "--yes")
    assert "sends public.orders.note again" in text
    assert Slot.objects.get().column_rules == {"public.orders": {"status": "mask"}}
    with pytest.raises(CommandError, match="is in the replica identity"):
        run(*columns, "--exclude-column", "orders.id", "--yes")
    with pytest.raises(CommandError, match="name columns"):
        run(*columns)


def test_a_partitioned_table_comes_under_its_root(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes", "--tables", "orders")
    shop.run(
        "CREATE TABLE events (day date, id int, PRIMARY KEY (day, id)) PARTITION BY RANGE (day)",
        "CREATE TABLE events_1 PARTITION OF events DEFAULT",
    )

    text = run("slot", "tables", "shop", "mine", "--add", "events", "--yes")

    assert 'ALTER PUBLICATION "mine" SET (publish_via_partition_root = true);' in text
    with shop.connect() as connection:
        found = connection.execute("SELECT tablename FROM pg_publication_tables").fetchall()
    assert sorted(found) == [("events",), ("orders",)]


def test_a_table_that_got_a_key_is_published_whole(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes")
    shop.run("ALTER TABLE audit ADD PRIMARY KEY (at)")

    text = run("slot", "tables", "shop", "mine", "--add", "audit", "--yes")

    assert 'ALTER PUBLICATION "mine_inserts" DROP TABLE "public"."audit";' in text
    assert 'ALTER PUBLICATION "mine" ADD TABLE "public"."audit";' in text
    assert "its updates and deletes are published, too" in text


def test_a_failing_statement_changes_nothing(run, registered, shop, monkeypatch) -> None:
    monkeypatch.setattr("replview.catalog.connections.LOCK_TIMEOUT_MS", 300)
    run("slot", "add", "shop", "mine", "--yes")
    shop.run("ALTER TABLE audit ADD PRIMARY KEY (at)")

    with shop.connect() as other:
        other.execute("BEGIN; LOCK TABLE audit IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(CommandError):
            run("slot", "tables", "shop", "mine", "--add", "audit", "--yes")

    with shop.connect() as connection:
        found = connection.execute(
            "SELECT pubname::text FROM pg_publication_tables WHERE tablename = 'audit'"
        ).fetchall()
    assert found == [("mine_inserts",)]


def test_a_dropped_slot_keeps_its_record_and_comes_back(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes")

    assert "its history is kept" in run("slot", "remove", "shop", "mine", "--keep-record", "--yes")
    assert left_on(shop) == (set(), set())
    text = run("slot", "start", "shop", "mine", "--yes")

    assert 'CREATE PUBLICATION "mine_inserts" FOR TABLE' in text
    assert "publish = 'insert, truncate'" in text
    assert left_on(shop) == ({"mine", "mine_inserts"}, {"mine"})
    slot = Slot.objects.get()
    assert (slot.desired, slot.problem_code) == ("running", "")


def test_a_password_is_read_and_tried(run, registered, monkeypatch) -> None:
    before = registered.sealed_password
    monkeypatch.setattr("sys.stdin", io.StringIO("wrong-one\n"))
    with pytest.raises(CommandError, match="refused the password") as caught:
        run("source", "credentials", "shop", "--password")
    assert "wrong-one" not in str(caught.value)
    registered.refresh_from_db()
    assert registered.sealed_password == before


def test_a_password_in_a_file_takes_its_place(run, registered, shop, tmp_path) -> None:
    file = tmp_path / "secret"
    file.write_text(shop.server.password)
    words = ("source", "credentials", "shop", "--password-ref", f"file:{file}")
    with pytest.raises(CommandError, match=r"is not for 127\.0\.0\.1: .*--trust-host"):
        run(*words)

    text = run(*words, "--trust-host")

    assert "; stored" in text
    registered.refresh_from_db()
    assert (registered.sealed_password, registered.password_ref) == ("", f"file:{file}")
    assert shop.server.password in full_conninfo(registered)
    assert shop.server.password not in run("source", "list", "--format", "json")


def test_rename_move_and_remove(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes")
    assert "is now named store" in run("source", "rename", "shop", "store", "--yes")
    elsewhere = shop.dsn.replace("127.0.0.1", "localhost")

    moved = run("source", "move", "store", elsewhere, "--yes")

    assert shop.server.password not in moved
    assert Source.objects.get().conninfo.startswith("user=") or "localhost" in moved
    with pytest.raises(CommandError, match="--with-slots"):
        run("source", "remove", "store", "--yes")
    text = run("source", "remove", "store", "--with-slots", "--yes")
    assert "SELECT pg_drop_replication_slot('mine');" in text
    assert left_on(shop) == (set(), set())
    assert Source.objects.get().removing_at is not None


def test_secrets_are_sealed_anew_with_a_new_key(run, registered, settings) -> None:
    Webhook.objects.create(name="x", sealed_url=seal("https://example.org/hook"))
    conninfo, former = full_conninfo(registered), settings.SECRET_KEY
    settings.SECRET_KEY = "a new key"
    with pytest.raises(SecretKeyChanged):
        full_conninfo(registered)
    settings.SECRET_KEY_FALLBACKS = [former]
    assert full_conninfo(registered) == conninfo, "nothing stops working in between"

    assert "2 secrets encrypted" in run("secrets", "rotate")

    settings.SECRET_KEY_FALLBACKS = []
    registered.refresh_from_db()
    assert full_conninfo(registered) == conninfo
    assert unseal(Webhook.objects.get().sealed_url) == "https://example.org/hook"
    settings.SECRET_KEY = "a third"
    with pytest.raises(CommandError, match=r"no key decrypts .*source\.sealed_password"):
        run("secrets", "rotate")
