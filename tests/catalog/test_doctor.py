"""Each finding of doctor, provoked on a real server."""

import dataclasses
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from psycopg.conninfo import make_conninfo

from replview.catalog.connections import connect
from replview.catalog.doctor import examine
from replview.catalog.doctor_checks import Finding, Grade, blocks, check_version
from replview.catalog.doctor_plugins import check_plugins
from replview.catalog.plan.new_slot import make_plan
from replview.catalog.plan.slot_request import SlotRequest
from replview.catalog.problems import SourceProblem
from replview.catalog.server import read_server_facts
from replview.catalog.slots import read_slots
from replview.management.commands.doctor import lines_of
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_programs import debian_postgres15
from replview.text.problem import split_remedy
from tests.support.copied_clusters import copied
from tests.support.waiting import wait_for


def by_code(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.code: finding for finding in findings}


@pytest.fixture(scope="module")
def poor_cluster() -> Iterator[EmbeddedPostgres]:
    """A server where nearly everything is missing."""
    settings = {
        "wal_level": "replica",
        "max_replication_slots": 0,
        "max_wal_senders": 0,
        "max_prepared_transactions": 0,
        "wal_sender_timeout": 0,
        "max_slot_wal_keep_size": "64MB",
    }
    with EmbeddedPostgres.temporary(settings=settings, encoding="SQL_ASCII") as server:
        yield server


def test_a_good_source_passes_on_every_version(any_source) -> None:
    any_source.run("CREATE TABLE t (id int PRIMARY KEY)")

    findings = examine(any_source.dsn)

    assert not blocks(findings)
    codes = by_code(findings)
    assert codes["replication_connection"].grade is Grade.OK
    assert codes["identities"].grade is Grade.OK
    limit = "max_slot_wal_keep_size = '10GB'" if any_source.version >= 13 else "upgrade to 13"
    assert limit in codes["no_wal_limit"].remedy


def test_a_poor_server_is_told_setting_by_setting(poor_cluster) -> None:
    findings = by_code(examine(poor_cluster.dsn()))

    assert findings["wal_level"].grade is Grade.PROBLEM
    assert findings["wal_level"].remedy.startswith("ALTER SYSTEM SET wal_level = 'logical'")
    assert "max_replication_slots = 4" in findings["no_free_slot"].remedy
    assert "max_wal_senders = " in findings["no_free_walsender"].remedy
    assert findings["sql_ascii"].grade is Grade.WARNING
    assert findings["wal_limit"].message == "slots retain at most 64\xa0MB of WAL"
    assert {"no_two_phase", "wal_sender_timeout"} <= findings.keys()


def test_names_tables_without_identity_and_what_mends_each(shop) -> None:
    findings = by_code(examine(shop.dsn))

    unusable = findings["unusable_tables"]
    assert "public.audit, public.silent" in unusable.message
    assert 'ALTER TABLE "public"."silent" REPLICA IDENTITY DEFAULT' in unusable.remedy
    assert 'ALTER TABLE "public"."audit" ADD PRIMARY KEY' in unusable.remedy
    assert "public.whole" in findings["full_tables"].message


def test_the_remedies_for_identities_are_valid_sql(shop) -> None:
    for statement in by_code(examine(shop.dsn))["unusable_tables"].remedy.split("; "):
        shop.run(statement.split(", or ")[-1])

    assert by_code(examine(shop.dsn))["identities"].grade is Grade.OK


def test_a_partition_without_identity_spoils_the_whole(shop) -> None:
    shop.run("ALTER TABLE events_2026 REPLICA IDENTITY NOTHING")

    finding = by_code(examine(shop.dsn))["unusable_partition"]

    assert "public.events_2026" in finding.message
    assert finding.remedy == 'ALTER TABLE "public"."events_2026" REPLICA IDENTITY DEFAULT'


def test_a_publication_that_breaks_updates_is_named(shop) -> None:
    shop.run("CREATE PUBLICATION everything FOR ALL TABLES")

    findings = by_code(examine(shop.dsn))

    assert "public.audit" in findings["breaking_publication"].message
    assert findings["all_tables"].grade is Grade.WARNING
    shop.run(findings["breaking_publication"].remedy)
    assert "breaking_publication" not in by_code(examine(shop.dsn))


def test_open_and_prepared_transactions_stand_in_the_way(shop) -> None:
    shop.run("BEGIN; INSERT INTO orders VALUES (1); PREPARE TRANSACTION 'it''s late'")

    finding = by_code(examine(shop.dsn))["open_transactions"]

    assert "for 1 open transaction: prepared transaction it's late" in finding.message
    # The page offers one of the two statements for copying.
    assert split_remedy(finding.remedy).run == "COMMIT PREPARED 'it''s late';"
    shop.run(finding.remedy.split(" or ")[1].split(" (in")[0])
    assert by_code(examine(shop.dsn))["open_transactions"].grade is Grade.OK


