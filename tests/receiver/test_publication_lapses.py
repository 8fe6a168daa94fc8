"""Rows that were not published for a time are unknown from then on, until they change again."""

import datetime as dt
from collections.abc import Callable
from itertools import groupby

import pytest

from replview.access.visibility import reading_session
from replview.acts.publications import look_at_publications
from replview.store.dsn import set_dsn
from replview.store.models import PublicationLapse, Relation, SlotEvent
from replview.store.read.coverage import coverage_of
from replview.store.read.row_history.as_of import RowState, row_as_of
from replview.store.read.row_history.history import HistoryMark, row_history
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

PLAIN = "CREATE TABLE t (id int PRIMARY KEY, v text, n int DEFAULT 1)"
#: The state of a row that exists and may have changed while it was not published.
UNKNOWN = (None, "unpublished")


class Watched:
    """A slot that is received, and looked at whenever the test says so."""

    def __init__(self, source: SourceDatabase, recording: Recording, table: str = "t") -> None:
        self.source = source
        self.recording = recording
        self.table = table
        set_dsn(recording.slot.source, source.dsn)
        recording.slot.source.save()
        self.look()

    def look(self) -> None:
        look_at_publications(self.recording.slot.source)

    def run(self, *statements: str) -> None:
        """Run statements, in which ``{p}`` is the publication, and have all of it stored."""
        name = self.recording.slot.name
        self.source.run(*(statement.replace("{p}", name) for statement in statements))
        self.recording.caught_up()

    @property
    def relation(self) -> Relation:
        return Relation.objects.get(slot=self.recording.slot, table=self.table)

    def as_of(self, key: int = 1, moment: dt.datetime | None = None) -> RowState:
        wanted = {"id": str(key)}
        slot, session = self.recording.slot, reading_session()
        return row_as_of(session, slot, self.relation.pk, wanted, moment=moment)

    def before_last(self, key: int = 1) -> tuple[str, str | None]:
        """Return the origin of the row before its last change, and its ``v``; None if unknown."""
        page = row_history(
            reading_session(), self.recording.slot, self.relation.pk, {"id": str(key)}
        )
        entry = page.entries[0]
        return entry.before_kind, entry.before.values.get("v")

    def marks(self, key: int = 1) -> list[str]:
        """The kinds of a row's changes and of the marks between them, newest first, each once."""
        slot, session = self.recording.slot, reading_session()
        page = row_history(session, slot, self.relation.pk, {"id": str(key)})
        kinds = (
            item.kind if isinstance(item, HistoryMark) else item.step.op for item in page.items
        )
        return [kind for kind, _ in groupby(kinds)]

    def is_whole_since(self, moment: dt.datetime) -> bool:
        """Return True if the record may say that nothing changed since then."""
        found = coverage_of(reading_session(), self.recording.slot, table=("public", self.table))
        return found.says_no_change(since=moment)


Record = Callable[..., Recording]

LAPSES = {
    "taken out and put back": (
        "ALTER PUBLICATION {p} DROP TABLE t",
        "ALTER PUBLICATION {p} ADD TABLE t",
    ),
    "inserts alone": (
        "ALTER PUBLICATION {p} SET (publish = 'insert')",
        "ALTER PUBLICATION {p} SET (publish = 'insert, update, delete, truncate')",
    ),
}
NARROWED = {
    "filter narrowed and widened": (
        "ALTER PUBLICATION {p} SET TABLE t WHERE (id > 5)",
        "ALTER PUBLICATION {p} SET TABLE t",
    ),
    "filter replaced": (
        "ALTER PUBLICATION {p} SET TABLE t WHERE (id > 5)",
        "ALTER PUBLICATION {p} SET TABLE t WHERE (id > 0)",
    ),
}


