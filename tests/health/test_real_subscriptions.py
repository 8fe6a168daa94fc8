"""Subscriptions of real servers (15, 16, 18), as they apply, fail, and are disabled."""

import re
from collections.abc import Iterator

import pytest
from django.test import Client

from replview.catalog.subscriptions import read_subscription_columns, read_subscriptions
from replview.store.dsn import set_dsn
from replview.store.models import Source, WatchedSubscription
from replview.store.retention.tidy import make_partitions
from tests.support.sampling import sample_source
from tests.support.source_databases import SourceDatabase, fresh_database
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

TABLE = "CREATE TABLE orders (id int PRIMARY KEY)"


class Subscriber:
    """A database that follows another one of its server, and a source of replview."""

    def __init__(self, database: SourceDatabase, publisher: SourceDatabase, client: Client) -> None:
        self.database, self.publisher, self._client = database, publisher, client
        self.version = database.server.version
        publisher.run(
            TABLE, "CREATE PUBLICATION orders FOR TABLE orders",
            f"SELECT pg_create_logical_replication_slot('{publisher.name}_slot', 'pgoutput')",
        )  # fmt: skip
        database.run(
            TABLE,
            f"CREATE SUBSCRIPTION follows CONNECTION '{publisher.dsn}' PUBLICATION orders WITH "
            f"(create_slot = false, slot_name = {publisher.name}_slot, copy_data = false)",
        )
        make_partitions()
        self.source = Source(name="subscriber")
        set_dsn(self.source, database.dsn)
        self.source.save()

    def rows(self) -> int:
        with self.database.connect() as connection:
            return connection.execute("SELECT count(*) FROM orders").fetchone()[0]

    def facts(self) -> dict:
        """Sample the source and return the stored facts of the subscription."""
        assert sample_source(self.source) is None
        return WatchedSubscription.objects.get(source=self.source, name="follows").facts

    def page(self) -> str:
        """Sample the source and return the text of the subscriptions on /slots/."""
        self.facts()
        page = self._client.get("/slots/").content.decode().split('id="subscriptions"')[1]
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.split("</section>")[0]))

    def fails(self) -> None:
        """Make the subscription's worker fail: a row that it is to insert is there already."""
        self.facts()
        self.database.run("INSERT INTO orders VALUES (100)")
        self.publisher.run("INSERT INTO orders VALUES (100)")

    def remove(self) -> None:
        self.database.run(
            "ALTER SUBSCRIPTION follows DISABLE",
            "ALTER SUBSCRIPTION follows SET (slot_name = NONE)",
            "DROP SUBSCRIPTION follows",
        )  # fmt: skip


@pytest.fixture
def subscriber(any_source: SourceDatabase, signed_in: Client) -> Iterator[Subscriber]:
    for publisher in fresh_database(any_source.server):
        made = Subscriber(any_source, publisher, signed_in)
        yield made
        made.remove()


def test_whoever_asks_is_told_the_same_of_one_that_applies(subscriber: Subscriber) -> None:
    subscriber.publisher.run("INSERT INTO orders VALUES (1)")
    wait_for(lambda: subscriber.rows() == 1)
    wait_for(lambda: subscriber.facts().get("latest_end_lsn"))
    database = subscriber.database
    database.run("CREATE ROLE watcher IN ROLE pg_monitor", "CREATE ROLE plain")
    try:
        told = [_told(database, role) for role in ("postgres", "watcher", "plain")]
    finally:
        database.run("DROP ROLE watcher, plain")

    assert subscriber.publisher.server.password not in str(told)
    for seen in told:
        assert seen["pid"] is not None
        assert seen["subenabled"] is True
        assert seen["subpublications"] == ["orders"]
        assert seen["apply_error_count"] == 0
        assert ("confl_insert_exists" in seen) == (subscriber.version >= 18)
    assert [set(seen) for seen in told[1:]] == [set(told[0])] * 2
    page = subscriber.page()
    assert "Caught up." in page
    assert "none" in page, "no error"
    assert ("unknown: needs 18" in page) == (subscriber.version < 18)


def _told(database: SourceDatabase, role: str) -> dict:
    with database.connect(options=f"-c role={role}") as connection:
        found = read_subscriptions(connection, read_subscription_columns(connection))
    assert found is not None
    return found["follows"]


def test_one_that_fails_says_so_also_while_it_tries_again(subscriber: Subscriber) -> None:
    subscriber.fails()
    wait_for(lambda: subscriber.facts()["apply_error_count"])
    page = subscriber.page()
    assert "Fails: 1 apply error, the last about" in page
    if subscriber.version >= 18:
        assert "1 insert exists" in page

    subscriber.database.run("DELETE FROM orders")
    wait_for(lambda: subscriber.rows() == 1)
    assert WatchedSubscription.objects.get(name="follows").facts["failed_at"] is not None


def test_one_disabled_by_its_error_and_one_disabled_by_hand(subscriber: Subscriber) -> None:
    subscriber.database.run("ALTER SUBSCRIPTION follows SET (disable_on_error = true)")
    subscriber.fails()
    wait_for(lambda: subscriber.facts()["subenabled"] is False)
    wait_for(lambda: subscriber.facts()["apply_error_count"])
    page = subscriber.page()
    assert "Disabled: nothing is applied. It is disabled on an error" in page
    assert "and had 1 apply error" in page
    assert "ALTER SUBSCRIPTION follows ENABLE;" in page

    subscriber.database.run("DELETE FROM orders",
                            "ALTER SUBSCRIPTION follows SET (disable_on_error = false)",
                            "ALTER SUBSCRIPTION follows ENABLE")  # fmt: skip
    wait_for(lambda: subscriber.rows() == 1)
    subscriber.database.run("ALTER SUBSCRIPTION follows DISABLE")
    wait_for(lambda: subscriber.facts().get("pid") is None)
    assert "Disabled: nothing is applied. Its slot on the publisher" in subscriber.page()


def test_one_whose_publisher_is_away_says_that_no_worker_runs(subscriber: Subscriber) -> None:
    subscriber.database.run("ALTER SUBSCRIPTION follows CONNECTION 'host=127.0.0.1 port=1'")
    wait_for(lambda: subscriber.facts().get("pid") is None)
    assert "Its worker does not run." in subscriber.page()
