"""The in-flight page over a real source, its receiver and its samples."""

import html
import re
import struct
import time
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from psycopg import pq
from psycopg.conninfo import make_conninfo

from replview.store.dsn import set_dsn
from replview.store.models import (
    Alert,
    AlertRule,
    Slot,
    Source,
    SourceLook,
    Transaction,
    WatchedSlot,
)
from replview.store.retention.tidy import make_partitions, sweep_discarded
from tests.support.page_elements import spaced
from tests.support.people import make_user, said
from tests.support.sampling import sample_source
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ROWS = "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series({}, {}) n"


def sample(slot: Slot, source: SourceDatabase) -> None:
    slot.source.refresh_from_db()
    set_dsn(slot.source, source.dsn)
    slot.source.save()
    make_partitions()
    assert sample_source(slot.source) is None


def test_a_transaction_is_followed_from_its_first_row_to_its_end(
    any_source: SourceDatabase, record, signed_in: Client
) -> None:
    any_source.run("CREATE TABLE t (n int PRIMARY KEY, filler text)")
    recording = record(any_source)
    with any_source.connect(application_name="night batch") as session:
        session.execute("BEGIN")
        session.execute(ROWS.format(1, 3000))
        session.execute("SAVEPOINT s")
        session.execute(ROWS.format(3001, 6000))
        session.execute("ROLLBACK TO s")
        session.execute(ROWS.format(6001, 9000))
        streaming = wait_for(
            lambda: Transaction.objects.filter(state="streaming", aborted_changes__gt=0).first()
        )
        sample(recording.slot, any_source)
        page = said(signed_in, "/in-flight/")
        assert "1 streaming." in page
        assert re.search(r"1 subtransaction rolled back, with [\d,]+ changes", page)
        drawer = said(signed_in, f"/in-flight/{streaming.pk}/drawer/")
        assert f"pid {session.info.backend_pid}" in drawer
        assert "night batch" in drawer
        assert "still running" in drawer
        assert f"backend_xid = '{streaming.xid}'::xid" in drawer
        session.execute("PREPARE TRANSACTION 'night''s'")
    wait_for(lambda: Transaction.objects.filter(pk=streaming.pk, state="prepared").exists())
    sample(recording.slot, any_source)
    drawer = said(signed_in, f"/in-flight/{streaming.pk}/drawer/")
    assert "still prepared" in drawer
    assert f"{any_source.server.user}, {any_source.name}" in drawer
    assert "ROLLBACK PREPARED 'night''s';" in drawer

    any_source.run("COMMIT PREPARED 'night''s'")
    recording.caught_up()
    page = said(signed_in, "/in-flight/")
    assert "No transaction is in flight." in page
    assert re.search(r"streaming \d\d:\d\d:\d\d UTC", signed_in.get("/in-flight/").content.decode())
    assert "6,000" in page


def test_one_prepared_in_another_database_is_told_apart(
    source: SourceDatabase, source_cluster_18, record, signed_in: Client
) -> None:
    source.run("CREATE TABLE t (n int PRIMARY KEY, filler text)")
    recording = record(source)
    source_cluster_18.create_database("elsewhere_db")
    other = SourceDatabase(source_cluster_18, "elsewhere_db")
    other.run("CREATE TABLE t (n int)", "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'x'")
    try:
        sample(recording.slot, source)
        page = said(signed_in, "/in-flight/")
    finally:
        other.run("ROLLBACK PREPARED 'x'")
        source.run("DROP DATABASE elsewhere_db WITH (FORCE)")

    assert "Open on the source" in page
    assert "in another database than the slot's" in page
    assert "1 prepared transaction not recorded here." in page


