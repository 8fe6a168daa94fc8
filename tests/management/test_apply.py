"""``replview apply``: what a file declares, on real databases; applied twice, nothing changes."""

import json
import textwrap
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from replview.acts.moving import move_source
from replview.receiver.mask_rules import MaskRules
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store.models import (
    AccessRecord,
    AlertRule,
    Grant,
    MaskRule,
    Slot,
    SlotEvent,
    Source,
)
from replview.store.reachable import DSNError
from replview.store.read.mask_rules import NamedColumn
from tests.support.copied_clusters import copied
from tests.support.people import make_user

pytestmark = pytest.mark.django_db(transaction=True)
FORTY = [f"tenant_{number:02}" for number in range(40)]


@pytest.fixture(autouse=True)
def the_store(settings, store_cluster, monkeypatch, source_password: str) -> None:
    """Moving a source reads the store directly, too."""
    settings.STORE_URL = store_cluster.dsn("test_replview")
    settings.SOURCE_PASSWORDS = {"env:FLEET_PASSWORD": ["127.0.0.1"]}
    monkeypatch.setenv("FLEET_PASSWORD", source_password)


@pytest.fixture
def source_password(request) -> str:
    """Return the password of the server that the test uses."""
    name = "forty_servers" if "forty_servers" in request.fixturenames else "source_cluster_18"
    return request.getfixturevalue(name).password


@pytest.fixture
def apply(tmp_path: Path):
    """``apply(text, "--yes")`` → exit status and what was said."""

    def apply(text: str, *words: str) -> tuple[int, str]:
        path = tmp_path / "fleet.toml"
        path.write_text(textwrap.dedent(text))
        out = StringIO()
        try:
            call_command("apply", str(path), *words, stdout=out, stderr=out)
        except SystemExit as end:
            return int(end.code or 0), out.getvalue()
        return 0, out.getvalue()

    return apply


@pytest.fixture
def forty_servers() -> Iterator[EmbeddedPostgres]:
    """Yield a server with forty databases, a table in each."""
    room = {"max_replication_slots": 60, "max_wal_senders": 60}
    with copied(settings=room) as server:
        with psycopg.connect(server.dsn("template1"), autocommit=True) as session:
            session.execute("CREATE TABLE orders (id int PRIMARY KEY, status text, card text)")
        with psycopg.connect(server.dsn(), autocommit=True) as session:
            for name in FORTY:
                # Quicker than through the WAL, where nothing is synced.
                session.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        yield server


def of_forty(server: EmbeddedPostgres, slots: dict[str, str] | None = None) -> str:
    """The file for all of them; ``slots``: further lines of a database's slot."""
    head = f"""
        [defaults]
        dsn = "host=127.0.0.1 port={server.port} user={server.user}"
        password = {{ env = "FLEET_PASSWORD" }}

        [defaults.slot]
        tables = ["*"]
        mask_columns = ["*.card"]
        wal_budget = "2GB"
        running = true
    """
    for name in FORTY:
        more = (slots or {}).get(name, "")
        head += f"""
        [[source]]
        name = "{name}"
        dsn = "dbname={name}"
        [[source.slot]]
        name = "{name}_slot"
        {more}
        """
    return head


def versions() -> dict[str, list[tuple[str, ...]]]:
    """Return xmin and ctid of every row that applying a file might touch, by table."""
    tables = ("source", "slot", "slot_event", "mask_rule", "publication_look", "access_record")
    with connection.cursor() as cursor:
        found = {}
        for table in tables:
            cursor.execute(f"SELECT xmin::text, ctid::text FROM {table} ORDER BY 2")
            found[table] = cursor.fetchall()
        return found


