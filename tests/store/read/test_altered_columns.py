"""A row's history tells an ALTER TABLE's effect from an update's, on real tables."""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.catalog.stream_shape import is_later
from replview.store.models import Relation, RelationVersion
from replview.store.read.changes.as_sql import ChangeStatement, undo_sql
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.row_history.as_of import RowState, row_as_of
from replview.store.read.row_history.before_images import before_images
from replview.store.read.row_history.finding import RowFinder
from replview.store.read.row_history.history import row_history
from replview.store.read.row_history.keys import tables_named
from replview.store.read.row_history.replay import BeforeImage, HistoryEntry
from replview.store.read.row_history.shapes import altered_since
from replview.store.read.rows import ChangeRow
from replview.ui.versions import shape_of, summary
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

Record = Callable[..., Recording]


def play(
    source: SourceDatabase, record: Record, *statements: str, behind: bool = False
) -> Recording:
    """Record statements on a new table ``t``, with a receiver that keeps up or comes later."""
    source.run("CREATE TABLE t (id int PRIMARY KEY, a text, amount int, b bool)")
    recording = record(source, start=not behind)
    for statement in ("INSERT INTO t VALUES (1, 'x', 5, true)", *statements):
        source.run(statement)
        if not behind:
            recording.caught_up()
    if behind:
        recording.start()
        recording.caught_up()
    recording.end()
    return recording


def begin(
    source: SourceDatabase, recording: Recording, session: psycopg.Connection, statements: str
) -> None:
    """A transaction that is streamed while it is in progress."""
    session.execute(f"BEGIN; {statements}")
    # Changes in progress are sent once they are flushed, which a commit does at once.
    source.run("COMMENT ON SCHEMA public IS 'flushed'")
    wait_for(lambda: recording.transactions(state="streaming"), 20)


def last_change(recording: Recording) -> tuple[ChangeRow, BeforeImage]:
    """Return the last change with the row before it."""
    [change] = changes_of(reading_session(), recording.transactions()[-1].pk)
    before = before_images(reading_session(), [change])
    return change, before[change.transaction_id, change.seq]


def last_entry(recording: Recording) -> HistoryEntry:
    """Return the newest entry of the row's history."""
    relation = Relation.objects.filter(slot=recording.slot, table="t").earliest("pk")
    page = row_history(reading_session(), recording.slot, relation.pk, {"id": "1"})
    return page.entries[0]


@pytest.mark.parametrize(
    ("alter", "altered"),
    [
        (["DROP b", "ADD b text DEFAULT 'no'"], {"b"}),
        (["ALTER amount TYPE numeric USING amount * 100"], {"amount"}),
        (["ADD c int DEFAULT 7"], {"c"}),
        (["RENAME amount TO price"], {"price"}),
        (["ALTER id TYPE bigint"], set()),
        # The table looks as it did, but for the place of the column.
        (["DROP amount", "ADD amount int DEFAULT 7"], {"amount"}),
        # The table looks as it did.
        (["DROP b", "ADD b bool DEFAULT false"], {"b"}),
        (["ALTER amount TYPE int USING amount * 100"], {"amount"}),
        # The table is as it was.
        (["ALTER amount SET NOT NULL", "ALTER b SET DEFAULT true"], set()),
    ],
    ids=str,
)
@pytest.mark.parametrize("behind", [False, True], ids=["in time", "behind"])
def test_what_alter_table_changed_is_not_the_updates(
    source: SourceDatabase, record: Record, alter: Sequence[str], altered: set[str], behind: bool
) -> None:
    alters = [f"ALTER TABLE t {each}" for each in alter]
    recording = play(source, record, *alters, "UPDATE t SET a = 'xx' WHERE id = 1", behind=behind)
    change, before = last_change(recording)
    entry = last_entry(recording)

    assert before.altered == altered or (behind and not altered)
    assert altered.isdisjoint(before.image)
    assert (entry.before.altered, entry.before.values) == (before.altered, before.image)
    with source.connect() as session:
        was = dict(zip(*_row(session), strict=True))
        made = undo_sql(change, before)
        assert made.sql is not None, made.reason
        session.execute(made.sql)
        assert dict(zip(*_row(session), strict=True)) == {**was, "a": "x"}
    for name in altered:
        assert f"changed by ALTER TABLE or by this update: {name}." in made.sql