def test_of_other_databases_nothing_is_named_to_who_does_not_see_every_source(
    source: SourceDatabase, source_cluster_18, record, signed_in: Client
) -> None:
    source.run("CREATE TABLE t (n int PRIMARY KEY, filler text)")
    slot = record(source).slot
    source_cluster_18.create_database("neighbour_db")
    other = SourceDatabase(source_cluster_18, "neighbour_db")
    other.run("CREATE TABLE t (n int)",
              "SELECT pg_create_logical_replication_slot('neighbour_slot', 'pgoutput')",
              "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'neighbour_gid'")  # fmt: skip
    try:
        with other.connect(application_name="neighbour_app") as session:
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            session.execute("INSERT INTO t VALUES (2)")
            sample(slot, source)
    finally:
        other.run("ROLLBACK PREPARED 'neighbour_gid'",
                  "SELECT pg_drop_replication_slot('neighbour_slot')")  # fmt: skip
        source.run("DROP DATABASE neighbour_db WITH (FORCE)")
    theirs = WatchedSlot.objects.get(name="neighbour_slot")
    rule = AlertRule.objects.create(name="neighbour_rule", kind="lag", threshold=1, slot=theirs)
    now, gid = timezone.now(), {"gid": "neighbour_gid", "database": "neighbour_db"}
    mine = {"began_at": now, "fired_at": now, "state": "firing", "source": slot.source}
    Alert.objects.create(rule=rule, subject="slot:1", slot=theirs, message="neighbour_slot", **mine)
    own = AlertRule.objects.create(name="own_rule", kind="prepared_age", threshold=1)
    Alert.objects.create(rule=own, subject="x", detail=gid, message="neighbour_gid_old", **mine)
    pages = ("/", "/in-flight/", "/alerts/", "/alerts/rules/", "/slots/", "/lag/",
             f"/sources/{slot.source}/", f"/slots/{slot}/", "/api/v1/slots",
             f"/api/v1/slots/{slot}/health")  # fmt: skip

    def shown(client: Client) -> str:
        return " ".join(client.get(page).text for page in pages)

    everything = shown(signed_in)
    names = ("neighbour_db", "neighbour_slot", "neighbour_gid", "neighbour_app", "neighbour_rule",
             "neighbour_gid_old")  # fmt: skip
    assert all(name in everything for name in names)
    viewer = Client()
    viewer.force_login(make_user("vera", "viewer", sources=[slot.source]))
    part = shown(viewer)
    assert "neighbour" not in part
    assert "another database" in part


def sampled(source: SourceDatabase) -> Source:
    """The source, without a slot of ours, sampled once."""
    row, _ = Source.objects.get_or_create(name=source.name)
    set_dsn(row, source.dsn)
    row.save()
    make_partitions()
    assert sample_source(row) is None
    return row


BUTTON = '<button class="btn btn-small btn-quiet" type="button" data-copy="'


def there(client: Client, query: str = "") -> dict[str, str]:
    """The rows of what is open on the sources, by gid, pid or slot, as text."""
    page = spaced(client.get(f"/in-flight/?{query}").content.decode())
    table = page.split('id="on-source-title"')[1].split("</section>")[0]
    found = {}
    for row in table.split('<tr class="open-there')[1:]:
        text = html.unescape(re.sub(r"<[^>]+>", " ", row.replace(BUTTON, "> SQL: ")))
        text = re.sub(r"\s+", " ", text.replace("\xa0", " "))
        found[re.search(r'class="copy[^>]*><?[^>]*>([^<]+)', row)[1]] = text
    return found


class Standby:
    """The standby's end of a walsender connection; it sends hot standby feedback with an xmin."""

    def __init__(self, source: SourceDatabase, slot: str) -> None:
        self._connection = source.connect(replication="true", application_name="far_standby")
        self._wire = self._connection.pgconn
        at = self._wire.exec_(b"IDENTIFY_SYSTEM").get_value(0, 2).decode()
        started = self._wire.exec_(f'START_REPLICATION SLOT "{slot}" PHYSICAL {at}'.encode())
        assert started.status == pq.ExecStatus.COPY_BOTH, self._wire.error_message

    def feed_back(self, xmin: int) -> None:
        """Hot standby feedback. Source: PostgreSQL documentation, "Streaming Replication"."""
        message = struct.pack(">cqIIII", b"h", 0, xmin % 2**32, xmin >> 32, 0, 0)
        self._wire.put_copy_data(message)
        self._wire.flush()

    def close(self) -> None:
        self._connection.close()