def check_lapse(watched: Watched, begin: str, end: str, *, seen: bool) -> None:
    """Change a row during a lapse and after it, and hold every answer against what happened."""
    watched.run("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    inserted_at = dt.datetime.now(dt.UTC)
    watched.look()
    watched.run("INSERT INTO t VALUES (3, 'three')")
    assert (watched.as_of().exists, watched.as_of().values["v"]) == (True, "one")
    assert watched.is_whole_since(inserted_at)

    watched.source.run(begin.replace("{p}", watched.recording.slot.name))
    if seen:
        watched.look()
        assert not watched.is_whole_since(inserted_at)
    watched.source.run("UPDATE t SET v = 'LOST' WHERE id = 1")
    watched.source.run(end.replace("{p}", watched.recording.slot.name))
    watched.run("SELECT pg_logical_emit_message(true, 'x', 'y')")
    watched.look()

    state = watched.as_of()
    assert (state.exists, state.why) == UNKNOWN
    assert not watched.is_whole_since(inserted_at)
    assert watched.as_of(moment=inserted_at).values["v"] == "one"

    watched.run("UPDATE t SET v = 'X' WHERE id = 1")
    assert watched.before_last() in (("key", None), ("unknown", None))
    assert watched.as_of().values["v"] == "X"
    assert (watched.as_of(2).exists, watched.as_of(2).why) == UNKNOWN
    assert watched.marks() == ["U", "lapse", "I"]
    assert watched.marks(2) == ["lapse", "I"]
    watched.run("UPDATE t SET v = 'Y' WHERE id = 1")
    assert watched.before_last() == ("derived", "X")


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "between two looks"])
@pytest.mark.parametrize("name", LAPSES)
def test_a_row_that_may_have_changed_unseen_is_unknown(
    any_source: SourceDatabase, record: Record, name: str, seen: bool
) -> None:
    any_source.run(PLAIN)
    check_lapse(
        Watched(any_source, record(any_source, publish="TABLE t")), *LAPSES[name], seen=seen
    )


@pytest.mark.pg(15)
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "between two looks"])
@pytest.mark.parametrize("name", NARROWED)
def test_a_row_filter_that_was_another_one_for_a_time_leaves_rows_unknown(
    any_source: SourceDatabase, record: Record, name: str, seen: bool
) -> None:
    any_source.run(PLAIN)
    check_lapse(
        Watched(any_source, record(any_source, publish="TABLE t")), *NARROWED[name], seen=seen
    )


@pytest.mark.pg(18)
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "between two looks"])
def test_a_publication_that_was_dropped_and_made_again(
    source: SourceDatabase, record: Record, seen: bool
) -> None:
    """18 goes on without a publication that is not there; older servers end the stream."""
    source.run(PLAIN)
    statements = ("DROP PUBLICATION {p}", "CREATE PUBLICATION {p} FOR TABLE t")
    check_lapse(Watched(source, record(source, publish="TABLE t")), *statements, seen=seen)


@pytest.mark.pg(15)
def test_a_table_that_another_publication_has_all_the_while_has_no_lapse(
    any_source: SourceDatabase, record: Record
) -> None:
    any_source.run(PLAIN, "CREATE PUBLICATION other FOR TABLE t")
    recording = record(any_source, publish="TABLE t", start=False)
    recording.slot.publications += ["other"]
    recording.slot.save()
    recording.start()
    watched = Watched(any_source, recording)
    watched.run("INSERT INTO t VALUES (1, 'one')", *LAPSES["taken out and put back"])
    watched.look()

    assert watched.as_of().values["v"] == "one"
    assert not PublicationLapse.objects.exists()


@pytest.mark.parametrize("publish", ["ALL TABLES", "TABLE t", "TABLES IN SCHEMA public"])
@pytest.mark.pg(15)
def test_tables_that_are_published_since_they_were_created_have_no_lapse(
    any_source: SourceDatabase, record: Record, publish: str
) -> None:
    any_source.run(PLAIN)
    watched = Watched(any_source, record(any_source, publish=publish), "u")
    watched.run(
        "BEGIN; CREATE TABLE u (id int PRIMARY KEY, v text); "
        + ("ALTER PUBLICATION {p} ADD TABLE u; COMMIT" if publish == "TABLE t" else "COMMIT"),
        "INSERT INTO u VALUES (1, 'one')",
    )
    watched.look()

    assert watched.as_of().values["v"] == "one"
    assert not PublicationLapse.objects.exists()


