"""``read_holders()`` finds what holds back a source's WAL and old rows, on every version."""

import threading
import time

import psycopg
import pytest
from psycopg import sql

from replview.catalog import holders
from replview.catalog.connections import connect
from replview.catalog.holders import read_holders
from replview.features.sampling.rows import plain


def test_prepared_and_running_transactions_slots_and_the_next_xid(any_shop) -> None:
    any_shop.create_slot("held")
    gid = "o'brien \\ ünï"
    with any_shop.connect(application_name="a <b>shop</b>") as writer, any_shop.connect() as other:
        other.execute("BEGIN; INSERT INTO orders VALUES (2)")
        writer.execute("BEGIN; INSERT INTO orders VALUES (1)")
        writer.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))
        with connect(any_shop.dsn) as connection:
            found = read_holders(connection)
        pid = other.info.backend_pid

    [prepared] = [row for row in found.prepared if row["database"] == any_shop.name]
    assert (prepared["gid"], prepared["owner"]) == (gid, any_shop.server.user)
    assert prepared["prepared_at"].tzinfo is not None
    [running] = [row for row in found.running if row["pid"] == pid]
    assert running["state"] == "idle in transaction"
    assert running["xid"] < prepared["xid"] < found.next_xid
    assert running["xact_started_at"] is not None
    slot = found.slots["held"]
    assert slot["database"] == any_shop.name
    assert slot["restart_lsn"]
    assert slot["retained_wal_bytes"] >= 0
    assert slot["catalog_xmin_age"] >= 0
    assert slot["xmin"] is None
    assert found.standbys == []
    assert found.waiting == {}
    assert found.may_read_stats is True


def test_a_session_that_waits_is_counted_for_whom_it_waits(any_shop) -> None:
    any_shop.run("INSERT INTO orders VALUES (1, 'new')")
    late = "UPDATE orders SET status = 'late' WHERE id = 1"
    with any_shop.connect() as holder, any_shop.connect() as waiter:
        holder.execute("BEGIN; UPDATE orders SET status = 'held' WHERE id = 1")
        [xid] = holder.execute("SELECT txid_current()").fetchone()
        waiting = threading.Thread(target=waiter.execute, args=[late])
        waiting.start()
        until = time.monotonic() + 20
        with connect(any_shop.dsn) as connection:
            while not (found := read_holders(connection).waiting) and time.monotonic() < until:
                time.sleep(0.02)
        holder.execute("ROLLBACK")
        waiting.join()

    assert found == {str(xid): 1}


def test_a_plain_role_is_told_less_and_knows_that_it_is(shop, make_role) -> None:
    dsn = make_role("plain_reader")
    with shop.connect() as writer:
        writer.execute("BEGIN; INSERT INTO orders VALUES (1)")
        pid = writer.info.backend_pid
        with connect(dsn) as connection:
            found = read_holders(connection)

    assert found.may_read_stats is False
    assert found.waiting is None
    [running] = [row for row in found.running if row["pid"] == pid]
    assert running["xid"] is not None
    assert running["state"] is None
    assert running["xact_started_at"] is None


def test_what_is_refused_is_unknown_and_not_an_error(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = holders.Query(name="gone", about="…", sql="SELECT * FROM no_such_view LIMIT %s")
    monkeypatch.setattr(holders, "STANDBYS", refused)
    with connect(shop.dsn) as connection:
        found = read_holders(connection)

    assert found.standbys is None
    assert found.prepared is not None


def test_a_connection_that_is_lost_is_an_error(shop) -> None:
    with connect(shop.dsn) as connection:
        connection.close()
        with pytest.raises(psycopg.OperationalError):
            read_holders(connection)


def test_names_lose_what_jsonb_refuses() -> None:
    assert plain({"gid": "a\0b", "more": ["x" * 900]}) == {"gid": "ab", "more": ["x" * 400]}