def test_what_may_have_been_altered_twice_meanwhile_is_unknown(
    source: SourceDatabase, record: Record
) -> None:
    """The catalog tells a receiver that comes later only of the last time."""
    twice = "ALTER TABLE t ALTER amount TYPE int USING amount * 100"
    recording = play(source, record)
    source.run(twice, "UPDATE t SET a = 'xx'", "UPDATE t SET a = 'xxx'", twice,
               "UPDATE t SET a = 'y'")  # fmt: skip
    recording.start()
    recording.caught_up()
    recording.end()

    perhaps = ["public.t was altered since: amount is perhaps another column"]
    three = recording.transactions()[-3:]
    for transaction, expected in zip(three, (perhaps, perhaps, []), strict=True):
        [change] = changes_of(reading_session(), transaction.pk)
        before = before_images(reading_session(), [change])[change.transaction_id, change.seq]
        assert "amount" not in before.image
        since = altered_since(reading_session(), [change])
        assert [words.partition(",")[0] for words in since] == expected
    versions = RelationVersion.objects.filter(relation__slot=recording.slot).order_by("number")
    first, second, third = map(shape_of, versions)
    assert summary(first, second) == "amount perhaps rewritten"
    assert summary(second, third) == "amount perhaps rewritten"


@pytest.mark.pg(16)
@pytest.mark.parametrize("end", ["COMMIT", "PREPARE TRANSACTION 'it'"])
def test_what_a_transaction_in_progress_alters_is_seen_once_it_has_ended(
    source: SourceDatabase, record: Record, end: str
) -> None:
    """While it lasts the catalog shows others what was before; nor does it where it is prepared.
    Whether it altered a column before its changes or after them, the catalog does not tell.
    """
    source.run(f"ALTER DATABASE {source.name} SET debug_logical_replication_streaming = immediate")
    recording = play(source, record, "UPDATE t SET a = 'xx'")
    recording.start()
    with source.connect() as session:
        begin(
            source, recording, session,
            "ALTER TABLE t ALTER amount TYPE int USING amount * 100; UPDATE t SET b = false; "
            "CREATE TABLE made (id int PRIMARY KEY, n int); INSERT INTO made VALUES (1, 7)",
        )  # fmt: skip
        session.execute(end)
    recording.caught_up()
    if end != "COMMIT":
        [change] = changes_of(reading_session(), recording.transactions(state="prepared")[-1].pk)[
            :1
        ]
        before = before_images(reading_session(), [change])[change.transaction_id, change.seq]
        assert "amount" not in before.image
        source.run("COMMIT PREPARED 'it'")
    source.run("UPDATE t SET a = 'xxx'", "UPDATE made SET id = 2")
    recording.caught_up()
    recording.end()

    images = []
    for transaction in recording.transactions()[-3:]:
        changes = changes_of(reading_session(), transaction.pk)
        found = before_images(reading_session(), changes)
        images += [found[c.transaction_id, c.seq].image for c in changes if c.op == "U"]
    assert images == [
        {"id": "1", "a": "xx", "b": "t"},
        {"id": "1", "a": "xx", "b": "f"},
        {"id": "1", "n": "7"},
    ]