def test_all_that_is_open_on_a_source_stands_there_with_what_it_holds(
    any_source: SourceDatabase, record, signed_in: Client
) -> None:
    any_source.run("CREATE TABLE t (n int PRIMARY KEY)")
    recording = record(any_source)
    with (
        any_source.connect(application_name="report") as reader,
        any_source.connect(application_name="night batch") as writer,
    ):
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM t")
        any_source.run(*[f"INSERT INTO t VALUES ({n})" for n in range(20)])
        sample(recording.slot, any_source)
        waits = "No streamed or prepared transaction: see below what else is open."
        assert waits in said(signed_in, "/in-flight/")
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (100)")
        any_source.run("BEGIN; INSERT INTO t VALUES (200); PREPARE TRANSACTION 'mine'")
        stored = wait_for(lambda: Transaction.objects.filter(gid="mine").first())
        sample(recording.slot, any_source)
        rows = there(signed_in, f"source={any_source.name}")
        report, batch = (rows[f"pid {one.info.backend_pid}"] for one in (reader, writer))
        with any_source.connect() as other:
            [(age,)] = other.execute(
                "SELECT age(backend_xmin) FROM pg_stat_activity WHERE pid = %s",
                [reader.info.backend_pid],
            ).fetchall()
            assert next(iter(rows)) == f"pid {reader.info.backend_pid}"
            assert f"holds dead rows in {any_source.name}, {age} transactions back" in report
            assert "restart_lsn" not in report
            assert "not recorded here" not in report
            assert f"idle in transaction pid {reader.info.backend_pid} {any_source.name}" in report
            assert f"{any_source.server.user}, report" in report
            number = len([*other.execute("SELECT FROM pg_replication_slots WHERE plugin > ''")])
            logical = f"of {number} logical slot{'s' * (number > 1)}"
            held = f"holds restart_lsn and catalog_xmin {logical}, dead rows in {any_source.name}"
            assert held in batch
            assert "not recorded here: it has not been received yet" in batch
            assert held in rows["mine"]
            assert f"in the record of {recording.slot}" in rows["mine"]
            assert "SQL: COMMIT PREPARED 'mine';" in rows["mine"]
            page = spaced(signed_in.get("/in-flight/").content.decode())
            assert f'tx={stored.pk}">in the record of {recording.slot}</a>' in page
            for one, text in ((reader, report), (writer, batch)):
                ends = re.search(r"SQL: (SELECT pg_terminate.*?;)", text)[1]
                assert f"pid = {one.info.backend_pid} AND " in ends
                assert other.execute(ends).fetchall() == [(True,)]
                wait_for(lambda ends=ends: not other.execute(ends).fetchall())
        for one in (reader, writer):
            one.close()
    any_source.run("ROLLBACK PREPARED 'mine'")
    sample(recording.slot, any_source)
    assert "mine" not in there(signed_in)


def test_a_standbys_feedback_stands_there_also_when_it_has_gone(
    any_source: SourceDatabase, signed_in: Client, transactional_db
) -> None:
    any_source.run(
        "CREATE TABLE t (n int)", "SELECT pg_create_physical_replication_slot('far', true)"
    )
    with any_source.connect() as other:
        [(xmin,)] = other.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchall()
    any_source.run(*[f"INSERT INTO t VALUES ({n})" for n in range(20)])
    standby = Standby(any_source, "far")
    query = "SELECT age(xmin) FROM pg_replication_slots WHERE slot_name = 'far' AND active = %s"
    try:
        with any_source.connect() as other:
            standby.feed_back(int(xmin))
            wait_for(lambda: other.execute(query, [True]).fetchone()[0])
            sampled(any_source)
            row, (age,) = there(signed_in)["far"], other.execute(query, [True]).fetchone()
            assert f"holds dead rows in every database, {age} transactions back" in row
            assert "standby far" in row
            assert "far_standby" in row
            assert "ends on the standby" in row
            standby.close()
            wait_for(lambda: other.execute(query, [False]).fetchone())
            sampled(any_source)
            row, (age,) = there(signed_in)["far"], other.execute(query, [False]).fetchone()
            assert f"holds dead rows in every database, {age} transactions back" in row
            assert "see the slot" in row
    finally:
        standby.close()
        any_source.run("SELECT pg_drop_replication_slot('far')")


def test_what_a_plain_role_is_not_shown_is_unknown(
    source: SourceDatabase, signed_in: Client, transactional_db
) -> None:
    source.run("CREATE TABLE t (n int)", "CREATE ROLE plain_reader LOGIN PASSWORD 'plain'")
    row = Source.objects.create(name=source.name, conninfo="in the test")
    set_dsn(row, make_conninfo(source.dsn, user="plain_reader", password="plain"))
    row.save()
    make_partitions()
    try:
        with source.connect() as reader:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM t")
            assert sample_source(row) is None
            shown = there(signed_in)[f"pid {reader.info.backend_pid}"]
            page = said(signed_in, "/in-flight/")
            # Neither its xid nor its start names it: a pid alone may be another's by then.
            assert "SQL:" not in shown
            assert re.search(r"running pid \d+ \S+ unknown unknown", shown)
            assert "replview’s role there needs pg_monitor" in page
        SourceLook.objects.update(looked_at=timezone.now() - timedelta(minutes=5))
        page = said(signed_in, "/in-flight/")
        assert f"Open transactions are unknown on {source.name}: it was last checked" in page
        assert there(signed_in) == {}
    finally:
        source.run("DROP ROLE plain_reader")


def test_one_server_known_as_two_sources_is_told_once(
    any_source: SourceDatabase, record, signed_in: Client
) -> None:
    any_source.run("CREATE TABLE t (n int PRIMARY KEY)")
    recording = record(any_source)
    sample(recording.slot, any_source)
    any_source.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'twice'")
    stored = wait_for(lambda: Transaction.objects.filter(gid="twice").first())
    twin = Source.objects.create(name="twin", conninfo="in the test")
    set_dsn(twin, any_source.dsn)
    twin.save()
    try:
        sample(recording.slot, any_source)
        assert sample_source(twin) is None
        for query in ("", "source=twin"):
            page = spaced(signed_in.get(f"/in-flight/?{query}").content.decode())
            assert page.count('aria-label="name twice') == 1, query
            assert f"in the record of {recording.slot}" in there(signed_in, query)["twice"], query
            assert f'tx={stored.pk}">in the record of' in page, query
            assert "not recorded here" not in page, query
        stranger = Client()
        stranger.force_login(make_user("vera", "viewer", sources=[twin]))
        hidden = there(stranger)["twice"]
        assert "in the record of another source of the same server, which you may not see" in hidden
        assert str(recording.slot) not in stranger.get("/in-flight/").content.decode()
    finally:
        any_source.run("ROLLBACK PREPARED 'twice'")