@pytest.mark.slow
@pytest.mark.long
def test_forty_databases_applied_again_change_nothing(forty_servers, apply) -> None:
    text = of_forty(forty_servers)
    status, said = apply(text, "--check")
    assert status == 3
    assert "80 to add" in said
    assert said.count("pg_create_logical_replication_slot('tenant_07_slot'") == 1
    assert Source.objects.count() == 0

    status, said = apply(text, "--yes")
    assert (status, said.splitlines()[-1]) == (0, "80 done")
    assert Slot.objects.filter(desired="running", wal_budget_bytes=2 << 30).count() == 40
    assert Slot.objects.first().column_rules == {"public.orders": {"card": "mask"}}

    before = versions()
    assert apply(text, "--check") == (0, "80 unchanged\n")
    assert apply(text, "--yes") == (0, "80 unchanged\n")
    assert versions() == before

    # One edited: that one, and nothing else.
    edited = of_forty(forty_servers, {"tenant_07": "heartbeat = 60"})
    status, said = apply(edited, "--yes", "--json")
    told = json.loads(said)
    assert [item["name"] for item in told["items"] if item["verdict"] != "unchanged"] == [
        "tenant_07/tenant_07_slot"
    ]
    after = versions()
    assert len(set(before["slot"]) - set(after["slot"])) == 1
    assert after["source"] == before["source"]
    assert Slot.objects.get(name="tenant_07_slot").heartbeat_seconds == 60


@pytest.fixture
def shop(source):
    """A database with a table that has a key and one that has none."""
    source.run(
        "CREATE TABLE orders (id int PRIMARY KEY, status text, note text)",
        "CREATE TABLE audit (at timestamptz, what text)",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.leads (id int PRIMARY KEY, email text)",
    )
    return source


def of_shop(shop, slot: str = "", further: str = "", name: str = "shop") -> str:
    server = shop.server
    lines = textwrap.indent(textwrap.dedent(slot), "        ")
    return f"""
        [[source]]
        name = "{name}"
        dsn = "host=127.0.0.1 port={server.port} user={server.user} dbname={shop.name}"
        password = {{ env = "FLEET_PASSWORD" }}
        [[source.slot]]
        name = "{shop.name}_replview"
{lines}
{further}
    """


def published(shop) -> set[str]:
    with shop.connect() as session:
        found = session.execute(
            "SELECT pubname, schemaname || '.' || tablename FROM pg_publication_tables"
        ).fetchall()
    return {f"{'inserts ' if name.endswith('_inserts') else ''}{table}" for name, table in found}


def slots_of(shop) -> set[str]:
    with shop.connect() as session:
        found = session.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
        )
        return {name for (name,) in found}


def test_tables_follow_their_patterns(shop, apply) -> None:
    text = of_shop(shop, 'tables = ["public.*"]\nrunning = false')
    assert apply(text, "--yes")[0] == 0
    assert published(shop) == {"public.orders", "inserts public.audit"}
    assert Slot.objects.get().desired == "stopped"

    shop.run("CREATE TABLE refunds (id int PRIMARY KEY)")
    status, said = apply(text, "--check")
    assert status == 3
    assert 'ADD TABLE "public"."refunds";' in said
    assert apply(of_shop(shop, 'tables = ["*"]\nexcept_tables = ["public.au*"]'), "--yes")[0] == 0
    assert published(shop) == {"public.orders", "public.refunds", "sales.leads"}
    assert SlotEvent.objects.filter(detail__by="fleet.toml", detail__act="tables").count() == 1


def test_what_the_file_does_not_speak_of_is_left_as_it_is(shop, apply) -> None:
    apply(of_shop(shop, 'mask_columns = ["public.orders.note"]\nwal_budget = "1GB"'), "--yes")
    Slot.objects.update(desired="stopped", heartbeat_seconds=30)

    assert apply(of_shop(shop), "--yes") == (0, "2 unchanged\n")
    slot = Slot.objects.get()
    assert (slot.desired, slot.heartbeat_seconds) == ("stopped", 30)
    assert slot.column_rules == {"public.orders": {"note": "mask"}}


def test_a_change_of_columns_or_options_has_the_receiver_connect_anew(shop, apply) -> None:
    apply(of_shop(shop), "--yes")
    epoch = Slot.objects.get().epoch
    changed = (
        'mask_columns = ["*.email"]\nexclude_columns = ["orders.note"]\n'
        'options = { streaming = "parallel" }'
    )
    status, said = apply(of_shop(shop, changed), "--yes")

    assert status == 0
    assert "column sales.leads.email: kept → masked" in said
    assert "options: none → streaming=parallel" in said
    assert 'ADD TABLE "public"."orders" ("id", "status");' in said
    slot = Slot.objects.get()
    assert (slot.epoch, slot.options) == (epoch + 2, {"streaming": "parallel"})
    masked = {"sales.leads": {"email": "mask"}}
    assert slot.column_rules == {**masked, "public.orders": {"note": "drop"}}
    assert apply(of_shop(shop, changed), "--yes") == (0, "2 unchanged\n")
    status, said = apply(of_shop(shop, changed.replace('"orders.note"', "")), "--yes")
    assert 'ADD TABLE "public"."orders";' in said
    assert Slot.objects.get().column_rules == masked