def test_a_slot_without_reader_holds_wal(shop) -> None:
    shop.run("SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')")
    shop.run("INSERT INTO orders VALUES (1)")

    found = [item for item in examine(shop.dsn) if item.code == "inactive_slot"]

    finding = next(item for item in found if "slot forgotten" in item.message)
    shop.run(finding.remedy.split("needs it: ")[1])
    assert not any("slot forgotten" in item.message for item in examine(shop.dsn))


def test_a_role_without_replication_learns_what_to_grant(shop, make_role) -> None:
    dsn = make_role("plain_reader")

    findings = by_code(examine(dsn))

    finding = findings["no_replication_privilege"]
    assert finding.grade is Grade.PROBLEM
    assert 'ALTER ROLE "plain_reader" REPLICATION' in finding.remedy
    assert "may_not_publish" in findings
    assert "public.orders" in findings["not_owner"].message
    shop.run('ALTER ROLE "plain_reader" REPLICATION')
    assert not blocks(examine(dsn))


def test_replication_refused_by_pg_hba(shop, make_role) -> None:
    dsn = make_role("outsider", "REPLICATION")
    rules = shop.server.data_dir.resolve() / "pg_hba.conf"
    kept = rules.read_text()
    try:
        rules.write_text(f"host {shop.name} outsider 127.0.0.1/32 reject\n{kept}")
        shop.run("SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")
        (finding,) = examine(dsn)
    finally:
        rules.write_text(kept)
        shop.run("SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")

    assert finding.code == "hba_refused"
    assert f"host {shop.name} outsider" in finding.remedy


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"password": "falsch"}, "wrong_password"),
        ({"dbname": "nowhere"}, "no_such_database"),
        ({"port": "1"}, "unreachable"),
        ({"host": "no-such-host.invalid"}, "unknown_host"),
        ({"host": "a..b"}, "unknown_host"),
        ({"host": "."}, "unknown_host"),
        ({"host": "a" * 64 + ".invalid"}, "unknown_host"),
        ({"sslmode": "require"}, "tls"),
        ({"service": "no_such_service"}, "unknown_service"),
    ],
)
def test_what_keeps_us_out_is_named_without_the_password(source, change, code) -> None:
    (finding,) = examine(make_conninfo(source.dsn, **change))

    assert (finding.grade, finding.code) == (Grade.PROBLEM, code)
    assert source.server.password not in str(finding)
    assert "falsch" not in str(finding)
    if code == "no_such_database":
        assert "nowhere" in finding.message


def test_a_dsn_that_cannot_be_read_is_not_repeated() -> None:
    (finding,) = examine("host=x password='geheim")

    assert finding.code == "bad_dsn"
    assert "geheim" not in str(finding)


def test_the_store_in_the_same_cluster(source) -> None:
    with source.connect() as connection:
        (identifier,) = connection.execute(
            "SELECT system_identifier FROM pg_control_system()"
        ).fetchone()

    codes = by_code(examine(source.dsn, store_system_identifier=str(identifier)))

    assert codes["same_cluster"].grade is Grade.WARNING
    assert "same_cluster" not in by_code(examine(source.dsn, store_system_identifier="1"))


@pytest.mark.parametrize(
    ("version", "grade"),
    [
        (90624, Grade.PROBLEM),
        (110022, Grade.WARNING),
        (130020, Grade.NOTE),
        (140000, Grade.NOTE),
        (150000, Grade.OK),
    ],
)
def test_old_versions_are_warned_of_and_older_ones_refused(source, version, grade) -> None:
    with connect(source.dsn) as connection:
        facts = read_server_facts(connection)

    (finding,) = check_version(dataclasses.replace(facts, version=version))

    assert finding.grade is grade


def test_a_list_of_plugins_without_ours_is_told(source) -> None:
    source.run("SELECT pg_create_logical_replication_slot('old', 'pgoutput')")
    with connect(source.dsn) as connection:
        facts, [slot] = read_server_facts(connection), read_slots(connection)
    old = dataclasses.replace(slot, plugin="wal2json")

    assert list(check_plugins(dataclasses.replace(facts, output_plugins=None), [old])) == []
    allowed = dataclasses.replace(facts, output_plugins=("test_decoding",))
    ours, theirs = check_plugins(allowed, [slot, old])

    assert (ours.code, ours.grade) == ("plugin_refused", Grade.PROBLEM)
    assert "output_plugin_libraries = 'test_decoding', 'pgoutput';" in ours.remedy
    assert (theirs.code, theirs.grade) == ("slots_refused", Grade.WARNING)
    assert "old (wal2json)" in theirs.message