def test_a_table_that_is_added_later_had_rows_that_nobody_saw(
    any_source: SourceDatabase, record: Record
) -> None:
    any_source.run(PLAIN)
    watched = Watched(any_source, record(any_source, publish="TABLE t"), "u")
    watched.run("CREATE TABLE u (id int PRIMARY KEY, v text)", "INSERT INTO u VALUES (1, 'lost')")
    watched.run("DELETE FROM u")
    before = dt.datetime.now(dt.UTC)
    watched.run("ALTER PUBLICATION {p} ADD TABLE u", "INSERT INTO u VALUES (1, 'one')")
    watched.look()

    assert watched.as_of().values["v"] == "one"
    state = watched.as_of(moment=before)
    assert (state.exists, state.why) == UNKNOWN


def test_a_table_that_was_created_while_inserts_alone_were_published(
    source: SourceDatabase, record: Record
) -> None:
    """A table's recorded insert does not prove that its updates were published."""
    source.run(PLAIN)
    watched = Watched(source, record(source), "u")
    watched.run("ALTER PUBLICATION {p} SET (publish = 'insert')")
    watched.look()
    watched.run("CREATE TABLE u (id int PRIMARY KEY, v text)", "INSERT INTO u VALUES (1, 'one')")
    watched.run("UPDATE u SET v = 'lost'")
    watched.run("ALTER PUBLICATION {p} SET (publish = 'insert, update, delete, truncate')")
    watched.look()

    assert (watched.as_of().exists, watched.as_of().why) == UNKNOWN
    watched.run("UPDATE u SET v = 'X'")
    assert watched.before_last() in (("key", None), ("unknown", None))
    assert watched.as_of().values["v"] == "X"


PARTS = """
    CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
    CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10);
"""


@pytest.mark.pg(13)
@pytest.mark.parametrize("via_root", [True, False], ids=["by its root", "by its leaves"])
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "between two looks"])
def test_a_partition_that_was_detached_for_a_time(
    any_source: SourceDatabase, record: Record, via_root: bool, seen: bool
) -> None:
    any_source.run(PARTS)
    recording = record(any_source, publish="TABLE t", start=False)
    any_source.run(
        f"ALTER PUBLICATION {recording.slot.name} SET (publish_via_partition_root = {via_root})"
    )
    recording.start()
    watched = Watched(any_source, recording, "t" if via_root else "t_1")
    watched.run(
        "INSERT INTO t VALUES (1, 'one')",
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
    )
    created_at = dt.datetime.now(dt.UTC)
    watched.look()
    assert watched.as_of().values["v"] == "one"

    watched.run("ALTER TABLE t DETACH PARTITION t_1")
    if seen:
        watched.look()
    watched.run(
        "UPDATE t_1 SET v = 'LOST'",
        "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES FROM (0) TO (10)",
    )
    watched.look()

    state = watched.as_of()
    assert (state.exists, state.why) == UNKNOWN
    assert not watched.is_whole_since(created_at)
    watched.run("UPDATE t SET v = 'X'")
    assert watched.as_of().values["v"] == "X"
    assert watched.before_last() in (("key", None), ("unknown", None))