def test_how_much_is_kept_is_declared_too(shop, apply) -> None:
    text = of_shop(shop, 'keep_for = "90d"\nkeep_at_most = "20GB"')
    apply(text, "--yes")
    slot = Slot.objects.get()
    assert (slot.keep_for_days, slot.keep_at_most_bytes) == (90, 20 << 30)

    assert apply(text, "--yes") == (0, "2 unchanged\n")
    _, said = apply(of_shop(shop, 'keep_for = "none"'), "--yes")
    assert "keep for: 90 days → none" in said
    slot.refresh_from_db()
    assert (slot.keep_for_days, slot.keep_at_most_bytes) == (None, 20 << 30)


def own_rules() -> dict[str, tuple[float | None, float | None, bool]]:
    """Return the slots' own alert rules by key: threshold, threshold to clear, whether it is on."""
    rules = AlertRule.objects.exclude(overrides=None).select_related("overrides")
    return {
        rule.overrides.key: (rule.threshold, rule.clear_threshold, rule.enabled) for rule in rules
    }


def test_rules_of_a_slot_alone_are_declared_too(shop, apply) -> None:
    text = of_shop(shop, 'alerts = { lag_look = "5min", inactive = false, share_now = "95%" }')
    status, said = apply(text, "--check")
    assert (status, "alert lag_look: as for all slots → at 5 min" in said) == (3, True)
    assert AlertRule.objects.count() == 0
    assert apply(text, "--yes")[0] == 0
    assert own_rules() == {
        "lag_look": (300.0, None, True),
        "inactive": (300.0, None, False),
        "share_now": (0.95, None, True),
    }
    # The rule has the slot's own identifier, under which the sampler finds the slot later.
    assert AlertRule.objects.get(overrides__key="inactive").slot_id == Slot.objects.get().pk

    assert apply(text, "--yes") == (0, "2 unchanged\n")
    AlertRule.objects.filter(overrides__key="lag_look").update(threshold=900)
    changed = of_shop(shop, 'alerts = { lag_look = { threshold = "5min", over = "1min" }, '
                      'inactive = "inherit" }')  # fmt: skip
    status, said = apply(changed, "--yes")
    assert "alert lag_look: at 15 min → at 5 min, over at 1 min" in said
    assert own_rules() == {"lag_look": (300.0, 60.0, True), "share_now": (0.95, None, True)}
    assert apply(changed, "--yes", "--prune")[0] == 0
    assert own_rules() == {"lag_look": (300.0, 60.0, True)}
    noted = AccessRecord.objects.filter(subject__startswith="alert rule ")
    assert noted.filter(subject__endswith=": saved").count() == 4


def test_a_source_knows_the_file_that_declares_it(shop, apply, client) -> None:
    apply(of_shop(shop), "--yes")
    assert Source.objects.get().managed_by == "fleet.toml"
    client.force_login(make_user("root", "admin"))
    slot = f"/slots/shop/{shop.name}_replview"
    for page in ("/sources/shop/", "/sources/shop/rename/", f"{slot}/stop/", f"{slot}/keeping/",
                 f"{slot}/"):  # fmt: skip
        assert "shop is declared in fleet.toml" in client.get(page).content.decode(), page
    out = StringIO()
    call_command("slot", "stop", "shop", f"{shop.name}_replview", stdout=out)
    assert "applying that file again undoes changes" in out.getvalue()

    assert apply("", "--yes")[0] == 0
    assert Source.objects.get().managed_by == ""
    assert apply("", "--check")[0] == 0


def test_what_cannot_change_in_place_is_refused_with_what_to_do(shop, apply) -> None:
    apply(of_shop(shop), "--yes")
    status, said = apply(of_shop(shop, "two_phase = false\nheartbeat = 60"), "--yes")

    assert status == 1
    assert "the slot is a two-phase one, and that is not changed in place" in said
    assert "replview slot remove shop" in said
    assert Slot.objects.get().heartbeat_seconds is None


