"""Migrating a full store while others use it: nobody waits for long, and nothing is rewritten."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test import override_settings

from tests.support.copied_clusters import ROOT, copied
from tests.support.crash_stores import CrashStore
from tests.support.waiting import wait_for

#: An app that stands for a release to come: it has migrations of the large tables.
NEXT_RELEASE = "tests.store.next_release"
INITIAL = ("store", "0001_squashed_0020_archive_homes")
_beside = import_module(f"{NEXT_RELEASE}.migrations.0002_index_beside")
_row_history = import_module("replview.store.migrations.0028_row_history_from_its_index")

#: The tables with a row for each change, transaction or sample, which are large in a full store.
_BIG = r'"?(?P<table>change|transaction|transition|slot_sample|slot_event)"?'
_ALTER = rf"ALTER TABLE {_BIG} .*"
#: Patterns of statements that read or rewrite a whole table while they block others, each with its
#: harmless form.
_LONG = {
    "builds an index, and writers wait": (
        rf"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY).*? ON {_BIG}(?!\w)"
    ),
    "rewrites a column": rf"{_ALTER}ALTER COLUMN \S+ (SET DATA )?TYPE\b",
    "reads every row to be sure": rf"{_ALTER}SET NOT NULL",
    "checks every row": rf"{_ALTER}ADD (CONSTRAINT|CHECK|UNIQUE|FOREIGN)(?!.*NOT VALID)",
    "computes every row's value": rf"{_ALTER}ADD COLUMN .*(DEFAULT [^;,]*\(|GENERATED|serial)",
    # Few events are of a slot that was dropped at its budget, or of a source that was renamed.
    "writes every row": (
        rf"(UPDATE|DELETE FROM) {_BIG}(?!\w)"
        r"(?!.* WHERE (kind = 'budget'|detail->>'act' = 'rename'))"
    ),
    "moves the table": rf"{_ALTER}SET (TABLESPACE|LOGGED|UNLOGGED|ACCESS METHOD)",
}


def what_takes_long(sql: str) -> list[str]:
    """Return the statements of a migration that would block others on a large, existing table."""
    lines = (re.sub(r"--.*", "", line) for line in sql.splitlines())
    statements = re.sub(r"\s+", " ", " ".join(lines)).split(";")
    made = set(re.findall(r'CREATE TABLE "?(\w+)', sql))
    return [
        f"{why}: {statement.strip()}"
        for statement in statements
        for why, pattern in _LONG.items()
        if (found := re.search(pattern, statement, re.IGNORECASE)) and found["table"] not in made
    ]


@pytest.mark.parametrize(
    "sql",
    [
        'CREATE INDEX "i" ON "transaction" ("actor");',
        "ALTER TABLE change\n    ALTER COLUMN seq TYPE bigint;",
        'ALTER TABLE "slot_sample" ADD COLUMN "x" integer NOT NULL DEFAULT (random());',
        'ALTER TABLE "transaction" ADD CONSTRAINT "c" CHECK (x > 0);',
        'UPDATE "transaction" SET actor = NULL;',
    ],
)
def test_a_step_that_takes_long_is_recognised(sql: str) -> None:
    assert len(what_takes_long(sql)) == 1


@pytest.mark.parametrize(
    "sql",
    [
        'CREATE INDEX CONCURRENTLY "i" ON "transaction" ("actor");',
        'ALTER TABLE "slot_sample" ADD COLUMN "x" integer NULL;',
        "ALTER TABLE \"slot_sample\" ADD COLUMN x boolean DEFAULT false NOT NULL;",
        'CREATE INDEX "i" ON "transaction_note" ("id");',
        "UPDATE slot_event SET detail = '{}' WHERE kind = 'budget';",
    ],
)  # fmt: skip
def test_a_step_that_takes_no_time_is_not(sql: str) -> None:
    assert what_takes_long(sql) == []


@pytest.mark.django_db
@override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, NEXT_RELEASE])
def test_no_migration_after_the_initial_one_reads_or_rewrites_a_big_table() -> None:
    graph = MigrationLoader(connection).graph
    plan = graph.forwards_plan(graph.leaf_nodes("next_release")[0])
    plan += [key for key in graph.forwards_plan(graph.leaf_nodes("store")[0]) if key not in plan]
    later = [key for key in plan if key[0] in ("store", "next_release") and key != INITIAL]
    others = [key for key in graph.leaf_nodes() if key[0] not in ("store", "next_release")]
    state = graph.make_state(nodes=[INITIAL, *others], at_end=True)
    slow = {}
    for key in later:
        migration = graph.nodes[key]
        with connection.schema_editor(collect_sql=True, atomic=migration.atomic) as editor:
            state = migration.apply(state, editor, collect_sql=True)
        if found := what_takes_long("\n".join(editor.collected_sql)):
            slow[key[1]] = found
    assert later
    assert slow == {}


ROW = """
INSERT INTO transaction (id, incarnation_id, state, streamed, inserts, updates, deletes, truncates,
    messages, size_bytes, relations, aborted_changes, received_at, stored_at)
