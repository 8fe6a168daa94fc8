"""One initial migration: a store of the former twenty goes on, a half-migrated one is refused."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.server_programs import pg_bin
from tests.support.copied_clusters import ROOT, copied
from tests.support.crash_stores import CrashStore

#: A store as the former migrations left it: its schema, and which of them it has.
FORMER = (Path(__file__).parent / "former_migrations.sql").read_text()
DATA = """
INSERT INTO source (id, name, conninfo, sealed_password, ephemeral, created_at, problem_code,
    problem_cause, problem_remedy, password_ref, credentials_by)
VALUES (7, 'shop', 'host=db', '', false, now(), '', '', '', '', '');
INSERT INTO slot (id, source_id, name, plugin, publications, options, owned, temporary,
    column_rules, keep_aborted, created_at, desired, epoch, lease_owner, state, state_since,
    problem_code, problem_cause, problem_remedy, transactions_stored, changes_stored, interface,
    outside_writes, bytes_stored, protect, receiver_facts)
VALUES (8, 7, 'replview', 'pgoutput', '{p}', '{}', true, false, '{}', false, now(), 'running', 3,
    '', 'stopped', now(), '', '', '', 1, 1, 'walsender', 0, 10, 'off', '{}');
INSERT INTO slot_incarnation (id, slot_id, number, system_identifier, timeline, started_at,
    reason, commit_seq)
VALUES (9, 8, 1, '1', 1, now(), 'new', 1);
INSERT INTO transaction (id, incarnation_id, commit_seq, state, streamed, inserts, updates,
    deletes, truncates, messages, size_bytes, relations, aborted_changes, received_at, stored_at)
VALUES (20001, 9, 1, 'committed', false, 1, 0, 0, 0, 0, 10, '{}', 0, now(), now());
CREATE TABLE change_1 PARTITION OF change FOR VALUES FROM (0) TO (1000000);
INSERT INTO change (transaction_id, seq, lsn, op, new) VALUES (20001, 0, '0/10', 'I', '{"a": "1"}');
CREATE TABLE samples_1 PARTITION OF slot_sample DEFAULT;
INSERT INTO slot_sample (slot_id, sampled_at, retained_wal_bytes) VALUES (8, now(), 4096);
INSERT INTO export (id, slot_name, name, slice, words, target, anywhere, spark, requested_by,
    requested_how, requested_at, state, attempts, worker, problem_cause, problem_remedy, log_path)
VALUES (5, 'shop/replview', 'nightly', '{}', '{}', '/data', false, '', 'eva', 'page', now(),
    'requested', 0, '', '', '', '');
INSERT INTO auth_user (id, password, is_superuser, username, first_name, last_name, email, is_staff,
    is_active, date_joined)
VALUES (3, '', false, 'eva', '', '', '', false, true, now());
INSERT INTO source_draft (id, user_id, kind, state, conninfo, sealed_password, password_ref,
    answers, progress, undo, stop_wanted, problem_code, problem_cause, problem_remedy, created_at,
    touched_at, heartbeat_at)
VALUES (4, 3, 'record', 'working', 'host=db', '', '', '{}', '[]', '[]', false, '', '', '', now(),
    now(), now());
SELECT access_record_add('viewed_rows', 1, 'eva', 'page', '', '', '', '', 7, '{}', '{}', '{}');
"""
#: Jobs as the release before asks for them, which may still do so while the migrations run.
JOBS = """
INSERT INTO baseline (slot_id, schema, "table", state, requested_at, requested_by, rows,
    problem_code, problem_cause, problem_remedy)
VALUES (8, 'public', 'orders', 'requested', now(), 'eva', 0, '', '', '');
INSERT INTO slot_peek (source_id, slot_name, options, max_changes, max_seconds, requested_at,
    requested_by, state, problem_code, problem_cause, problem_remedy)
VALUES (7, 'theirs', '{}', 10, 5, now(), 'eva', 'requested', '', '', '');
INSERT INTO history_job (job, root, anywhere, words, requested_by, requested_at, state, attempts,
    worker, output, problem_cause, problem_remedy, log_path)
VALUES ('as-of', '/data', false, '{}', 'eva', now(), 'waiting', 0, '', '', '', '', '');
INSERT INTO erasure (slot_id, slot_name, tables, keys, columns, digests, names_actor, reason,
    requested_by, requested_how, requested_at, confirmed_by, state, attempts, step, sealed_plan,
    found, erased, roots, problem_cause, problem_remedy)
VALUES (8, 'shop/replview', '[]', 1, '[]', '[]', false, '', 'eva', 'page', now(), '', 'looking', 0,
    '', '', '{}', '{}', '[]', '', '');