def test_a_plan_speaks_of_keys_and_not_of_options_of_other_commands(shop, apply) -> None:
    _, said = apply(of_shop(shop), "--check")
    shop.run(f"SELECT pg_create_logical_replication_slot('{shop.name}_replview', 'pgoutput')")
    _, taken = apply(of_shop(shop), "--check")

    assert 'protect = "record": warn only' in said
    assert "adopt = true" in taken
    for text in (said, taken, apply(of_shop(shop), "--check", "--json")[1]):
        assert "--protect" not in text
        assert "--adopt" not in text


def test_an_unreachable_database_is_named_and_the_rest_goes_on(shop, apply) -> None:
    away = """
        [[source]]
        name = "away"
        dsn = "host=127.0.0.1 port=1 dbname=nowhere user=nobody"
        [[source.slot]]
        [[source]]
        name = "unset"
        dsn = "env:NO_SUCH_VARIABLE_HERE"
    """
    status, said = apply(away + of_shop(shop), "--yes")

    assert status == 1
    assert "source away: unreachable\n      no server answers at 127.0.0.1:1" in said
    assert "the environment variable NO_SUCH_VARIABLE_HERE is not set" in said
    assert said.splitlines()[-1] == "2 done, 3 not done"
    assert list(Source.objects.values_list("name", flat=True)) == ["shop"]


def test_a_rule_and_a_grant_of_what_is_not_reached_hold_up_nothing_else(shop, apply) -> None:
    make_user("bea", "viewer")
    away = """
        [[source]]
        name = "away"
        dsn = "host=127.0.0.1 port=1 dbname=nowhere user=nobody"
        [[mask]]
        source = "away"
        column = "email"
        [[grant]]
        user = "bea"
        source = "away"
    """
    status, said = apply(away + of_shop(shop), "--yes")

    assert status == 1
    assert said.count("not tried, since its source is not here") >= 2
    assert said.splitlines()[-1] == "2 done, 3 not done"
    assert Slot.objects.get().desired == "running"