@pytest.mark.pg(16)
@pytest.mark.parametrize("end", ["ROLLBACK", "ROLLBACK TO s", "ROLLBACK PREPARED 'it'"])
def test_what_was_rolled_back_is_not_the_table_of_the_name(
    source: SourceDatabase, record: Record, end: str
) -> None:
    source.run(f"ALTER DATABASE {source.name} SET debug_logical_replication_streaming = immediate",
               "CREATE TABLE u (id int PRIMARY KEY)")  # fmt: skip
    recording = play(source, record, "INSERT INTO u VALUES (1)")
    recording.start()
    with source.connect() as session:
        begin(
            source, recording, session,
            "SAVEPOINT s; DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); "
            "INSERT INTO t VALUES (2); ALTER TABLE u ADD v int; ALTER TABLE u RENAME TO w; "
            "INSERT INTO w VALUES (2)",
        )  # fmt: skip
        if end == "ROLLBACK PREPARED 'it'":
            session.execute("PREPARE TRANSACTION 'it'")
        session.execute(end)
        if end == "ROLLBACK TO s":
            session.execute("INSERT INTO u VALUES (3)")
            session.execute("COMMIT")
    source.run("INSERT INTO t VALUES (3)")
    recording.caught_up()
    recording.end()

    assert last_entry(recording).after.values == {"id": "1", "a": "x", "amount": "5", "b": "t"}
    mine = Relation.objects.filter(slot=recording.slot).order_by("pk")
    in_force = [(r.table, r.current_version and r.current_version.number) for r in mine]
    assert in_force == [("t", 1), ("u", 1), ("t", None)]
    page = row_history(reading_session(), recording.slot, mine[1].pk, {"id": "1"})
    assert page.entries[0].after.values == {"id": "1"}


@pytest.mark.pg(16)
def test_a_table_that_its_transaction_drops_again_is_not_the_last_of_the_name(
    source: SourceDatabase, record: Record
) -> None:
    """A name that its transaction drops and creates again belongs to the table created last."""
    source.run(f"ALTER DATABASE {source.name} SET debug_logical_replication_streaming = immediate")
    recording = play(source, record)
    recording.start()
    with source.connect() as session:
        begin(
            source, recording, session,
            "ALTER TABLE t ALTER amount TYPE int USING amount * 100; UPDATE t SET b = false; "
            "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, n int); "
            "INSERT INTO t VALUES (2, 7)",
        )  # fmt: skip
        session.execute("COMMIT")
    recording.caught_up()
    recording.end()

    newest = Relation.objects.filter(slot=recording.slot).latest("pk")
    found = tables_named(reading_session(), recording.slot, "public.t")
    assert found is not None
    assert found.relation.pk == newest.pk


@pytest.mark.pg(16)
def test_a_shape_that_was_rolled_back_was_never_in_force(
    source: SourceDatabase, record: Record, signed_in: Any
) -> None:
    source.run(f"ALTER DATABASE {source.name} SET debug_logical_replication_streaming = immediate")
    recording = play(source, record)
    recording.start()
    with source.connect() as session:
        begin(
            source, recording, session,
            "SAVEPOINT s; ALTER TABLE t ALTER amount TYPE bigint; UPDATE t SET b = false",
        )  # fmt: skip
        session.execute("ROLLBACK TO s; COMMIT")
    source.run("ALTER TABLE t ADD c int", "UPDATE t SET a = 'xx'")
    recording.caught_up()
    recording.end()

    change, before = last_change(recording)
    assert before.image == {"id": "1", "a": "x", "amount": "5", "b": "t"}
    page = signed_in.get(f"/relations/{change.relation_id}/").content.decode()
    assert page.count("rolled back") == page.count("never in force") == 1


@pytest.mark.parametrize("behind", [False, True], ids=["in time", "behind"])
def test_a_value_from_before_its_transaction_rewrote_the_column_is_not_told(
    source: SourceDatabase, record: Record, behind: bool
) -> None:
    recording = play(
        source, record, "UPDATE t SET a = 'xx'",
        "BEGIN; UPDATE t SET amount = 7; ALTER TABLE t ALTER amount TYPE int USING amount + 1;"
        "COMMIT", "UPDATE t SET b = false", behind=behind,
    )  # fmt: skip
    _, before = last_change(recording)
    assert before.image == {"id": "1", "a": "xx", "b": "t"}


def test_a_value_of_a_column_that_its_transaction_added_is_told(
    source: SourceDatabase, record: Record
) -> None:
    recording = play(
        source, record, "UPDATE t SET a = 'xx'",
        "BEGIN; ALTER TABLE t ADD c int DEFAULT 3; UPDATE t SET c = 7; COMMIT",
        "UPDATE t SET b = false",
    )  # fmt: skip
    _, before = last_change(recording)
    assert before.image == {"id": "1", "a": "xx", "amount": "5", "b": "t", "c": "7"}


