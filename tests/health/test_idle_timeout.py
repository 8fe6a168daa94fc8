"""A real server with idle_replication_slot_timeout: what is foretold of idle slots comes true."""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO

import psycopg
import pytest
from django.core.management import call_command
from django.test import Client

from replview.acts.receiving import plan_stop
from replview.features.alerts.built_in import ensure
from replview.features.alerts.evaluation import evaluate
from replview.health.conditions import BY_IDLE
from replview.health.fleet import read_fleet
from replview.health.states import Health, Level
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store.dsn import set_dsn
from replview.store.models import AlertRule, Slot, Source
from replview.store.retention.tidy import make_partitions
from tests.support.sampling import sample_source
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

_SLOTS = "('ours'), ('theirs')"
_SETTINGS = {"max_slot_wal_keep_size": "10GB", "idle_replication_slot_timeout": "1h"}


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """PostgreSQL 18 with two limits, and two slots that nobody reads."""
    with EmbeddedPostgres.temporary(version=18, settings=_SETTINGS) as made:
        run(made, "SELECT pg_create_logical_replication_slot(name, 'pgoutput') "
                  f"FROM (VALUES {_SLOTS}) AS slots (name)")  # fmt: skip
        yield made


@pytest.fixture
def shop(server: EmbeddedPostgres) -> Source:
    make_partitions()
    source = Source(name="shop")
    set_dsn(source, server.dsn("postgres"))
    source.save()
    Slot.objects.create(source=source, name="ours", desired=Slot.Desired.STOPPED)
    return source


def run(server: EmbeddedPostgres, *statements: str) -> list[tuple]:
    """Run each, and return the rows of the last one."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def healths() -> list[Health]:
    fleet = read_fleet()
    views = fleet.find_slot("shop/ours"), fleet.find_other("shop/theirs")
    return [view.health for view in views if view is not None]


def past_its_timeout(server: EmbeddedPostgres) -> None:
    """Set the timeout to a second, and wait until both slots have been idle for longer."""
    run(server, "ALTER SYSTEM SET idle_replication_slot_timeout = '1s'",
        "SELECT pg_reload_conf()")  # fmt: skip
    waiting = (
        "SELECT 1 WHERE current_setting('idle_replication_slot_timeout') <> '1s' OR EXISTS (SELECT "
        "FROM pg_replication_slots WHERE now() - inactive_since < interval '1.5 s')"
    )
    wait_for(lambda: not run(server, waiting), 30, "both slots are past their timeout")


def test_an_idle_slot_is_lost_at_the_next_checkpoint_as_every_page_says(
    server: EmbeddedPostgres, shop: Source, signed_in: Client, settings
) -> None:
    settings.STORE_URL = "postgresql://the-test-store/"
    assert sample_source(shop) is None
    shop.refresh_from_db()
    assert shop.idle_slot_timeout_seconds == 3600
    assert [health.loss_seconds for health in healths()] == [None, None]

    past_its_timeout(server)
    assert sample_source(shop) is None
    for name, health in zip(("ours", "theirs"), healths(), strict=True):
        assert health.level == Level.NOW
        assert health.title == f"{name} is lost at the source's next checkpoint."
        assert "idle_replication_slot_timeout allows a slot 1\xa0s" in health.cause
        assert (health.loss_seconds, health.loss_by) == (0, BY_IDLE)
        told = signed_in.get(f"/api/v1/slots/shop/{name}/health").json()
        assert told["time_to_loss"] == {"seconds": 0, "soonest": 0, "latest": 0, "by": BY_IDLE}
        assert told["idle_timeout_seconds"] == 1
        assert health.title in signed_in.get(f"/slots/shop/{name}/").content.decode().replace(
            "&#x27;", "'"
        )
    page = signed_in.get("/slots/shop/theirs/").content.decode()
    assert "lost at the next checkpoint, by idle_replication_slot_timeout" in page
    assert "idle_replication_slot_timeout of 1\xa0s runs since" in page
    source_page = signed_in.get("/sources/shop/").content.decode()
    assert "1\xa0s without a consumer" in source_page.split("<dt>Idle limit</dt>")[1][:60]
    listed = StringIO()
    call_command("slot", "list", stdout=listed)
    assert "ours is lost at the source's next checkpoint." in listed.getvalue()
    assert "raise idle_replication_slot_timeout" in listed.getvalue()
    assert alerts_of_a_loss() == [
        f"shop/{name} is lost at the source's next checkpoint: it has no consumer, and "
        "idle_replication_slot_timeout is 1 s."
        for name in ("ours", "theirs")
    ]

    run(server, "CHECKPOINT")
    assert sample_source(shop) is None
    assert [health.title for health in healths()] == [
        "ours is lost: idle_timeout.", "theirs is lost: idle_timeout.",
    ]  # fmt: skip


def alerts_of_a_loss() -> list[str]:
    ensure()
    AlertRule.objects.update(enabled=False)
    AlertRule.objects.create(
        kind="time_to_loss", name="soon", severity="now", threshold=3600, clear_threshold=7200
    )
    return sorted(alert.message for alert in evaluate(datetime.now(UTC)))


def test_before_a_stop_every_limit_is_named_and_which_comes_first(
    server: EmbeddedPostgres, shop: Source
) -> None:
    slot = Slot.objects.get(name="ours")
    slot.desired, slot.wal_budget_bytes = Slot.Desired.RUNNING, 5 << 30
    slot.save()
    assert sample_source(shop) is None
    slot = Slot.objects.select_related("source").get()
    idle = ("first checkpoint after 1\xa0h without a consumer (idle_replication_slot_timeout) "
            "invalidates the slot, and history has a gap.")  # fmt: skip
    unknown = plan_stop(slot).consequences[1:-1]
    assert unknown[0] == f"The {idle}"
    assert unknown[-1].startswith("It is unknown which limit comes first")
    assert len(unknown) == 4
