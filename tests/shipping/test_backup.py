"""The store, backed up while it is written, restored later: what is known again, what is not."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from replview.runtime.servers.server_programs import pg_bin
from tests.support.crash_servers import Receive
from tests.support.crash_stores import CrashStore
from tests.support.received_slots import ReceivedSlot
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

SEAL = """
from replview.store.dsn import set_dsn
from replview.store.models import Source
far = Source(name="far")
set_dsn(far, "postgresql://me:geheim@far.example/shop")
far.save()
"""
#: Checks what an operator would look at first on a restored store.
LOOK = """
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client, override_settings
from replview.store.dsn import full_conninfo
from replview.store.models import Source
from replview.store.secrets import SecretKeyChanged

call_command("migrate", check_unapplied=True, verbosity=0)
client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.create_superuser("restored"))
for path in ("/", "/transactions/", "/relations/", "/readyz"):
    assert client.get(path).status_code == 200, path
far = Source.objects.get(name="far")
assert "password=geheim" in full_conninfo(far)
with override_settings(SECRET_KEY="another one", SECRET_KEY_FALLBACKS=[]):
    try:
        full_conninfo(far)
    except SecretKeyChanged as problem:
        assert "another REPLVIEW_SECRET_KEY" in str(problem)
    else:
        raise AssertionError("unsealed with another key")
"""


@pytest.fixture
def restored(store: CrashStore) -> Iterator[CrashStore]:
    """An empty database beside the store's, for a back-up."""
    found = CrashStore(store.server, f"{store.name}_restored")
    with psycopg.connect(store.server.dsn(), autocommit=True) as session:
        # Create it from template0, as docs/deploy.md says: the dump brings everything.
        session.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(found.name))
        )
    yield found
    found.remove()


def dump(store: CrashStore, file: Path) -> None:
    """Back the store up with ``pg_dump``, as docs/deploy.md says."""
    run("pg_dump", "--format=custom", f"--file={file}", store.server.dsn(store.name))


def restore(store: CrashStore, file: Path) -> None:
    """Restore the back-up with ``pg_restore``, as docs/deploy.md says."""
    address = f"--dbname={store.server.dsn(store.name)}"
    run("pg_restore", "--exit-on-error", "--no-owner", address, str(file))


def run(program: str, *words: str) -> None:
    """One of PostgreSQL's programs, to its end."""
    said = subprocess.run([str(pg_bin(18) / program), *words], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")


def everything(store: CrashStore) -> list[dict[str, object]]:
    """Each change with its transaction's place, as text."""
    return store.rows(
        "SELECT t.commit_seq, t.xid, c.* FROM change c "
        "JOIN transaction t ON t.id = c.transaction_id ORDER BY t.commit_seq, c.seq"
    )


@pytest.mark.long
def test_a_restored_store_holds_all_of_its_moment_and_tells_what_came_after(
    source: SourceDatabase,
    receive: Receive,
    store: CrashStore,
    restored: CrashStore,
    tmp_path: Path,
) -> None:
    slot = receive(source)
    source.run("INSERT INTO t VALUES (1, 1, 'before')", "UPDATE t SET n = 2")
    slot.caught_up()
    store.in_django(SEAL)
    dump(store, tmp_path / "store.dump")
    backed_up, checkpoint = everything(store), slot.row()["checkpoint"]

    # The receiver goes on: what follows is confirmed to the source, and not in the back-up.
    source.run("INSERT INTO t VALUES (2, 2, 'after the back-up')")
    slot.caught_up()
    slot.end()
    restore(restored, tmp_path / "store.dump")
    assert everything(restored) == backed_up
    assert len(backed_up) == 2
    restored.in_django(LOOK)

    again = ReceivedSlot(restored, source, slot.name, slot.slot_id, tmp_path)
    try:
        again.start("restored")
        again.streaming("restored")
        source.run("INSERT INTO t VALUES (3, 3, 'after the restoring')")
        again.caught_up()
    finally:
        again.end()

    assert [incarnation["reason"] for incarnation in again.incarnations()] == [
        "created",
        "advanced",
    ]
    [gap] = again.events("gap")
    assert "restored from an older back-up" in gap["message"]
    assert gap["detail"]["from_lsn"] == checkpoint
    assert gap["detail"]["to_lsn"] == again.incarnations()[1]["started"]
    committed = [
        (t["incarnation"], t["commit_seq"], t["inserts"]) for t in again.transactions("committed")
    ]
    assert committed == [(1, 1, 1), (1, 2, 0), (2, 1, 1)]


def test_a_back_up_of_that_very_moment_goes_on_without_a_gap(
    source: SourceDatabase,
    receive: Receive,
    store: CrashStore,
    restored: CrashStore,
    tmp_path: Path,
) -> None:
    slot = receive(source)
    source.run("INSERT INTO t VALUES (1, 1, 'before')")
    slot.caught_up()
    # Stopped first: so it is done for a move of the store.
    slot.end()
    dump(store, tmp_path / "store.dump")
    restore(restored, tmp_path / "store.dump")
    source.run("INSERT INTO t VALUES (2, 2, 'while nobody received')")

    again = ReceivedSlot(restored, source, slot.name, slot.slot_id, tmp_path)
    try:
        again.start("restored")
        again.streaming("restored")
        again.caught_up()
    finally:
        again.end()

    assert len(again.incarnations()) == 1
    assert again.events("gap") == []
    assert [t["commit_seq"] for t in again.transactions("committed")] == [1, 2]
