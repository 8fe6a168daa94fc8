"""Tables that were altered and not described again by the stream, on a real server."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from replview.access.visibility import reading_session
from replview.store.models import Relation, RelationVersion
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.row_history.as_of import RowState, row_as_of
from replview.store.read.row_history.before_images import before_images
from tests.support.baselines import take
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

Record = Callable[..., Recording]
#: Statements that alter the table ``t (id, v, w)``, and the columns that are unknown afterwards.
_ALTERED = {
    "rewritten": ("ALTER TABLE t ALTER v TYPE text USING 'T' || v", {"v"}),
    "replaced": ("ALTER TABLE t DROP v; ALTER TABLE t ADD v text DEFAULT 'dflt'", {"v"}),
    "renamed": ("ALTER TABLE t RENAME v TO u", {"v"}),
    "swapped": (
        "ALTER TABLE t RENAME v TO u; ALTER TABLE t RENAME w TO v; ALTER TABLE t RENAME u TO w",
        {"v", "w"},
    ),
    "added": ("ALTER TABLE t ADD x int DEFAULT 5", set()),
    "not rewritten": ("ALTER TABLE t ALTER v SET NOT NULL", set()),
}
_CHANGE = "INSERT INTO t VALUES (10, 'c', 'd')"
#: The ways to commit a change and the ALTER TABLE after it.
_WAYS = {
    "apart": "{change}; {alter};",
    "together": "BEGIN; {change}; {alter}; COMMIT",
    "prepared": "BEGIN; {change}; {alter}; PREPARE TRANSACTION 'it'; COMMIT PREPARED 'it'",
    "in a savepoint": "BEGIN; {change}; SAVEPOINT s; {alter}; RELEASE s; COMMIT",
}


@pytest.fixture(autouse=True)
def often(settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.1


def _recording(source: SourceDatabase, record: Record, **how: Any) -> Recording:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text, w text)", "CREATE TABLE other (n int)")
    recording = record(source, **how)
    source.run("INSERT INTO t VALUES (1, 'a', 'b')")
    recording.caught_up()
    return recording


def _as_of_now(recording: Recording, key: str = "10") -> RowState:
    relation = Relation.objects.filter(slot=recording.slot, table="t").latest("pk")
    return row_as_of(reading_session(), recording.slot, relation.pk, {"id": key})


def _truth(source: SourceDatabase, key: int = 10) -> Mapping[str, Any]:
    with source.connect() as session:
        row = session.execute(
            "SELECT (SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(to_jsonb(t))) "
            "FROM t WHERE id = %s",
            [key],
        ).fetchone()
    assert row is not None
    truth: Mapping[str, Any] = row[0]
    return truth


def _run(source: SourceDatabase, statements: str) -> None:
    """Run the statements one after another, each as a query of its own."""
    with source.connect() as session:
        for statement in filter(str.strip, statements.split(";")):
            session.execute(statement.encode())


@pytest.mark.parametrize("way", _WAYS.values(), ids=_WAYS)
@pytest.mark.parametrize(("alter", "unknown"), _ALTERED.values(), ids=_ALTERED)
def test_a_row_from_before_alter_table_is_unknown_where_it_was_altered(
    source: SourceDatabase, record: Record, alter: str, unknown: set[str], way: str
) -> None:
    recording = _recording(source, record)
    _run(source, way.format(change=_CHANGE, alter=alter))
    recording.looked()
    state, truth = _as_of_now(recording), _truth(source)

    assert state.exists
    assert state.values.items() <= truth.items()
    # If the server described the table before the change, the catalog was ahead of the change.
    assert set(state.unknown) >= unknown
    source.run("UPDATE t SET id = 11 WHERE id = 10")
    recording.caught_up()
    recording.end()
    [change] = changes_of(reading_session(), recording.transactions()[-1].pk)
    before = before_images(reading_session(), [change])[change.transaction_id, change.seq]
    assert before.image.items() <= truth.items()
    assert _as_of_now(recording, "11").values == _truth(source, 11)


@pytest.mark.parametrize("plugin", ["test_decoding", "wal2json"])
def test_a_plugin_without_descriptions_has_its_tables_looked_at(
    source_15: SourceDatabase, record: Record, plugin: str
) -> None:
    source = source_15
    recording = _recording(source, record, plugin=plugin, two_phase=False)
    source.run("ALTER TABLE t ALTER v TYPE text USING 'T' || v")
    recording.looked()

    # On 15 the catalog's row of another column may be written anew, too.
    assert "v" in _as_of_now(recording, "1").unknown
    source.run("UPDATE t SET v = 'c' WHERE id = 1")
    recording.looked()
    recording.end()
    assert _as_of_now(recording, "1").values == _truth(source, 1)


def test_what_was_altered_while_the_receiver_was_away_is_unknown(
    source: SourceDatabase, record: Record
) -> None:
    recording = _recording(source, record)
    recording.end()
    source.run("ALTER TABLE t ALTER v TYPE text USING 'T' || v")
    recording.start()
    recording.looked()
    recording.end()

    assert set(_as_of_now(recording, "1").unknown) == {"v"}


def test_a_table_that_stays_as_it_is_keeps_its_version(
    source: SourceDatabase, record: Record
) -> None:
    """VACUUM FULL and a column's settings alter no value; a second look finds nothing new."""
    recording = _recording(source, record)
    for statement in ("ALTER TABLE t ALTER v SET NOT NULL", "ANALYZE t",
                      "ALTER TABLE t ALTER v SET STATISTICS 50", "VACUUM FULL t"):  # fmt: skip
        source.run(statement)
        recording.looked()
        assert _as_of_now(recording, "1").values == _truth(source, 1)
    source.run("ALTER TABLE t ALTER v TYPE text USING 'T' || v")
    recording.looked()
    recording.end()
    recording.start()
    recording.looked()
    recording.end()

    versions = RelationVersion.objects.filter(relation__slot=recording.slot)
    assert versions.count() == 2
    [line] = recording.slot.events.filter(kind="schema")
    assert line.message == "Schema of public.t changed: version 2."


