"""Every answer from the record matches what the source's triggers noted of random histories."""

import datetime as dt
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from traceback import extract_tb
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from decoder.scalars import LSN
from replview.acts.publications import look_at_publications
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store.dsn import set_dsn
from tests.support.api_program import program as program  # a fixture
from tests.support.api_program import user as user  # a fixture
from tests.support.baselines import take
from tests.support.histories import Histories
from tests.support.history_tables import Table, literal
from tests.support.named_histories import Named, chosen
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase, fresh_database

pytest.register_assert_rewrite("tests.store.read.answers", "tests.store.read.shown")
from tests.store.read import answers, shown  # noqa: E402

pytestmark = pytest.mark.slow

#: Plays the histories of a name on a database of their own.
Stage = Callable[..., Any]
_NAMES = chosen()
#: CI's main run plays so many of them each time, the first ones.
_EVERY_TIME = 1
_CASES = [
    pytest.param(name, id=str(name), marks=pytest.mark.long if number >= _EVERY_TIME else ())
    for number, name in enumerate(_NAMES)
]


@pytest.fixture(autouse=True)
def often(settings) -> None:
    """Make the receiver store the results of its catalog reads soon."""
    settings.HEARTBEAT_SECONDS = 0.1


@pytest.fixture
def stage(source_cluster: EmbeddedPostgres, record: Callable[..., Recording]) -> Stage:
    """Histories that are about to begin, and their recording, which has begun."""

    @contextmanager
    def begun(
        name: Named, *, switches: bool = False, partitions: str = ""
    ) -> Iterator[tuple[Histories, Recording]]:
        with contextmanager(fresh_database)(source_cluster) as source:
            histories = Histories(source, name, switches=switches, partitions=partitions)
            histories.create()
            publish = "TABLES IN SCHEMA public"
            if partitions:
                names = ", ".join(table.name for table in histories.tables)
                by_root = partitions == "root"
                publish = f"TABLE {names} WITH (publish_via_partition_root = {by_root})"
            recording = record(source, publish=publish)
            try:
                yield histories, recording
            finally:
                recording.end()

    return begun