def test_no_slot_is_made_where_a_mask_rule_could_not_be(shop, apply, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr("replview.management.fleet.planning.add_rule", full)
    status, said = apply(of_shop(shop, further='[[mask]]\ncolumn = "email"'), "--yes")

    assert (status, "not tried, since a mask rule failed" in said) == (1, True)
    assert (slots_of(shop), Slot.objects.count()) == (set(), 0)


def test_a_pattern_of_columns_may_meet_the_key_of_a_table_that_is_not_chosen(shop, apply) -> None:
    shop.run("CREATE TABLE contacts (email text PRIMARY KEY)")
    text = of_shop(shop, 'tables = ["sales.*"]\nexclude_columns = ["*.*.email"]')
    assert apply(text, "--yes")[0] == 0
    assert apply(text, "--yes") == (0, "2 unchanged\n")


def test_a_slot_that_is_adopted_without_a_budget_keeps_none(shop, apply) -> None:
    name = f"{shop.name}_replview"
    shop.run(
        "CREATE PUBLICATION theirs FOR TABLE orders",
        f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')",
    )
    text = of_shop(
        shop,
        'adopt = true\npublications = ["theirs"]\nwal_budget = "none"\nprotect = "record"',
    )
    assert apply(text, "--yes")[0] == 0
    assert Slot.objects.get().wal_budget_bytes is None
    assert apply(text, "--yes") == (0, "2 unchanged\n")


def test_what_is_not_in_the_file_stays_unless_it_is_pruned(shop, apply) -> None:
    apply(of_shop(shop), "--yes")
    assert len(slots_of(shop)) == 1
    empty = of_shop(shop).split("[[source.slot]]")[0]

    status, said = apply(empty, "--yes")
    assert (status, "1 not in the file (left alone" in said) == (0, True)
    assert len(slots_of(shop)) == 1
    status, said = apply(empty, "--check", "--prune")
    assert status == 3
    assert f"SELECT pg_drop_replication_slot('{shop.name}_replview');" in said
    assert apply(empty, "--yes", "--prune")[0] == 0
    assert (slots_of(shop), published(shop)) == (set(), set())
    assert Slot.objects.get().desired == "removing"


def test_an_address_that_is_another_now_is_tried_and_taken(shop, apply) -> None:
    apply(of_shop(shop), "--yes")
    moved = of_shop(shop).replace("host=127.0.0.1", "host=localhost")
    status, said = apply(moved, "--yes", "--trust-host")

    assert status == 0
    assert "host=127.0.0.1" in said.split(" → ")[0]
    assert "the same cluster on the same timeline" in said or "system identifier" in said
    assert "host=localhost" in Source.objects.get().conninfo
    assert apply(moved, "--yes") == (0, "2 unchanged\n")


def test_mask_rules_are_there_before_the_slot_and_applied_twice_the_same(shop, apply) -> None:
    rule = """
        [[mask]]
        source = "shop"
        column = "*email*"
        when = "display"
    """
    text = of_shop(shop, further=rule)
    assert apply(text, "--yes")[0] == 0
    found = MaskRule.objects.get()
    assert (found.source.name, found.column_pattern, found.when) == ("shop", "*email*", "display")
    assert found.created_at < SlotEvent.objects.earliest("at").at
    assert apply(text, "--yes") == (0, "3 unchanged\n")
    # A receiver that runs all the while reads the rules like this.
    kept, email = MaskRules(Slot.objects.get().pk, {}), [NamedColumn("email", "text")]
    kept.read(connection.connection)
    assert kept.of_table("public", "people", email) == {}
    assert apply(text.replace('"display"', '"ingest"'), "--yes")[0] == 0
    changed = MaskRule.objects.get()
    assert (changed.when, changed.created_at) == ("ingest", found.created_at)
    assert kept.read(connection.connection)
    assert kept.of_table("public", "people", email) == {"email": "mask"}


def test_grants_are_declared_too(shop, apply) -> None:
    grant = """
        [[grant]]
        user = "bea"
        source = "shop"
        tables = ["public.* "]
    """
    text = of_shop(shop, further=grant)
    status, said = apply(text, "--yes")
    assert (status, "there is no user bea" in said) == (1, True)

    make_user("bea", "viewer")
    before = Grant.objects.count()
    assert apply(text, "--yes")[0] == 0
    given = Grant.objects.get(user__username="bea")
    assert (given.source.name, given.tables) == ("shop", ["public.*"])
    status, said = apply(text, "--yes")
    assert (status, "to " not in said) == (0, True)
    # Grants of the roles are not in the file, and are left alone.
    assert Grant.objects.count() == before + 1
    assert apply(text.replace("public.*", "sales.*"), "--yes")[0] == 0
    assert Grant.objects.get(user__username="bea").tables == ["sales.*"]


def test_a_password_is_in_no_output_and_not_in_the_store(shop, apply, source_password) -> None:
    _, said = apply(of_shop(shop), "--yes")

    source = Source.objects.get()
    assert (source.password_ref, source.sealed_password) == ("env:FLEET_PASSWORD", "")
    assert source_password not in said + source.conninfo


def test_a_kept_password_goes_to_the_hosts_it_is_for_or_those_that_are_trusted(
    shop, apply, settings
) -> None:
    settings.SOURCE_PASSWORDS = {}
    status, said = apply(of_shop(shop), "--yes")
    assert (status, Source.objects.count()) == (1, 0)
    assert "the password at env:FLEET_PASSWORD is not for 127.0.0.1" in said

    assert apply(of_shop(shop), "--yes", "--trust-host")[0] == 0
    # The password is sent there already, so the file may be applied again.
    assert apply(of_shop(shop), "--yes")[0] == 0


def test_a_file_with_faults_does_nothing(shop, apply) -> None:
    with pytest.raises(CommandError, match="nothing was changed"):
        apply(of_shop(shop, "unknown = 1"), "--yes")
    assert Source.objects.count() == 0


def test_a_kept_password_is_never_to_be_read_by_the_server_a_page_moves_to(
    shop, apply, settings
) -> None:
    apply(of_shop(shop), "--yes")
    source = Source.objects.get()
    settings.SERVES_PAGES = True
    address = f"host=localhost port={shop.server.port} user={shop.server.user} dbname={shop.name}"
    with pytest.raises(DSNError, match="is not for localhost"):
        move_source(source, address, by="alice", keep_password=True)
    settings.SOURCE_PASSWORDS = {"env:FLEET_PASSWORD": ["localhost"]}
    move_source(source, address, by="alice", keep_password=True)

    source.refresh_from_db()
    assert source.password_ref == "env:FLEET_PASSWORD"
    # Not of the trial alone: a server may ask otherwise later.
    assert "require_auth=scram-sha-256" in source.conninfo
