"""Changes as SQL and undone as SQL, run on a real server: the tables are the same, row for row."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from replview.access.visibility import reading_session
from replview.store.read.changes.as_sql import change_as_sql, undo_sql, undo_transaction
from replview.store.read.changes.of_transaction import first_changes_whole
from replview.store.read.row_history.before_images import before_images
from replview.store.read.rows import ChangeRow
from replview.store.read.sql_text import KEY_WORDS, identifier, literal, string
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

#: Every kind of value that could go wrong on its way through text.
COLUMNS = """
    n numeric(20,6), i2 smallint, i8 bigint, f4 real, f8 double precision, b boolean,
    t text, v varchar(40), c char(6), nm name, by bytea, ts timestamp, tz timestamptz, d date,
    tm time, tmz timetz, iv interval, u uuid, j json, jb jsonb, ip inet, mac macaddr,
    bi bit(4), vb bit varying, ints integer[], texts text[], docs jsonb[], rng int4range,
    mr tsmultirange, pt point, bx box, tq tsquery, m mood, dom positive, co pair,
    "select" text, "Weird ""name""
in two lines" text, money money
"""
FIRST = """
    12.500000, -3, -9223372036854775808, 0.1, 1e-300, true, E'it''s \\\\ a "text"\\nwith lines',
    'ünï', 'ab', 'a name', '\\xdeadbeef00', '2026-11-20 07:57:11.842', '2026-11-20 07:57:11.842+01',
    '2026-11-20', '07:57', '07:57+02', '1 mon -2 days 03:04',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    '{"b": 1, "a":  null, "a": 2}', '{"deep": ["\\\\ \\" ''", null]}', '10.0.0.1/8',
    '08:00:2b:01:02:03', B'1010', B'110', '{1,NULL,3}', '{"a,b","c\\"d",NULL,""}',
    ARRAY['{"a": 1}'::jsonb], '[1,5)', '{[2026-01-01,2026-01-02)}', '(1.5,-2)', '((0,0),(1,1))',
    'fat & rat', 'sad', 7, ROW(1, 'x, "y"'), 'key word', 'strange', 3.14
"""
TABLES = f"""
    CREATE TYPE mood AS ENUM ('sad', 'it''s fine');
    CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
    CREATE TYPE pair AS (a integer, b text);
    CREATE TABLE keyed (id integer PRIMARY KEY, {COLUMNS});
    CREATE TABLE whole (id integer PRIMARY KEY, {COLUMNS});
    ALTER TABLE whole REPLICA IDENTITY FULL;
    CREATE TABLE keyless (id integer, {COLUMNS});
    ALTER TABLE keyless REPLICA IDENTITY FULL;
    CREATE TABLE two_keys (a text, b mood, note text, PRIMARY KEY (a, b));
    CREATE TABLE counted (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text,
                          twice text GENERATED ALWAYS AS (note || note) STORED);
"""
NAMES = ("keyed", "whole", "keyless", "two_keys", "counted")
INSERTS = [
    *(f"INSERT INTO {t} VALUES ({n}, {FIRST})" for t in NAMES[:2] for n in (1, 2, 3)),
    *(f"INSERT INTO keyless VALUES ({n}, {FIRST})" for n in (1, 2, 2)),
    "INSERT INTO keyed (id) VALUES (9)",
    "INSERT INTO keyless (id, t) VALUES (9, ''), (9, ''), (9, NULL), (9, 'null')",
    "INSERT INTO two_keys VALUES ('a''\\', 'sad', 'x'), ('', 'it''s fine', NULL)",
    "INSERT INTO counted (note) VALUES ('first'), ('second')",
]  # fmt: skip
#: One transaction's worth of everything that can be taken back.
CHANGES = [
    *(f"UPDATE {t} SET t = '', v = NULL, j = '[]', f4 = 'NaN', pt = '(3,4)',"
      " m = 'it''s fine', co = ROW(NULL, ''), docs = '{}', \"select\" = E'\\\\' WHERE id = 1"
      for t in NAMES[:3]),
    *(f"UPDATE {t} SET id = 77 WHERE id = 2 AND v IS NOT NULL" for t in NAMES[:2]),
    "DELETE FROM keyed WHERE id IN (3, 9)",
    "DELETE FROM whole WHERE id = 3",
    "DELETE FROM keyless WHERE ctid = (SELECT max(ctid) FROM keyless WHERE t = '')",
    "INSERT INTO keyless (id, t) VALUES (9, '')",
    "UPDATE two_keys SET a = 'moved', b = 'it''s fine' WHERE a LIKE 'a%'",
    "UPDATE two_keys SET note = 'y' WHERE a = ''",
    "DELETE FROM counted WHERE note = 'first'",
    "UPDATE counted SET note = 'third' WHERE note = 'second'",
]  # fmt: skip


def contents(source: SourceDatabase) -> dict[str, list[Any]]:
    """Every table as text, in an order that does not depend on where its rows lie."""
    found = {}
    with source.connect() as connection:
        for name in NAMES:
            sql = f'SELECT row_::text FROM {name} row_ ORDER BY row_::text COLLATE "C"'
            found[name] = connection.execute(sql).fetchall()  # type: ignore[arg-type]
    return found


def changes_of_all(recording: Recording) -> list[list[ChangeRow]]:
    """Wait for the receiver and return the changes of each transaction, in order."""
    recording.caught_up()
    found = []
    for transaction in recording.transactions():
        changes = first_changes_whole(reading_session(), transaction.pk, 1_000)
        assert changes is not None
        found.append(changes)
    return found


def run(source: SourceDatabase, *statements: str) -> None:
    """All in one transaction, in a session with settings unlike the receiver's."""
    with psycopg.connect(source.dsn, options="-c timezone=Asia/Tokyo -c datestyle=SQL,DMY") as c:
        for statement in statements:
            c.execute(statement)  # type: ignore[arg-type]


