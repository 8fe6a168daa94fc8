"""A primary and its standby (17 and 18): what is said of a failover slot is what they do."""

import re
from collections.abc import Iterator

import psycopg
import pytest
from django.test import Client

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store.dsn import set_dsn
from replview.store.failover_readiness import OnStandby, read_standbys
from replview.store.models import Source
from replview.store.retention.tidy import make_partitions
from tests.support.people import make_user
from tests.support.sampling import sample_source
from tests.support.standby import PHYSICAL_SLOT, Pair
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.pg(17)]

#: Everything it takes to be consistent on the standby: a snapshot, and a reader who went past it.
ADVANCE = """
    SELECT pg_log_standby_snapshot();
    SELECT count(*) FROM pg_logical_slot_get_binary_changes('cdc', NULL, NULL,
        'proto_version', '1', 'publication_names', 'none')
"""


@pytest.fixture(scope="module")
def pair(source_version: int) -> Iterator[Pair]:
    """Yield a pair that all tests here share; each goes on from where the one before ended."""
    with Pair(source_version) as made:
        run(made.primary, "CREATE PUBLICATION none", "CREATE TABLE filler (n int)",
            "SELECT pg_create_logical_replication_slot('cdc', 'pgoutput', false, false, true)",
            *["INSERT INTO filler VALUES (1)"] * 3)  # fmt: skip
        yield made


def run(server: EmbeddedPostgres, *statements: str) -> list[tuple]:
    """The rows of the last one."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        while cursor.nextset():
            pass
        return cursor.fetchall() if cursor.description else []


def standby_of(pair: Pair) -> EmbeddedPostgres:
    assert pair.standby is not None
    return pair.standby


def choose(server: EmbeddedPostgres, name: str, value: str) -> None:
    """Change a setting and reload, which also wakes the worker that syncs slots."""
    run(server, f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")


def copy_is(pair: Pair, condition: str, *, going_on: bool = False) -> None:
    """Wait until the standby's copy is like that, while nothing happens or the reader goes on."""
    query = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 'cdc' AND {condition}"

    def reached() -> bool:
        if going_on:
            run(pair.primary, "INSERT INTO filler VALUES (2)", ADVANCE)
        run(standby_of(pair), "SELECT pg_reload_conf()", "SELECT pg_sleep(0.1)")
        return bool(run(standby_of(pair), query))

    wait_for(reached, 90, f"the copy is {condition}")


class Watched:
    """The primary and the standby as sources, sampled anew for each question."""

    def __init__(self, pair: Pair, client: Client) -> None:
        make_partitions()
        self.pair, self._client = pair, client
        self.primary = self._source("shop", pair.primary)
        self.standby = self._source("shop-standby", standby_of(pair))

    def _source(self, name: str, server: EmbeddedPostgres) -> Source:
        made = Source(name=name)
        set_dsn(made, server.dsn())
        made.save()
        return made

    def told(self, slot: str = "cdc") -> OnStandby:
        for source in (self.primary, self.standby):
            assert sample_source(source) is None
            source.refresh_from_db()
        [one] = read_standbys(self.primary).of(slot)
        return one

    def page(self, source: str = "shop", slot: str = "cdc") -> str:
        """The words of the slot's page."""
        response = self._client.get(f"/slots/{source}/{slot}/")
        assert response.status_code == 200
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


@pytest.fixture
def watched(pair: Pair, client: Client, django_user_model) -> Watched:
    client.force_login(make_user("ada"))
    return Watched(pair, client)


def test_a_copy_is_temporary_until_it_is_consistent_and_then_ready(
    pair: Pair, watched: Watched
) -> None:
    copy_is(pair, "temporary")
    one = watched.told()
    assert (one.ready, one.why, one.lacking) == (False, "temporary", ())
    assert "shop-standby : still temporary" in watched.page()
    assert "not yet: still temporary" in watched.page("shop-standby")

    copy_is(pair, "synced AND NOT temporary", going_on=True)
    one = watched.told()
    assert (one.ready, one.why, one.lacking) == (True, "", ())
    page = watched.page()
    assert "yes, on shop-standby" in page
    assert "shop-standby : ready: synced, permanent, valid" in page
    assert "yes: synced, not temporary, not invalidated" in watched.page("shop-standby")


def test_readers_that_wait_for_no_standby_are_warned_of(pair: Pair, watched: Watched) -> None:
    empty = "synchronized_standby_slots is empty"
    watched.told()
    assert empty in watched.page()

    choose(pair.primary, "synchronized_standby_slots", PHYSICAL_SLOT)
    wait_for(lambda: run(pair.primary, "SHOW synchronized_standby_slots") == [(PHYSICAL_SLOT,)])
    watched.told()
    assert read_standbys(watched.primary).waits_for_none is False
    assert empty not in watched.page()


def test_a_copy_that_no_longer_follows_says_so(pair: Pair, watched: Watched) -> None:
    choose(standby_of(pair), "sync_replication_slots", "off")
    wait_for(lambda: run(standby_of(pair), "SHOW sync_replication_slots") == [("off",)])
    one = watched.told()

    assert (one.ready, one.lacking) == (True, ("sync_replication_slots",))
    assert "lacks sync_replication_slots: it has stopped following" in watched.page()


def test_a_copy_that_is_not_there_says_what_the_standby_lacks(pair: Pair, watched: Watched) -> None:
    create = "SELECT pg_create_logical_replication_slot('late', 'pgoutput', false, false, true)"
    run(pair.primary, create)
    one = watched.told("late")

    assert (one.ready, one.why, one.lacking) == (False, "missing", ("sync_replication_slots",))
    page = watched.page(slot="late")
    assert "shop-standby : not there; lacks sync_replication_slots" in page
    assert "no: no standby has it ready" in page


def test_an_invalidated_copy_is_not_ready(pair: Pair, watched: Watched) -> None:
    standby = standby_of(pair)
    choose(standby, "max_slot_wal_keep_size", "1MB")
    run(pair.primary, *["SELECT pg_switch_wal()", "INSERT INTO filler VALUES (3)"] * 4,
        "CHECKPOINT")  # fmt: skip
    end = run(pair.primary, "SELECT pg_current_wal_lsn()")[0][0]
    wait_for(lambda: run(standby, f"SELECT pg_last_wal_replay_lsn() >= '{end}'::pg_lsn")[0][0])
    run(standby, "CHECKPOINT")
    copy_is(pair, "invalidation_reason IS NOT NULL")
    one = watched.told()

    assert (one.ready, one.why, one.reason) == (False, "invalidated", "wal_removed")
    assert "shop-standby : invalidated there: wal_removed" in watched.page()
    assert "no: wal_removed" in watched.page("shop-standby")