def test_a_receiver_that_is_behind_answers_as_of_what_it_has_stored(
    source: SourceDatabase, record: Record
) -> None:
    """A catalog read counts only once the record has reached the position of that read."""
    recording = _recording(source, record)
    with source.connect() as holder:
        holder.execute("BEGIN; INSERT INTO other VALUES (1)")
        for number in itertools.count(2):
            source.run(f"INSERT INTO t VALUES ({number}, 'a', 'b')")
            if number > 5:
                break
        holder.execute("COMMIT")
    source.run("ALTER TABLE t ADD x int", "UPDATE t SET v = 'e' WHERE id = 1",
               "ALTER TABLE t ALTER v TYPE text USING 'T' || v")  # fmt: skip
    recording.looked()
    recording.end()

    assert set(_as_of_now(recording, "1").unknown) == {"v"}
    assert set(_as_of_now(recording, "2").unknown) == {"v", "x"}


def test_a_row_that_a_baseline_read_is_unknown_where_it_was_altered_since(
    source: SourceDatabase, record: Record
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text, w text)",
               "INSERT INTO t VALUES (1, 'a', 'b')")  # fmt: skip
    recording = record(source)
    take(recording, "public.t")
    source.run("ALTER TABLE t ALTER v TYPE text USING 'T' || v")
    recording.looked()
    assert set(_as_of_now(recording, "1").unknown) == {"v"}
    source.run("UPDATE t SET w = 'c' WHERE id = 1")
    recording.caught_up()
    recording.end()

    [change] = changes_of(reading_session(), recording.transactions()[-1].pk)
    before = before_images(reading_session(), [change])[change.transaction_id, change.seq]
    assert dict(before.image) == {"id": "1", "w": "b"}