@pytest.mark.parametrize(
    "alters",
    [
        ["DROP c", "ADD c int"],
        ["RENAME c TO d", "ADD c int"],
        ["RENAME c TO d", "RENAME amount TO c"],
        ["ADD d int", "RENAME c TO e", "RENAME d TO c", "RENAME e TO d"],
    ],
    ids=str,
)
def test_a_value_of_a_column_that_became_another_in_its_transaction_is_not_told(
    source: SourceDatabase, record: Record, alters: list[str]
) -> None:
    altered = "".join(f"ALTER TABLE t {each}; " for each in alters)
    recording = play(
        source, record, "UPDATE t SET a = 'xx'",
        f"BEGIN; ALTER TABLE t ADD c int; UPDATE t SET c = 7; {altered} COMMIT",
        "UPDATE t SET b = false",
    )  # fmt: skip
    _, before = last_change(recording)
    assert "c" not in before.image
    assert before.image.items() >= {"id": "1", "a": "xx"}.items()


def test_a_value_from_between_two_names_of_a_column_is_not_told(
    source: SourceDatabase, record: Record
) -> None:
    """A value of a temporary column that took the name of another is not told as the latter's."""
    recording = play(
        source, record, "UPDATE t SET a = 'xx'",
        "BEGIN; ALTER TABLE t RENAME amount TO e; ALTER TABLE t ADD amount int;"
        "UPDATE t SET amount = 7; ALTER TABLE t DROP amount; ALTER TABLE t RENAME e TO amount;"
        "COMMIT", "UPDATE t SET b = false",
    )  # fmt: skip
    _, before = last_change(recording)
    assert before.image == {"id": "1", "a": "xx"}


@pytest.mark.parametrize(
    ("alter", "image"),
    [
        ("", {"id": "1", "n": "7"}),
        ("ALTER TABLE made RENAME n TO m; ALTER TABLE made ADD n int;", {"id": "1"}),
    ],
    ids=["as created", "another by then"],
)
def test_a_row_of_a_table_with_a_generated_column_that_its_transaction_created(
    source: SourceDatabase, record: Record, alter: str, image: dict[str, str]
) -> None:
    recording = play(
        source, record, "BEGIN; CREATE TABLE made (id int PRIMARY KEY, "
        "g int GENERATED ALWAYS AS (id + 1) STORED, n int);"
        f"INSERT INTO made (id, n) VALUES (1, 7); {alter} COMMIT",
        "UPDATE made SET id = 2",
    )  # fmt: skip
    _, before = last_change(recording)
    assert before.image == image


def test_a_column_added_by_a_transaction_in_progress_makes_one_version(
    source: SourceDatabase, record: Record
) -> None:
    recording = play(
        source, record, "BEGIN; UPDATE t SET a = 'y'; ALTER TABLE t ADD c int; UPDATE t SET c = 2;"
        "PREPARE TRANSACTION 'it'", "COMMIT PREPARED 'it'", "UPDATE t SET b = false",
    )  # fmt: skip
    assert RelationVersion.objects.filter(relation__table="t").count() == 2
    _, before = last_change(recording)
    assert before.image == {"id": "1", "a": "y", "amount": "5", "b": "t", "c": "2"}


@pytest.mark.pg(16)
def test_what_a_prepared_transaction_was_thought_to_alter_was_never_in_force(
    source: SourceDatabase, record: Record
) -> None:
    """A version assumed because of a TRUNCATE in a prepared transaction is not kept in force."""
    hold = "BEGIN; TRUNCATE t; INSERT INTO t VALUES (2, 'y', 5, true); PREPARE TRANSACTION 'it'"
    recording = play(
        source, record, hold, "ROLLBACK PREPARED 'it'", hold, "COMMIT PREPARED 'it'",
        "ALTER TABLE t ADD c int", "UPDATE t SET b = false",
    )  # fmt: skip

    change = changes_of(reading_session(), recording.transactions(state="committed")[-1].pk)[0]
    before = before_images(reading_session(), [change])[change.transaction_id, change.seq]
    assert before.image == {"id": "2", "a": "y", "amount": "5", "b": "t"}
    versions = RelationVersion.objects.filter(relation__slot=recording.slot).order_by("number")
    was = [[one.get("rolled_back", False) for one in each.intervals] for each in versions]
    assert was == [[False], [True], [False]]