@pytest.fixture
def recording(source: SourceDatabase, record: Callable[..., Recording]) -> Recording:
    """The tables exist, and everything done to them is recorded."""
    source.run(TABLES)
    return record(source)


def test_changes_as_sql_make_the_same_tables(source: SourceDatabase, recording: Recording) -> None:
    source.run(*INSERTS, *CHANGES)
    done = changes_of_all(recording)
    recording.end()
    there = contents(source)
    source.run("TRUNCATE keyed, whole, keyless, two_keys, counted")
    for changes in done:
        before = before_images(reading_session(), changes)
        for change in changes:
            made = change_as_sql(change, before.get((change.transaction_id, change.seq)))
            assert made.sql is not None, made.reason
            run(source, made.sql)

    assert contents(source) == there


def test_undoing_each_change_brings_back_every_state(
    source: SourceDatabase, recording: Recording
) -> None:
    source.run(*INSERTS)
    before_all = len(changes_of_all(recording))
    states = [contents(source)]
    for statement in CHANGES:
        source.run(statement)
        states.append(contents(source))
    done = changes_of_all(recording)[before_all:]
    recording.end()
    assert len(done) == len(CHANGES)
    for changes in reversed(done):
        assert contents(source) == states.pop()
        made = undo_transaction(changes, before_images(reading_session(), changes))
        assert made.sql is not None, made.reasons
        source.run(made.sql)

    assert contents(source) == states.pop()


def test_undoing_a_transaction_of_everything(source: SourceDatabase, recording: Recording) -> None:
    source.run(*INSERTS)
    was = contents(source)
    run(source, *CHANGES)
    changes = changes_of_all(recording)[-1]
    recording.end()
    assert contents(source) != was
    made = undo_transaction(changes, before_images(reading_session(), changes), name="1")
    assert made.sql is not None, made.reasons
    source.run(made.sql)

    assert contents(source) == was


#: Statements of one transaction that give a key to several rows, or to one after another.
MOVES = [
    ["UPDATE t SET id = 3 - id WHERE id < 3"],
    ["UPDATE t SET id = id + 1"],
    ["UPDATE t SET id = id - 1"],
    ["UPDATE t SET id = id % 4 + 1, a = a || '!'"],
    ["UPDATE t SET id = 5 - id, part = 3 - part"],
    ["INSERT INTO t VALUES (2, 1, 'new')", "UPDATE t SET id = id + 1 WHERE id > 1 AND n > 0"],
    ["INSERT INTO t VALUES (2, 1, 'new')", "UPDATE t SET id = 9 WHERE a = 'new'"],
    ["INSERT INTO t VALUES (2, 1, 'new')", "DELETE FROM t WHERE a = 'y'"],
    ["UPDATE t SET id = 2 WHERE id = 1", "UPDATE t SET a = 'both' WHERE id = 2",
     "UPDATE t SET id = 9 WHERE n = 2"],
    ["UPDATE t SET id = 9 WHERE id = 1", "UPDATE t SET id = 1 WHERE id = 2",
     "UPDATE t SET id = 2 WHERE id = 9"],
]  # fmt: skip


@pytest.mark.parametrize("key", ["id", "id, part", "rid"])
def test_undoing_a_swap_of_keys(
    any_source: SourceDatabase, record: Callable[..., Recording], key: str
) -> None:
    """A key that is checked at the end of a statement or of the transaction."""
    identity = "USING INDEX t_rid" if key == "rid" else "FULL"
    index = "UNIQUE (id)" if key == "rid" else f"PRIMARY KEY ({key})"
    any_source.run(
        f"""CREATE TABLE t (id int, part int DEFAULT 1, a text, n int, {index} DEFERRABLE,
                            rid serial)""",
        "CREATE UNIQUE INDEX t_rid ON t (rid)",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
    )
    recording = record(any_source)
    any_source.run(
        "INSERT INTO t VALUES (4, 1, 'x', 4), (1, 1, 'x', 1), (3, 2, NULL, 3), (2, 1, 'y', 2)"
    )

    def rows() -> list[Any]:
        with any_source.connect() as session:
            return session.execute("SELECT * FROM t ORDER BY rid").fetchall()

    was = rows()
    for statements in MOVES:
        run(any_source, "SET CONSTRAINTS ALL DEFERRED", *statements)
        changes = changes_of_all(recording)[-1]
        assert rows() != was
        made = undo_transaction(changes, before_images(reading_session(), changes))
        assert made.sql is not None, made.reasons
        any_source.run(made.sql)
        assert rows() == was, (statements, made.sql)
    recording.end()