@pytest.mark.parametrize("name", _CASES)
def test_every_answer_is_what_the_source_knows(
    name: Named, stage: Stage, program: Client, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Client()
    browser.force_login(user)
    _hold(name, lambda each: _play(each, stage, program, browser, monkeypatch))


def _hold(name: Named, play: Callable[[Named], None]) -> None:
    """Play it; a failure names the least that fails, too, unless ``SEEDS`` named this one."""
    try:
        play(name)
    except Exception as error:
        name.note(error)
        if not os.environ.get("SEEDS"):
            place = _place(error)
            name.smaller(lambda each: _fails_at(each, play) == place).note(error)
        raise


def _fails_at(name: Named, play: Callable[[Named], None]) -> str | None:
    try:
        play(name)
    except Exception as error:
        return _place(error)
    return None


def _place(error: Exception) -> str:
    """The line of the comparison that failed: what fails elsewhere is another failure."""
    compared = (answers.__file__, shown.__file__)
    found = (f for f in extract_tb(error.__traceback__) if f.filename in compared)
    return next((f"{f.filename}:{f.lineno}" for f in found), "")


def _play(
    name: Named, stage: Stage, program: Client, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stage(name) as (histories, recording):
        histories.play(90, partial(shown.hold_in_flight, recording, browser))
        recording.caught_up()
        for table in histories.random.sample(histories.tables, min(2, len(histories.tables))):
            take(recording, f"public.{table.called}")
            with histories.source.connect() as session:
                histories.baselines[table.name] = histories.held(session, table)
        histories.play(90)
        recording.end()
        # The receiver reads this later than the source's catalog has come to be.
        histories.play(60)
        if histories.commits:
            answers.hold_that_it_is_behind(answers.Played(histories, recording, {}, {}))
        recording.start()
        histories.play(60)
        recording.looked()
        recording.end()
        played = answers.played(histories, recording)
        limited = answers.hold_in_parts(played, monkeypatch)
        answers.hold_from_the_index(played, monkeypatch)
        answers.hold(played, program, browser)
        shown.hold_pages(played, browser)
        if histories.name.is_whole:
            assert limited
            _is_streamed(played)


def _is_streamed(played: answers.Played) -> None:
    streamed = [t.streamed for t in played.transactions.values()]
    assert any(streamed)
    assert not all(streamed) or any(t.aborted_changes for t in played.transactions.values())


@pytest.mark.parametrize("name", _CASES[::3])
def test_what_a_gap_swallowed_is_unknown_and_nothing_false_is_told(
    name: Named, stage: Stage
) -> None:
    _hold(name, lambda each: _play_with_gap(each, stage))


def _play_with_gap(name: Named, stage: Stage) -> None:
    """The slot is dropped, made again after a while, and half of the tables are read whole."""
    with stage(name) as (histories, recording):
        histories.play(120)
        recording.caught_up()
        recording.end()
        first, slot = len(histories.commits), recording.slot.name
        histories.source.run(f"SELECT pg_drop_replication_slot('{slot}')")
        histories.play(60)
        again = len(histories.commits)
        inside, at = _here(histories.source)
        histories.source.create_slot(slot)
        recording.start()
        recording.streaming()
        for table in histories.tables[::2]:
            take(recording, f"public.{table.called}")
        histories.play(120)
        recording.caught_up()
        recording.end()
        assert recording.slot.events.filter(kind="gap").count() == 1
        played = answers.played(histories, recording)
        answers.hold_around(answers.Gapped(played, (first, again), inside, at))


@pytest.mark.parametrize("name", _CASES[::3])
def test_rows_are_unknown_while_another_index_tells_them_apart_and_nothing_false_is_told(
    name: Named, stage: Stage
) -> None:
    _hold(name, lambda each: _play_with_switches(each, stage))


def _play_with_switches(name: Named, stage: Stage) -> None:
    """Replica identities move from one unique index to another, in transactions and between."""
    with stage(name, switches=True) as (histories, recording):
        histories.play(200)
        recording.caught_up()
        recording.end()
        answers.hold_what_is_told(answers.played(histories, recording))


def _filtered(table: Table) -> str:
    """A table in a publication, but for the rows of one key."""
    return f"{table.called} WHERE (id <> {literal(table.key(1)['id'])})"


def _narrowed(table: Table) -> str:
    """A table in a publication with some of its columns, where these tell its rows apart."""
    columns = ", ".join(("rid", *table.key_columns, "n"))
    return table.called if table.identity == "FULL" else f"{table.called} ({columns})"


def _each(histories: Histories, entry: Callable[[Table], str]) -> str:
    entries = ", ".join(map(entry, histories.tables))
    return f"ALTER PUBLICATION {{name}} SET TABLE {entries}"


def _detached(histories: Histories) -> str:
    return "; ".join(histories.detach())


def _attached(histories: Histories) -> str:
    return "; ".join(histories.attach())


def _always(statement: str) -> Callable[[Histories], str]:
    return lambda _: statement


_EVERYTHING = _always("ALTER PUBLICATION {name} SET TABLES IN SCHEMA public")
_ALL_OPERATIONS = _always(
    "ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')"
)


@dataclass(frozen=True)
class _Lapse:
    """Statements that stop publishing tables, rows, columns or operations, and that resume it."""

    begins: Callable[[Histories], str]
    ends: Callable[[Histories], str] = _EVERYTHING
    #: See ``Histories.partitions``.
    partitions: str = ""


_LAPSES = (
    _Lapse(_always("ALTER PUBLICATION {name} DROP TABLES IN SCHEMA public")),
    _Lapse(_always("ALTER PUBLICATION {name} SET (publish = 'insert')"), _ALL_OPERATIONS),
    _Lapse(_always("ALTER PUBLICATION {name} SET (publish = 'update')"), _ALL_OPERATIONS),
    _Lapse(_always("ALTER PUBLICATION {name} SET (publish = 'insert, update')"), _ALL_OPERATIONS),
    _Lapse(lambda histories: _each(histories, _filtered)),
    _Lapse(lambda histories: _each(histories, _narrowed)),
    _Lapse(
        _always("DROP PUBLICATION {name}"),
        _always("CREATE PUBLICATION {name} FOR TABLES IN SCHEMA public"),
    ),
    _Lapse(_detached, _attached, "leaves"),
    _Lapse(_detached, _attached, "root"),
)


@pytest.mark.parametrize("name", _CASES[::3])
def test_what_was_not_published_for_a_time_is_unknown_and_nothing_false_is_told(
    name: Named, stage: Stage
) -> None:
    _hold(name, lambda each: _play_with_lapse(each, stage))


def _play_with_lapse(name: Named, stage: Stage) -> None:
    """The tables are not published for a while, or not all of it; it is seen then, or later."""
    dice = random.Random(f"{name.seed}/lapse")
    lapse = dice.choice(_LAPSES)
    with stage(name, partitions=lapse.partitions) as (histories, recording):
        set_dsn(recording.slot.source, histories.source.dsn)
        recording.slot.source.save()
        look_at_publications(recording.slot.source)
        histories.play(90)
        recording.caught_up()
        look_at_publications(recording.slot.source)
        first = len(histories.commits)
        publication = recording.slot.name
        histories.source.run(lapse.begins(histories).format(name=publication))
        if dice.random() < 0.5:
            look_at_publications(recording.slot.source)
        histories.play(60)
        again = len(histories.commits)
        inside, at = _here(histories.source)
        histories.source.run(lapse.ends(histories).format(name=publication))
        histories.play(30)
        look_at_publications(recording.slot.source)
        histories.play(120)
        recording.caught_up()
        recording.end()
        played = answers.played(histories, recording, range(first, again))
        lost = (first, again)
        answers.hold_around_lapse(answers.Gapped(played, lost, inside, at, is_lapse=True))


def _here(source: SourceDatabase) -> tuple[int, dt.datetime]:
    with source.connect() as session:
        row = session.execute("SELECT pg_current_wal_lsn()::text, clock_timestamp()").fetchone()
    assert row is not None
    return int(LSN.parse(row[0])), row[1]