def test_rows_of_one_key_are_told_apart_by_what_was_not_altered(
    source: SourceDatabase, record: Record
) -> None:
    source.run("CREATE TABLE d (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, rid int, n int)",
               "ALTER TABLE d REPLICA IDENTITY FULL")  # fmt: skip
    recording = play(
        source, record, "INSERT INTO d VALUES (1, 10, 5), (2, 20, 5)",
        "ALTER TABLE d ALTER n TYPE int USING n * 100",
        "BEGIN; UPDATE d SET id = 1 WHERE id = 2; DELETE FROM d WHERE rid = 10; COMMIT",
    )  # fmt: skip

    table = tables_named(reading_session(), recording.slot, "public.d")
    assert table is not None
    finder = RowFinder(reading_session(), recording.slot, table, table.hashes({"id": "1"}))
    ends = {finder.steps(row.events)[0].after["rid"]: row.ended
            for row in map(finder.follow, finder.periods)}  # fmt: skip
    assert ends == {"10": "delete", "20": ""}


@pytest.mark.parametrize(
    "gone",
    ["ALTER TABLE t DROP amount", "ALTER TABLE t RENAME amount TO total", "DROP TABLE t"],
)
def test_what_may_have_been_altered_before_it_was_dropped_is_unknown(
    source: SourceDatabase, record: Record, gone: str
) -> None:
    """The catalog tells a receiver that comes later nothing of it."""
    recording = play(source, record, "UPDATE t SET a = 'xx'")
    source.run("ALTER TABLE t ALTER amount TYPE int USING amount * 100",
               "UPDATE t SET a = 'xxx'", gone)  # fmt: skip
    recording.start()
    recording.caught_up()
    recording.end()

    [change] = changes_of(reading_session(), recording.transactions()[-1].pk)
    before = before_images(reading_session(), [change]).get((change.transaction_id, change.seq))
    assert change.new is not None
    assert change.new["amount"] == "500"
    assert before is None or "amount" not in before.image
    assert gone == "DROP TABLE t" or (before is not None and before.image["a"] == "xx")


def test_what_one_transaction_altered_twice_is_unknown(
    source: SourceDatabase, record: Record
) -> None:
    recording = play(source, record, """BEGIN; ALTER TABLE t ADD c int DEFAULT 7;
        UPDATE t SET a = 'xx'; ALTER TABLE t ALTER c TYPE int USING c + 1;
        UPDATE t SET a = 'xxx'; UPDATE t SET a = 'y'; COMMIT""")  # fmt: skip
    changes = changes_of(reading_session(), recording.transactions()[-1].pk)
    before = before_images(reading_session(), changes)

    for change, a in zip(changes, ("x", "xx", "xxx"), strict=True):
        image = before[change.transaction_id, change.seq].image
        assert image["a"] == a
        assert image.get("c") in (None, "8" if a == "xxx" else None)


def test_a_table_made_in_a_savepoint_was_not_altered_since(
    source: SourceDatabase, record: Record
) -> None:
    """A subtransaction's identifier is a later one than its transaction's."""
    recording = play(source, record, """BEGIN; UPDATE t SET a = 'xx'; SAVEPOINT s;
        CREATE TABLE made (id int PRIMARY KEY, a text, n int); INSERT INTO made VALUES (1, 'a', 7);
        RELEASE s; COMMIT""", "UPDATE made SET a = 'b'")  # fmt: skip
    [change] = changes_of(reading_session(), recording.transactions()[-1].pk)
    before = before_images(reading_session(), [change])
    assert before[change.transaction_id, change.seq].image == {"id": "1", "a": "a", "n": "7"}


