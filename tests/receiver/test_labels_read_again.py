"""Find knows the labels that an enum was given while its slot's receiver went on."""

import pytest

from replview.access import enum_labels
from replview.access.visibility import reading_session
from replview.store.models import Source
from replview.store.read.changes.search import find_changes
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.value_filter import WhereProblem

pytestmark = pytest.mark.slow


def found(slot, where: str) -> list[str]:
    wanted = WantedChanges.from_words(slot, {"table": "public.ticket", "where": where})
    assert not wanted.trouble
    answer = find_changes(reading_session(), wanted, budget_seconds=60)
    return sorted(change.new["id"] for _, change in answer.rows)


@pytest.fixture
def tickets(source, record, monkeypatch):
    """A recording of a table with an enum, and a domain over it, that were altered meanwhile."""
    monkeypatch.setattr(enum_labels, "_labels_by_type", {})
    source.run("CREATE TYPE moods AS ENUM ('sad', 'ok', 'glad')")
    source.run("CREATE DOMAIN any_mood AS moods")
    source.run("CREATE TABLE ticket (id int PRIMARY KEY, mood moods, late any_mood)")
    recording = record(source)
    source.run("INSERT INTO ticket VALUES (1, 'sad', 'sad'), (2, 'ok', 'ok')")
    recording.caught_up()
    source.run("ALTER TYPE moods ADD VALUE 'meh' BEFORE 'ok'")
    source.run("ALTER TYPE moods RENAME VALUE 'glad' TO 'happy, really'")
    source.run("INSERT INTO ticket VALUES (3, 'meh', 'meh')")
    source.run("INSERT INTO ticket VALUES (4, 'happy, really', 'happy, really')")
    recording.caught_up()
    recording.end()
    Source.objects.update(conninfo=source.dsn)
    return recording.slot


@pytest.mark.parametrize("column", ["mood", "late"])
def test_a_label_that_came_meanwhile_is_found(tickets, column) -> None:
    assert found(tickets, f"{column} = meh") == ["3"]
    assert found(tickets, f"{column} = 'happy, really'") == ["4"]
    assert found(tickets, f"{column} < meh") == ["1"]
    assert found(tickets, f"{column} >= meh") == ["2", "3", "4"]
    # A condition that the former labels would have been enough for is read with the new ones.
    assert found(tickets, f"{column} > sad and {column} != meh") == ["2", "4"]


def test_what_is_no_label_is_refused_with_those_that_there_are(tickets, signed_in) -> None:
    with pytest.raises(WhereProblem, match=r"it had sad, meh, ok, happy, really$"):
        found(tickets, "mood = angry")
    words = {"slot": str(tickets), "tables": "public.ticket", "where": "mood = meh"}
    answer = signed_in.get("/api/v1/history", words)
    assert answer.status_code == 200, answer.content
    assert [item["new"]["id"] for item in answer.json()["items"]] == ["3"]


def test_a_source_that_is_away_is_asked_once(tickets, monkeypatch) -> None:
    Source.objects.update(conninfo="host=127.0.0.1 port=1 dbname=none")
    asked = []
    reading = enum_labels.reading

    def counted(*args, **options):
        asked.append(args)
        return reading(*args, **options)

    monkeypatch.setattr(enum_labels, "reading", counted)
    for _ in range(3):
        with pytest.raises(WhereProblem, match="meh is no value of it"):
            found(tickets, "mood = meh")
    assert len(asked) == 1
    # Labels that are no longer valid are dropped.
    enum_labels._labels_by_type |= {(0, oid): (-1e9, None) for oid in range(9)}
    monkeypatch.setattr(enum_labels, "_PAUSE_SECONDS", 0.0)
    with pytest.raises(WhereProblem, match="meh is no value of it"):
        found(tickets, "mood = meh")
    assert len(enum_labels._labels_by_type) == 1