@pytest.mark.pg(13)
def test_rows_of_a_partition_that_was_dropped_are_unknown_and_nobody_is_alarmed(
    any_source: SourceDatabase, record: Record
) -> None:
    any_source.run(PARTS)
    recording = record(any_source, publish="TABLE t", start=False)
    any_source.run(
        f"ALTER PUBLICATION {recording.slot.name} SET (publish_via_partition_root = true)"
    )
    recording.start()
    watched = Watched(any_source, recording)
    watched.run(
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1, 'one'), (11, 'eleven')",
    )
    watched.look()
    since = dt.datetime.now(dt.UTC)
    watched.run("DROP TABLE t_1", "INSERT INTO t VALUES (12, 'twelve')")
    watched.look()

    state = watched.as_of(1)
    assert (state.exists, state.why) == UNKNOWN
    assert watched.is_whole_since(since)
    assert not SlotEvent.objects.filter(kind="publication").exists()
    watched.run("DROP TABLE t", "SELECT pg_logical_emit_message(true, 'x', 'y')")
    watched.look()
    assert (watched.as_of(11).exists, watched.as_of(11).why) == UNKNOWN
    assert not SlotEvent.objects.filter(kind="publication").exists()


@pytest.mark.pg(15)
def test_a_column_list_that_was_narrowed_for_a_time_leaves_the_columns_unknown(
    any_source: SourceDatabase, record: Record
) -> None:
    any_source.run(PLAIN)
    watched = Watched(any_source, record(any_source, publish="TABLE t"))
    watched.run("INSERT INTO t VALUES (1, 'one', 1)")
    watched.look()
    watched.run("ALTER PUBLICATION {p} SET TABLE t (id, n)")
    watched.look()
    watched.run("UPDATE t SET v = 'LOST', n = 2")
    state = watched.as_of()
    assert (state.exists, state.values.get("n"), "v" in state.values) == (True, "2", False)
    watched.run("ALTER PUBLICATION {p} SET TABLE t")
    watched.look()
    watched.run("UPDATE t SET n = 3")

    assert watched.before_last()[1] is None
    assert watched.as_of().values == {"id": "1", "v": "LOST", "n": "3"}


def test_the_slots_log_tells_what_was_not_published_and_when(
    source: SourceDatabase, record: Record
) -> None:
    source.run(PLAIN)
    watched = Watched(source, record(source, publish="TABLE t"))
    watched.run(LAPSES["taken out and put back"][0])
    watched.look()
    watched.run(LAPSES["taken out and put back"][1])
    watched.look()

    lines = SlotEvent.objects.filter(slot=watched.recording.slot, kind="publication")
    begun, ended = [line.message for line in lines.order_by("pk")]
    assert begun.startswith("public.t was no longer published after ")
    assert ended.startswith("public.t was not published from ")
    [lapse] = PublicationLapse.objects.all()
    assert f"{lapse.to_at:%H:%M:%S}" in ended
    assert lapse.from_lsn < lapse.to_lsn


def test_a_row_that_left_its_key_unseen_is_not_taken_for_another_one(
    source: SourceDatabase, record: Record
) -> None:
    """Two rows can have one key under a deferrable constraint: these two are one and the same."""
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    watched = Watched(source, record(source, publish="TABLE t"))
    begin, end = LAPSES["inserts alone"]
    watched.run("INSERT INTO t VALUES (1, 'one')")
    watched.look()
    watched.run(begin)
    watched.look()
    watched.run("UPDATE t SET id = 2", end)
    watched.look()
    watched.run("BEGIN; UPDATE t SET id = 1; DELETE FROM t; COMMIT")

    assert not watched.as_of().exists


def test_a_change_is_of_the_row_that_its_transaction_made_under_a_key_left_unseen(
    source: SourceDatabase, record: Record
) -> None:
    source.run(PLAIN)
    watched = Watched(source, record(source, publish="TABLE t"))
    begin, end = LAPSES["inserts alone"]
    watched.run("INSERT INTO t VALUES (1, 'one')")
    watched.look()
    watched.run(begin, "DELETE FROM t", end)
    watched.look()
    watched.run("BEGIN; INSERT INTO t VALUES (1, 'new'); UPDATE t SET v = 'newer'; COMMIT")

    assert watched.marks() == ["U", "I"]
    assert watched.before_last() == ("derived", "new")