@pytest.mark.parametrize(
    ("xid", "than", "following", "later"),
    [
        (1211, 1200, 1300, True),
        (1199, 1200, 1300, False),
        (1200, 1200, 1300, False),
        # In progress, it is not behind those that ended.
        (780, 1200, 1190, False),
        # Two thousand million transactions ago, and around the wrap.
        (5, (1 << 31) + 100, (1 << 31) + 200, False),
        (7, (1 << 32) - 3, 9, True),
    ],
)
def test_which_transaction_is_later(xid: int, than: int, following: int, later: bool) -> None:
    assert is_later(xid, than, following=following) == later


def test_what_a_savepoint_made_and_altered_is_unknown(
    source: SourceDatabase, record: Record
) -> None:
    recording = play(source, record, """BEGIN; UPDATE t SET a = 'xx'; SAVEPOINT s;
        CREATE TABLE made (id int PRIMARY KEY, a text, n int); INSERT INTO made VALUES (1, 'a', 7);
        ALTER TABLE made ALTER n TYPE int USING n + 1; UPDATE made SET a = 'b';
        RELEASE s; COMMIT""")  # fmt: skip
    [_, _, change] = changes_of(reading_session(), recording.transactions()[-1].pk)
    image = before_images(reading_session(), [change])[change.transaction_id, change.seq].image
    assert image["id"] == "1"
    assert image.get("n") in (None, "8")


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (["DROP b", "ADD c int DEFAULT 7"], ["b is gone", "c was added"]),
        (["ALTER amount TYPE date USING now()"],
         ["amount is another column, of another type or rewritten"]),
        (["DROP b", "ADD b bool"], ["b is another column, of another type or rewritten"]),
        (["RENAME TO u"], ["it is called public.u"]),
        (["ALTER amount SET DEFAULT 7"], []),
    ],
    ids=str,
)  # fmt: skip
def test_an_undo_says_what_was_altered_since(
    source: SourceDatabase, record: Record, signed_in: Any, alter: list[str], said: list[str]
) -> None:
    alters = [f"ALTER TABLE t {each}" for each in alter]
    name = "u" if "RENAME TO u" in alter else "t"
    recording = play(source, record, *alters, f"DELETE FROM {name}")
    first, last = recording.transactions()[0], recording.transactions()[-1]

    whole = f"-- public.t was altered since: {', '.join(said)}.\n" if said else ""
    for address, begin in (("undo/", "Takes "), ("changes/1/undo/", "Deletes ")):
        text = signed_in.get(f"/transactions/{first.pk}/{address}").content.decode()
        assert text.startswith(f"{whole}-- {begin}"), text
        assert "altered since" not in text.removeprefix(whole)
        text = signed_in.get(f"/transactions/{last.pk}/{address}").content.decode()
        assert "altered since" not in text


#: A statement; of row 1 afterwards: what is known, and the columns of which that is not so.
_THEN = [
    # No change of the table is recorded by then, and so none of its columns but the key.
    ("INSERT INTO other VALUES (1)", "id", "a k"),
    ("UPDATE t SET k = 'y' WHERE id = 2", "id k", "a"),
    ("UPDATE t SET k = 'y' WHERE id = 2", "id k", "a"),
    # The record does not say when between two changes the table was altered.
    ("UPDATE t SET k = 'yy' WHERE id = 2", "id k", "a dflt"),
    ("ALTER TABLE t ADD dflt int DEFAULT 7", "id k", "a dflt"),
    ("UPDATE t SET k = 'y' WHERE id = 2", "id k", "a dflt"),
    # Whether the statement rewrote a column that had been added is unknown.
    ("ALTER TABLE t ALTER a TYPE int USING a::int * 100", "id k", "a dflt"),
    ("UPDATE t SET k = 'yy' WHERE id = 2", "id a k dflt", ""),
    ("UPDATE t SET a = 2 WHERE id = 1", "id a dflt", "k"),
    ("ALTER TABLE t DROP k", "id a dflt", "k"),
    ("UPDATE t SET a = 3 WHERE id = 2", "id a dflt", ""),
    ("INSERT INTO other VALUES (1)", "id a dflt", ""),
]