def test_the_remedy_for_a_refused_plugin_is_valid_sql(source_cluster_15) -> None:
    """Debian's 15 has the list."""
    with connect(source_cluster_15.dsn(), read_only=False) as connection:
        if read_server_facts(connection).output_plugins is None:
            pytest.skip("this PostgreSQL has no list of plugins")
        connection.execute("ALTER SYSTEM SET output_plugin_libraries = test_decoding, 'a, \"b'")
        try:
            reloaded(connection, ("test_decoding", 'a, "b'))
            finding = by_code(examine(source_cluster_15.dsn()))["plugin_refused"]
            connection.execute(finding.remedy.partition(";")[0].encode())
            reloaded(connection, ("test_decoding", 'a, "b', "pgoutput"))
            assert "plugin_refused" not in by_code(examine(source_cluster_15.dsn()))
        finally:
            connection.execute("ALTER SYSTEM RESET output_plugin_libraries")
            connection.execute("SELECT pg_reload_conf()")


def test_whether_a_plugin_is_refused_is_unknown_to_a_role_that_may_not_read_the_list(
    source_cluster_15,
) -> None:
    """A plain role is shown neither the setting nor that there is one. Debian's 15 has it."""
    dsn = make_conninfo(source_cluster_15.dsn(), user="plain_doctor", password="plain")
    with connect(source_cluster_15.dsn(), read_only=False) as connection:
        if read_server_facts(connection).output_plugins is None:
            pytest.skip("this PostgreSQL has no list of plugins")
        connection.execute("CREATE ROLE plain_doctor LOGIN REPLICATION PASSWORD 'plain'")
        connection.execute("ALTER SYSTEM SET output_plugin_libraries = test_decoding")
        try:
            reloaded(connection, ("test_decoding",))
            findings = examine(dsn)
            finding = by_code(findings)["plugins_unknown"]
            assert lines_of(findings)[-1].startswith("\nwhether it can be replicated is unknown")
            connection.execute(finding.remedy.encode())
            findings = examine(dsn)
            assert "plugins_unknown" not in by_code(findings)
            assert by_code(findings)["plugin_refused"].grade is Grade.PROBLEM
            assert "to fix before this source can be replicated" in lines_of(findings)[-1]
        finally:
            connection.execute("ALTER SYSTEM RESET output_plugin_libraries")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP ROLE plain_doctor")


def reloaded(connection, wanted: tuple[str, ...]) -> None:
    """Wait until the server lets these plugins be used."""
    connection.execute("SELECT pg_reload_conf()")
    wait_for(lambda: read_server_facts(connection).output_plugins == wanted, 10, "the list")


@pytest.mark.slow
@pytest.mark.parametrize(("version", "grade"), [(15, Grade.PROBLEM), (18, Grade.WARNING)])
def test_a_standby(version, grade) -> None:
    if version == 15 and debian_postgres15() is None:
        pytest.skip("PostgreSQL 15 is not installed")
    with copied(version) as server:
        server.stop()
        signal = server.data_dir.resolve() / "standby.signal"
        signal.touch()
        server.start()
        finding = by_code(examine(server.dsn()))["standby"]
        with connect(server.dsn()) as connection, pytest.raises(SourceProblem) as caught:
            make_plan(connection, SlotRequest(slot_name="shop"))
        server.stop(mode="immediate")

    assert finding.grade is grade
    assert caught.value.code == "standby"


class Pooler(socketserver.BaseRequestHandler):
    """Passes everything on, but refuses replication as PgBouncer does."""

    server_port = 0

    def handle(self) -> None:
        startup = self.request.recv(4096)
        if b"\0replication\0" in startup:
            fields = b"SFATAL\0C08P01\0Munsupported startup parameter: replication\0\0"
            self.request.sendall(b"E" + struct.pack("!i", 4 + len(fields)) + fields)
            return
        with socket.create_connection(("127.0.0.1", self.server_port)) as server:
            server.sendall(startup)
            back = threading.Thread(target=self._pass_on, args=[server, self.request])
            back.start()
            self._pass_on(self.request, server)
            back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_a_pooler_in_between(source, monkeypatch) -> None:
    monkeypatch.setattr(Pooler, "server_port", source.server.port)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Pooler) as pooler:
        threading.Thread(target=pooler.serve_forever, daemon=True).start()
        port = str(pooler.server_address[1])
        options = {"host": "127.0.0.1", "port": port, "sslmode": "disable"}
        findings = by_code(examine(make_conninfo(source.dsn, **options, gssencmode="disable")))
        pooler.shutdown()

    assert findings["pooler"].grade is Grade.PROBLEM
    assert "address of the server itself" in findings["pooler"].remedy
