"""The in-flight page over a real source, its receiver and its samples."""

import re

import pytest
from django.test import Client

from replview.features.sampling.sample import sample_source
from replview.store.dsn import set_dsn
from replview.store.models import Slot, Transaction
from replview.store.retention.tidy import make_partitions
from tests.conftest import SourceDatabase
from tests.people import said
from tests.receiver.conftest import record as record  # a fixture
from tests.receiver.conftest import wait_for

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
        assert re.search(r"1 subtransaction rolled back, taking away [\d,]+ changes", page)
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
    assert "Nothing is in flight." in page
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

    assert "On the source, not in this record" in page
    assert "in another database than the slot's" in page
    assert "1 prepared transaction not in this record." in page