VALUES (nextval('ids'), 1, 'committed', false, 1, 0, 0, 0, 0, 100, '{}', 0, now(), now())
"""
SAMPLE = "INSERT INTO slot_sample (slot_id, sampled_at) VALUES (nextval('ids'), now())"
LOCK_SECONDS = 0.3


@pytest.fixture
def old_store() -> Iterator[CrashStore]:
    """A store with the tables of this release, and a few rows."""
    with copied(store=True) as server:
        store = CrashStore.fresh(server)
        store.run("CREATE SEQUENCE ids")
        store.run("CREATE TABLE samples PARTITION OF slot_sample DEFAULT")
        store.run(ROW)
        yield store


@contextmanager
def migrating(store: CrashStore, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """``replview migrate`` of the release to come, running."""
    command = [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity", "0"]
    patience = ["--lock-seconds", str(LOCK_SECONDS)]
    with subprocess.Popen(
        [*command, *patience, *words],
        cwd=ROOT,
        env={**store.environment, "DJANGO_SETTINGS_MODULE": f"{NEXT_RELEASE}.settings"},
    ) as process:
        yield process
        process.kill()


@contextmanager
def writing(store: CrashStore) -> Iterator[list[float]]:
    """A writer beside: how long each of its inserts took."""
    took: list[float] = []
    over = threading.Event()

    def write() -> None:
        with store.connect() as session:
            while not over.wait(0.01):
                for statement in (ROW, SAMPLE):
                    began = time.monotonic()
                    session.execute(statement)
                    took.append(time.monotonic() - began)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join(30)


def waits(store: CrashStore) -> bool:
    """Return True if the migration waits for a lock now."""
    query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
    return bool(store.rows(query, ["ALTER TABLE%"]))


@pytest.mark.slow
def test_a_long_query_holds_up_the_migration_and_nobody_else(old_store: CrashStore) -> None:
    with old_store.connect() as reader:
        reader.execute("BEGIN; SELECT count(*) FROM slot_sample")
        with writing(old_store) as took, migrating(old_store) as process:
            wait_for(lambda: waits(old_store), 60)
            # Queueing in the ordinary way, it would have every writer wait for the reader.
            for _ in range(3):
                written = len(took)
                wait_for(lambda: waits(old_store), 60)
                wait_for(lambda written=written: len(took) > written + 20, 60)
            assert process.poll() is None
            reader.execute("COMMIT")
            assert process.wait(120) == 0
    assert len(took) > 60
    indexes = old_store.rows(
        "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE c.relname LIKE 'transaction\\_%%'"
    )
    assert _beside.INDEX.name in {row["relname"] for row in indexes}
    assert all(row["indisvalid"] for row in indexes)
    assert old_store.rows("SELECT count(*) AS n FROM transaction")[0]["n"] == 1 + len(took) // 2


@pytest.mark.django_db(transaction=True)
def test_an_index_whose_building_was_cut_short_is_built_anew() -> None:
    name = _beside.INDEX.name
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
    with connection.cursor() as cursor:
        try:
            for _ in range(2):
                with connection.schema_editor(atomic=False) as editor:
                    _beside.build(apps, editor)
                cursor.execute(valid, [name])
                assert cursor.fetchone() == (True,)
                cursor.execute(
                    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(%s)",
                    [name],
                )
        finally:
            cursor.execute(f'DROP INDEX IF EXISTS "{name}"')


_FORMER_INDEX = """
    DROP INDEX change_row_history;
    CREATE INDEX change_row_history ON change (relation_id, key_hash, lsn, seq);
    CREATE TABLE change_1 PARTITION OF change FOR VALUES FROM (1) TO (2);
    CREATE TABLE change_2 PARTITION OF change FOR VALUES FROM (2) TO (3);
    CREATE INDEX change_row_history_new ON ONLY change
        (relation_id, key_hash, lsn, seq) INCLUDE (transaction_id, op);
    CREATE INDEX change_1_row_history ON change_1 (seq);
    UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'change_1_row_history'::regclass;
    CREATE TABLE change_3 PARTITION OF change FOR VALUES FROM (3) TO (4)
"""
_INDEXES = """
    SELECT x.indrelid::regclass::text FROM pg_index x
    WHERE pg_get_indexdef(indexrelid) LIKE '%%(relation_id, key_hash, lsn, seq)%%'
      AND indisvalid AND (indnatts = 6) = %s
"""


@pytest.mark.django_db(transaction=True)
def test_the_index_of_row_history_is_replaced_though_it_was_cut_short() -> None:
    with connection.cursor() as cursor:
        try:
            cursor.execute(_FORMER_INDEX)
            for _ in range(2):
                with connection.schema_editor(atomic=False) as editor:
                    _row_history.replace(apps, editor)
            cursor.execute(_INDEXES, [False])
            assert cursor.fetchall() == []
            cursor.execute(_INDEXES, [True])
            found = {name for (name,) in cursor.fetchall()}
            assert found >= {"change", "change_1", "change_2", "change_3"}
        finally:
            cursor.execute("DROP TABLE IF EXISTS change_1, change_2, change_3")