def test_a_link_to_one_that_was_half_received_leads_to_what_took_its_place(
    any_source: SourceDatabase, record, signed_in: Client
) -> None:
    any_source.run(
        "CREATE TABLE unpublished (n int PRIMARY KEY)",
        "CREATE TABLE t (n int PRIMARY KEY, filler text)",
    )
    recording = record(any_source, publish="TABLE t")

    def streaming(after: int = 0) -> Transaction:
        return wait_for(lambda: Transaction.objects.filter(state="streaming", pk__gt=after).first())

    def start_again(first_row: int) -> None:
        """Nothing stays of what was discarded but a line in the slot's log. The transaction goes
        on: the server streams nothing of what is before the confirmed position again.
        """
        recording.end()
        assert Transaction.objects.filter(state="streaming").exists()
        recording.start()
        recording.streaming()
        sweep_discarded(time.monotonic() + 60)
        session.execute(ROWS.format(first_row, first_row + 2999))

    with any_source.connect() as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO unpublished VALUES (1)")
        session.execute(ROWS.format(1, 3000))
        first = streaming()
        start_again(3001)
        again = streaming(first.pk)
        assert not Transaction.objects.filter(pk=first.pk).exists()
        answer = signed_in.get(f"/transactions/{first.pk}/")
        assert answer.headers["Location"] == f"/transactions/{again.pk}/"
        limited, stranger = Client(), Client()
        limited.force_login(make_user("limited", "viewer", sources=[recording.slot.source]))
        stranger.force_login(make_user("stranger", "viewer", sources=[]))
        page = f"/transactions/{first.pk}/"
        assert limited.get(page).headers["Location"] == f"/transactions/{again.pk}/"
        for client in (signed_in, limited):
            found = client.get(f"/api/v1{page.rstrip('/')}").json()
            assert (found["id"], found["state"]) == (again.pk, "streaming")
        for address in ("?tx={}", "now/?tx={}", "{}/drawer/"):
            for client in (signed_in, limited):
                page = client.get(f"/in-flight/{address.format(first.pk)}").content.decode()
                assert f'data-region="facts" data-tx="{again.pk}" data-state="streaming"' in page
        # An account that may not see the source is not told that the transaction exists or existed.
        for address in ("/transactions/{}/", "/api/v1/transactions/{}", "/in-flight/{}/drawer/",
                        "/api/v1/transactions/{}/changes"):  # fmt: skip
            here, unheard_of = (stranger.get(address.format(each)) for each in (first.pk, 1))
            there_now = stranger.get(address.format(again.pk))
            assert here.status_code == unheard_of.status_code == there_now.status_code == 404
            assert "half received" not in here.content.decode()
        start_again(6001)
        last = streaming(again.pk)
        session.execute("COMMIT")
    recording.caught_up()
    # Through both restarts, and to the end: as what it committed, not as what it was.
    for one in (first, again):
        answer = signed_in.get(f"/transactions/{one.pk}/")
        assert answer.headers["Location"] == f"/transactions/{last.pk}/"
        changes = limited.get(f"/api/v1/transactions/{one.pk}/changes").json()["items"]
        assert changes[0]["transaction"] == last.pk
    assert Transaction.objects.get(pk=last.pk).state == "committed"


def test_of_one_that_did_not_come_again_it_is_said_when_it_was_discarded(
    source: SourceDatabase, record, signed_in: Client
) -> None:
    source.run("CREATE TABLE t (n int PRIMARY KEY, filler text)")
    recording = record(source)
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute(ROWS.format(1, 3000))
        first = wait_for(lambda: Transaction.objects.filter(state="streaming").first())
        recording.end()
        session.execute("ROLLBACK")
    recording.start()
    recording.streaming()
    sweep_discarded(time.monotonic() + 60)
    answer = signed_in.get(f"/transactions/{first.pk}/")

    assert answer.status_code == 404
    assert "half received when its receiver’s session ended" in answer.content.decode()
    page = said(signed_in, f"/in-flight/?tx={first.pk}")
    assert "It has not been received again" in page
    assert "It has not been received again" not in said(signed_in, "/in-flight/?tx=1")