def test_a_swap_of_rows_that_changed_since_is_undone_whole_or_not_at_all(
    source: SourceDatabase, record: Callable[..., Recording]
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, a text)",
               "ALTER TABLE t REPLICA IDENTITY FULL",
               "INSERT INTO t VALUES (1, 'x'), (2, 'y')")  # fmt: skip
    recording = record(source)
    source.run("UPDATE t SET id = 3 - id")
    changes = changes_of_all(recording)[-1]
    recording.end()
    made = undo_transaction(changes, before_images(reading_session(), changes))
    assert made.sql is not None
    source.run("UPDATE t SET a = a || '!'")

    with pytest.raises(psycopg.errors.UniqueViolation):
        source.run(made.sql)


def test_what_is_not_known_is_refused(source: SourceDatabase, record) -> None:
    source.run(TABLES, *INSERTS)  # before the record begins
    recording = record(source)
    source.run(
        "UPDATE keyed SET t = 'new' WHERE id = 1",
        "DELETE FROM keyed WHERE id = 2",
        "UPDATE two_keys SET a = 'moved' WHERE a = ''",
        "TRUNCATE keyless",
        "SELECT pg_logical_emit_message(true, 'p', E'it''s \\\\')",
    )
    done = [change for changes in changes_of_all(recording) for change in changes]
    session = reading_session()
    undone = [
        undo_sql(each, before_images(session, [each]).get((each.transaction_id, each.seq)))
        for each in done
    ]

    assert [made.sql for made in undone] == [None] * 5
    assert "earlier changes do not contain it" in undone[0].reason
    assert undone[1].reason.startswith("old row unknown: the server sent only the key")
    assert "old row unknown" in undone[2].reason
    assert undone[3].reason == "a truncation does not contain the rows that it removed"
    assert undone[4].reason == "a message changed no row"
    message = change_as_sql(done[4]).sql
    assert message is not None
    with source.connect() as connection:
        connection.execute(message)
    source.run("DELETE FROM two_keys")
    recording.caught_up()
    sent = [c.new for t in recording.transactions() for c in recording.changes(t) if c.op == "M"]
    assert sent[0] == sent[1]


def test_a_name_is_quoted_where_the_server_would(source: SourceDatabase) -> None:
    names = ["orders", "Orders", "a b", 'a"b', "1a", "_a", "ü", "", *sorted(KEY_WORDS)]
    with source.connect() as connection:
        for name in names:
            row = connection.execute("SELECT quote_ident(%s)", [name]).fetchone()
            assert row == (identifier(name),)
        reserved = "SELECT word FROM pg_get_keywords() WHERE catcode <> 'U'"
        words = {row[0] for row in connection.execute(reserved)}

    assert words == KEY_WORDS


@pytest.mark.parametrize("text", ["", "'", "\\", "\\'", "--", "$$", "a\nb", "\\n", "ü'\\\\"])
@pytest.mark.parametrize("conforming", ["on", "off"])
def test_a_string_reads_the_same_under_any_setting(
    source: SourceDatabase, text: str, conforming: str
) -> None:
    with source.connect() as connection:
        connection.execute(f"SET standard_conforming_strings = {conforming}")
        connection.execute("SET escape_string_warning = off")

        assert connection.execute(f"SELECT {string(text)}").fetchone() == (text,)


def test_a_hostile_name_stays_inside_its_comment() -> None:
    change = ChangeRow(
        transaction_id=1, seq=1, lsn="0/1", subxid=None, op="I", old_kind=None, old=None,
        new={"a": "1"}, relation_id=1, key_hash=None, old_key_hash=None, schema="public",
        table="t", version=1, replica_identity="DEFAULT",
        columns=[{"name": "a", "type": "integer"}, {"name": "x\nDROP TABLE t; --"}],
        key_columns=["a"],
    )  # fmt: skip
    made = change_as_sql(change).sql

    assert made is not None
    assert [line for line in made.splitlines() if not line.startswith("--")] == [
        "INSERT INTO public.t (a) OVERRIDING SYSTEM VALUE",
        "VALUES (1);",
    ]


def test_only_plain_numbers_stand_bare() -> None:
    assert literal("12", "integer") == "12"
    assert literal("NaN", "numeric(12,2)") == "'NaN'"
    assert literal("12", "text") == "'12'"
    assert literal("0.1", "real") == "'0.1'"
    assert literal("t", "boolean") == "true"
