"""``replview slot``."""

import json
import os
import signal
import subprocess
import sys

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from replview.store.models import Slot, SlotEvent
from tests.support.source_traces import left_on


def test_add_shows_every_statement_and_makes_it(run, registered, shop) -> None:
    text = run("slot", "add", "shop", "mine", "--yes", "--option", "binary=on")

    assert 'CREATE PUBLICATION "mine" FOR TABLE "public"."orders";' in text
    assert text.count("needs:") == text.count("costs:") == 3
    slot = Slot.objects.get()
    assert (slot.publications, slot.owned, slot.desired, slot.options) == (
        ["mine", "mine_inserts"], True, "running", {"binary": "on"}
    )  # fmt: skip
    assert left_on(shop) == ({"mine", "mine_inserts"}, {"mine"})


def test_what_was_rolled_back_is_kept_if_asked_for(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes", "--keep-aborted")

    assert Slot.objects.get().keep_aborted


def test_without_a_terminal_nothing_is_made_unless_yes(run, registered, shop) -> None:
    with pytest.raises(CommandError, match="--yes"):
        run("slot", "add", "shop", "mine")
    assert left_on(shop) == (set(), set())
    assert not Slot.objects.exists()


def test_when_the_store_fails_the_source_is_left_as_it_was(
    run, registered, shop, monkeypatch
) -> None:
    def fail(**values: object) -> None:
        raise RuntimeError("the store is full")

    monkeypatch.setattr(SlotEvent.objects, "create", fail)
    with pytest.raises(RuntimeError):
        run("slot", "add", "shop", "mine", "--yes")
    assert left_on(shop) == (set(), set())


def test_columns_to_exclude_and_to_mask(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes", "--tables", "orders", "--stopped",
        "--exclude-column", "orders.note", "--mask-column", "public.orders.status")  # fmt: skip

    slot = Slot.objects.get()
    assert slot.column_rules == {"public.orders": {"note": "drop", "status": "mask"}}
    assert slot.desired == "stopped"


def test_the_interface_is_chosen_and_changed(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes", "--interface", "sql", "--stopped")
    slot = Slot.objects.get()
    assert (slot.plugin, slot.interface, slot.epoch) == ("pgoutput", "sql", 0)

    assert "replication connection" in run("slot", "interface", "shop", "mine", "walsender")
    run("slot", "interface", "shop", "mine", "walsender")

    slot.refresh_from_db()
    assert (slot.interface, slot.epoch) == ("walsender", 1), "whoever reads it is ended once"


@pytest.mark.parametrize("option", ["binary=maybe", "two_phase=on", "nonsense"])
def test_options_of_pgoutput_are_checked(run, registered, option) -> None:
    with pytest.raises(CommandError, match="is not one of"):
        run("slot", "add", "shop", "mine", "--yes", "--option", option)


def test_publication_and_tables_exclude_each_other(run, registered) -> None:
    with pytest.raises(CommandError, match="cannot be combined with"):
        run("slot", "add", "shop", "x", "--publication", "p", "--tables", "orders")


def test_stop_and_start(run, registered) -> None:
    slot = Slot.objects.create(source=registered, name="mine")
    run("slot", "stop", "shop", "mine")
    slot.refresh_from_db()
    assert slot.desired == "stopped"
    run("slot", "start", "shop", "mine")
    slot.refresh_from_db()
    assert slot.desired == "running"


def test_list(run, registered) -> None:
    assert "no slots yet" in run("slot", "list")
    Slot.objects.create(source=registered, name="mine", problem_cause="the slot is lost")

    assert "shop/mine" in run("slot", "list")
    (facts,) = json.loads(run("slot", "list", "--format", "json"))
    assert facts["problem"] == "the slot is lost"
    assert facts["checkpoint_lsn"] is None


def test_list_names_the_limit_of_workers_that_have_no_room(run, registered) -> None:
    now = timezone.now()
    for number in range(1, 9):
        Slot.objects.create(source=registered, name=f"s{number}", state="streaming",
                            lease_owner="receivers@host", heartbeat_at=now)  # fmt: skip
    Slot.objects.create(source=registered, name="ninth")
    told = "ninth is not received: every worker has its 8 slots."

    (line,) = [line for line in run("slot", "list").splitlines() if "shop/ninth" in line]
    assert told in line
    assert "add a worker: replview up --receivers 2" in line

    # A second worker has room: it takes the slot within seconds.
    Slot.objects.filter(name="s8").update(lease_owner="receivers2@host")
    assert told not in run("slot", "list")


def test_remove_drops_what_replview_made_and_nothing_else(run, registered, shop) -> None:
    shop.run("CREATE PUBLICATION theirs FOR TABLE orders")
    run("slot", "add", "shop", "mine", "--yes")

    text = run("slot", "remove", "shop", "mine", "--yes")

    assert "SELECT pg_drop_replication_slot('mine');" in text
    assert left_on(shop) == ({"theirs"}, set())
    assert Slot.objects.get().desired == "removing"


def test_an_adopted_slot_is_never_dropped(run, registered, shop) -> None:
    shop.run(
        "CREATE PUBLICATION theirs FOR TABLE orders",
        "SELECT pg_create_logical_replication_slot('old', 'pgoutput')",
    )
    with pytest.raises(CommandError, match="--adopt"):
        run("slot", "add", "shop", "old", "--yes")
    run("slot", "add", "shop", "old", "--adopt", "--publication", "theirs")

    assert not Slot.objects.get().owned
    assert "replview created nothing there" in run("slot", "remove", "shop", "old", "--yes")
    assert left_on(shop) == ({"theirs"}, {"old"})


def test_remove_when_the_source_is_gone_says_what_is_left(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes")
    registered.conninfo = "host=127.0.0.1 port=1 user=postgres"
    registered.save()

    with pytest.raises(CommandError, match="--leave-on-source") as caught:
        run("slot", "remove", "shop", "mine", "--yes")
    assert 'DROP PUBLICATION IF EXISTS "mine"' in str(caught.value)
    assert Slot.objects.get().desired == "running", "nothing is half-done"

    text = run("slot", "remove", "shop", "mine", "--yes", "--leave-on-source")
    assert "Run this there yourself" in text
    assert Slot.objects.get().desired == "removing"


def test_remove_after_the_slot_was_dropped_by_hand(run, registered, shop) -> None:
    run("slot", "add", "shop", "mine", "--yes")
    shop.run("SELECT pg_drop_replication_slot('mine')")

    run("slot", "remove", "shop", "mine", "--yes")

    assert left_on(shop) == (set(), set())


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_ctrl_c_while_the_slot_waits_leaves_nothing(registered, shop, store_cluster) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "replview.settings",
        "REPLVIEW_STORE_URL": store_cluster.dsn(connection.settings_dict["NAME"]),
        "PYTHONUNBUFFERED": "1",
    }
    words = [sys.executable, "-m", "django", "slot", "add", "shop", "mine", "--yes"]
    with shop.connect() as writer:
        writer.execute("BEGIN; INSERT INTO orders VALUES (1)")
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as command:
            assert any("waits for: process" in line for line in command.stdout)
            command.send_signal(signal.SIGINT)
            command.communicate(timeout=20)

    assert command.returncode == 130
    assert left_on(shop) == (set(), set())
    assert not Slot.objects.exists()
