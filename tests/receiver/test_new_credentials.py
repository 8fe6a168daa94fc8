"""Other credentials taken into use while a slot is received: no restart, nothing lost."""

import threading

import psycopg
import pytest

from replview.acts.credentials import Credentials, set_credentials
from replview.features.receiving.tasks import conninfo_of
from replview.receiver.run import receive
from replview.store.dsn import set_dsn
from replview.store.models import Slot
from tests.support.recording import Recording
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_the_receiver_goes_on_with_them(record, source) -> None:
    source.run("CREATE TABLE orders (id int PRIMARY KEY)")
    recording: Recording = record(source, start=False)
    slot, row = recording.slot, recording.slot.source
    set_dsn(row, source.dsn)
    row.save()
    source.run("CREATE ROLE keeper LOGIN SUPERUSER REPLICATION PASSWORD 'geheim'")
    stop = threading.Event()

    def worker() -> None:
        """Begin to receive whenever the slot has no consumer, as workers do for beat."""
        while not stop.wait(0.1):
            receive(slot.pk, owner="test", stop=stop, conninfo_of=conninfo_of)

    thread = threading.Thread(target=worker)
    thread.start()
    try:
        wait_for(lambda: reader(source) == "postgres")
        source.run("INSERT INTO orders VALUES (1)")

        set_credentials(row, Credentials(user="keeper", password="geheim"), by="alice")

        wait_for(lambda: reader(source) == "keeper")
        source.run("INSERT INTO orders VALUES (2)")
        recording.caught_up()
        slot.refresh_from_db()
        assert (slot.transactions_stored, slot.incarnation.number) == (2, 1)
    finally:
        stop.set()
        thread.join(20)
        Slot.objects.filter(pk=slot.pk).update(desired="stopped")
        with psycopg.connect(source.dsn, autocommit=True) as session:
            session.execute("DROP OWNED BY keeper")
            session.execute("DROP ROLE keeper")


def reader(source) -> str | None:
    """Return the role that has the slot open on the source."""
    with source.connect() as connection:
        row = connection.execute(
            "SELECT usename::text FROM pg_stat_replication JOIN pg_replication_slots "
            "ON pid = active_pid WHERE database = current_database()"
        ).fetchone()
    return row[0] if row else None