"""
#: Queries whose rows live on, and their result before and after the migration.
LIVES_ON = {
    "SELECT name, conninfo FROM source": [{"name": "shop", "conninfo": "host=db"}],
    "SELECT name, epoch, publications FROM slot": [
        {"name": "replview", "epoch": 3, "publications": ["p"]}
    ],
    "SELECT id, commit_seq, state FROM transaction": [
        {"id": 20001, "commit_seq": 1, "state": "committed"}
    ],
    "SELECT seq, new FROM change": [{"seq": 0, "new": {"a": "1"}}],
    "SELECT retained_wal_bytes FROM slot_sample": [{"retained_wal_bytes": 4096}],
    "SELECT name, state FROM export": [{"name": "nightly", "state": "requested"}],
    "SELECT state, requested_by FROM baseline": [{"state": "requested", "requested_by": "eva"}],
    "SELECT state, requested_by FROM slot_peek": [{"state": "requested", "requested_by": "eva"}],
    "SELECT state, attempts FROM history_job": [{"state": "waiting", "attempts": 0}],
    "SELECT state, attempts FROM erasure": [{"state": "looking", "attempts": 0}],
    "SELECT state, conninfo FROM source_draft": [{"state": "working", "conninfo": "host=db"}],
    "SELECT action, user_name, source_name FROM access_record": [
        {"action": "viewed_rows", "user_name": "eva", "source_name": "shop"}
    ],
}
#: Tables that are made as time goes on: months, and the partitions of the data above.
_IN_TIME = re.compile(r"\b(access_record_\d{6}|change_1|samples_1)")


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A server with a fresh store's template."""
    with copied(store=True) as server:
        yield server


@pytest.fixture
def former(server: EmbeddedPostgres) -> Iterator[CrashStore]:
    """A store of the release before, with rows."""
    server.create_database("former_store")
    store = CrashStore(server, "former_store")
    with store.connect() as session:
        session.execute(FORMER.encode())
        session.execute("SET search_path = public; " + DATA + JOBS)
    yield store
    store.remove()


def manage(store: CrashStore, *words: str) -> "subprocess.CompletedProcess[str]":
    """One of Django's commands, on this store."""
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT, env=store.environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def schema(store: CrashStore) -> str:
    """The statements that pg_dump writes of it."""
    dump = subprocess.run(
        [pg_bin() / "pg_dump", "--schema-only", "--no-owner", store.server.dsn(store.name)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return "\n".join(line for line in dump.splitlines() if not line.startswith(("--", "\\")))


def statements(dump: str) -> list[str]:
    """Sorted, and each table's columns too: they were added in another order than they stand in."""
    found = re.split(r";\n\s*\n", dump)
    return sorted(_sorted_columns(one.strip()) for one in found if not _IN_TIME.search(one))


def _sorted_columns(statement: str) -> str:
    made = re.match(r"(CREATE TABLE \S+ )\((.*)\n\)(.*)$", statement, re.DOTALL)
    if made is None:
        return statement
    columns = sorted(line.strip().rstrip(",") for line in made[2].splitlines())
    return "\n".join([made[1], *columns, made[3]])


def test_a_store_of_the_former_migrations_goes_on_with_its_rows(former: CrashStore) -> None:
    for query, rows in LIVES_ON.items():
        assert former.rows(query) == rows
    migrated = manage(former, "migrate", "--skip-checks", "--verbosity", "1")

    assert (migrated.returncode, migrated.stderr) == (0, "")
    for query, rows in LIVES_ON.items():
        assert former.rows(query) == rows
    former.run(JOBS)
    assert former.rows("SELECT attempts FROM baseline ORDER BY id") == 2 * [{"attempts": 0}]
    unapplied = manage(former, "migrate", "--check", "--skip-checks")
    assert unapplied.returncode == 0, unapplied.stdout
    changes = manage(former, "makemigrations", "--check", "--dry-run")
    assert changes.returncode == 0, changes.stdout


def test_an_upgraded_store_and_a_fresh_one_have_the_same_tables(
    former: CrashStore, server: EmbeddedPostgres
) -> None:
    assert manage(former, "migrate", "--skip-checks", "--verbosity", "0").returncode == 0
    fresh = CrashStore.fresh(server)
    # PostgreSQL writes some conditions in other words once they were dumped, as the former's were.
    server.create_database("fresh_again")
    again = CrashStore(server, "fresh_again")
    again.run(schema(fresh).encode())

    assert statements(schema(former)) == statements(schema(again))


def test_a_store_with_some_of_the_former_migrations_is_refused(former: CrashStore) -> None:
    former.run("DELETE FROM django_migrations WHERE app = 'store' AND name > '0013'")
    migrated = manage(former, "migrate", "--skip-checks")

    assert migrated.returncode == 1
    assert "only some of the tables of the release before" in migrated.stderr
    assert "up to 0012_access_record" in migrated.stderr
    assert "run 'replview migrate' of that release first" in migrated.stderr
    assert former.rows("SELECT name FROM export") == [{"name": "nightly"}]
