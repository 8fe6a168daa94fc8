"""Exports are claimed by one worker at a time, and what becomes of each stays recorded."""

import pytest
from django.db import connection

from replview.jobs import exports
from replview.jobs.exports import AlreadyRunning
from replview.store.models import Export
from tests.support.history_rows import History

#: Begun so often, an export is given up.
MOST_ATTEMPTS = 5
pytestmark = pytest.mark.django_db


@pytest.fixture
def history() -> History:
    """A slot."""
    return History()


def asked(
    history: History, *, how: str = Export.How.PAGE, name: str = "", target: str = "/tmp/x",
    after_seq: int = 0,
) -> Export:  # fmt: skip
    return Export(
        slot=history.slot, slice={"after_seq": after_seq}, target=target, requested_by="alice",
        requested_how=how, name=name,
    )  # fmt: skip


def lost(claim: Export) -> None:
    """Make the last heartbeat of the export's worker an hour old."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE export SET heartbeat_at = heartbeat_at - interval '1 hour'")


def test_one_worker_alone_has_it(history: History) -> None:
    row = exports.request(asked(history))
    claim = exports.rows.claim()

    assert claim is not None
    assert claim.pk == row.pk
    assert exports.rows.claim() is None
    assert exports.rows.beat(claim, rows=7)
    assert Export.objects.get().rows == 7


def test_whoever_lost_it_changes_nothing_any_more(history: History) -> None:
    exports.request(asked(history))
    first = exports.rows.claim()
    assert first is not None
    lost(first)
    exports.give_back_lost()
    second = exports.rows.claim()
    assert second is not None

    assert not exports.rows.beat(first, rows=1)
    assert not exports.rows.finish(first, result={})
    assert not exports.rows.fail(first, "x", "y")
    assert exports.rows.finish(second, result={"files": []}, rows=2)
    row = Export.objects.get()
    assert (row.state, row.rows, row.attempts) == ("done", 2, 2)


def test_one_that_takes_every_worker_along_is_given_up(history: History) -> None:
    exports.request(asked(history))
    for _ in range(MOST_ATTEMPTS):
        claim = exports.rows.claim()
        assert claim is not None
        lost(claim)
        exports.give_back_lost()

    assert exports.rows.claim() is None
    row = Export.objects.get()
    assert row.state == "failed"
    assert "5 times" in row.problem_cause


def test_a_worker_that_stops_did_not_fail_it(history: History) -> None:
    exports.request(asked(history))
    for _ in range(MOST_ATTEMPTS + 2):
        claim = exports.rows.claim()
        assert claim is not None
        assert exports.rows.give_back(claim)

    assert exports.rows.claim() is not None


def test_a_commands_export_is_its_own(history: History) -> None:
    row = exports.request(asked(history, how=Export.How.COMMAND))
    assert exports.rows.claim() is None
    assert exports.rows.beat(row, rows=1)

    lost(row)
    exports.give_back_lost()
    row.refresh_from_db()
    assert (row.state, row.problem_cause) == ("failed", "the command that wrote it was ended")


def test_a_cancelled_one_is_told_so_at_its_next_sign_of_life(history: History) -> None:
    row = exports.request(asked(history))
    claim = exports.rows.claim()
    assert claim is not None
    assert exports.rows.cancel(row.pk)

    assert not exports.rows.beat(claim)
    assert not exports.rows.cancel(row.pk)
    assert Export.objects.get().state == "cancelled"


def test_a_name_has_one_export_at_a_time(history: History) -> None:
    exports.request(asked(history, name="nightly"))
    with pytest.raises(AlreadyRunning):
        exports.request(asked(history, name="nightly"))
    exports.request(asked(history, name="hourly", target="/tmp/y"))
    claim = exports.rows.claim()
    assert claim is not None
    exports.rows.finish(claim, result={})

    last = exports.last_done(history.slot, "nightly")
    assert last is not None
    assert last.pk == claim.pk


@pytest.mark.parametrize("how", [Export.How.PAGE, Export.How.API, Export.How.COMMAND])
def test_a_slice_is_written_into_a_target_by_one_export_at_a_time(
    history: History, how: str
) -> None:
    first = exports.request(asked(history))
    with pytest.raises(AlreadyRunning, match=f"export {first.pk} of the same slice .* is waiting"):
        exports.request(asked(history, how=how))
    exports.request(asked(history, how=how, target="/tmp/y"))
    exports.request(asked(history, how=how, after_seq=3))
    assert exports.rows.cancel(first.pk)
    exports.request(asked(history, how=how))


def test_the_record_outlives_the_slot(history: History) -> None:
    exports.request(asked(history))
    history.slot.delete()

    row = Export.objects.get()
    assert (row.slot, row.slot_name, row.requested_by) == (None, "shop/replview", "alice")