@pytest.mark.parametrize("by", ["lsn", "moment"])
def test_a_row_as_of_a_moment_has_the_columns_of_that_moment(
    source: SourceDatabase, record: Record, by: str
) -> None:
    source.run("CREATE TABLE other (n int)", "CREATE TABLE t (id int PRIMARY KEY, a text, k text)",
               "ALTER TABLE t REPLICA IDENTITY FULL",
               "INSERT INTO t VALUES (1, 5), (2, 6)")  # fmt: skip
    recording = record(source)
    moments: list[Any] = []
    for statement, _, _ in _THEN:
        source.run(statement)
        with source.connect() as session:
            moments.append(session.execute("""
                SELECT pg_current_wal_lsn() - '0/0', clock_timestamp(),
                       (SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(to_jsonb(t)))
                FROM t WHERE id = 1""").fetchone())  # fmt: skip
        # Less is known of a table that is altered twice while the receiver is behind.
        recording.caught_up()
    recording.end()
    relation = Relation.objects.filter(slot=recording.slot, table="t").earliest("pk")

    def state(**at: Any) -> RowState:
        return row_as_of(reading_session(), recording.slot, relation.pk, {"id": "1"}, **at)

    for (statement, known, unknown), (lsn, time, truth) in zip(_THEN, moments, strict=True):
        found = state(**({"lsn": int(lsn)} if by == "lsn" else {"moment": time}))
        assert found.values.items() <= truth.items(), statement
        assert found.values.keys() == {*known.split()}, statement
        assert found.unknown == dict.fromkeys(unknown.split(), "altered"), statement
    transaction = recording.transactions()[-3]
    assert state(before=(transaction.pk, 1)).values == moments[7][2]
    assert state().values == moments[-1][2]


def _row(session: Any) -> tuple[list[str], Any]:
    found = session.execute("SELECT * FROM t")
    return [column.name for column in found.description], found.fetchone()


def test_an_update_of_nothing_else_is_not_undone(source: SourceDatabase, record: Record) -> None:
    made = undone(play(source, record, "ALTER TABLE t ALTER amount TYPE numeric USING amount * 100",
                       "UPDATE t SET amount = 7"))  # fmt: skip

    assert made.sql is None
    assert made.reason == (
        "old row not wholly known: amount is unknown before this change, "
        "as ALTER TABLE changed the table"
    )


def test_a_deleted_row_is_not_made_up(source: SourceDatabase, record: Record) -> None:
    made = undone(play(source, record, "ALTER TABLE t ADD c int DEFAULT 7", "DELETE FROM t"))

    assert made.sql is None
    assert "c is unknown before this change, as ALTER TABLE changed" in made.reason


def undone(recording: Recording) -> ChangeStatement:
    """The undo of the last change."""
    return undo_sql(*last_change(recording))


def test_a_row_is_gone_with_the_table_that_its_transaction_changed_last(
    source: SourceDatabase, record: Record
) -> None:
    """The table had a change in the transaction that dropped it and made another of its name."""
    recording = play(
        source, record,
        "BEGIN; INSERT INTO t VALUES (2, 'y', 6, true); DROP TABLE t; "
        "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (3, 7); COMMIT",
        "INSERT INTO t VALUES (1, 8)",
    )  # fmt: skip
    first, dropped, _ = recording.transactions()
    [_, newest] = Relation.objects.filter(slot=recording.slot).order_by("pk")

    def row_at(**at: Any) -> RowState:
        return row_as_of(reading_session(), recording.slot, newest.pk, {"id": "1"}, **at)

    assert row_at(lsn=int(LSN(first.commit_lsn))).exists
    assert not row_at(lsn=int(LSN(dropped.commit_lsn))).exists
    assert not row_at(moment=dropped.commit_time).exists
    assert row_at().values == {"id": "1", "n": "8"}
