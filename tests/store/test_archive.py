"""The archive's next slice is chosen, and its mark moves over archived transactions."""

import datetime as dt
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone

from replview.access.visibility import reading_session
from replview.store import instance_settings
from replview.store.models import (
    AbortedSubtransaction,
    AccessRecord,
    ArchiveMark,
    Slot,
    SlotEvent,
    Transaction,
)
from replview.store.read.coverage import coverage_of
from replview.store.retention import archive, archived
from replview.store.retention import deletion as retention
from replview.store.retention import size as store_size
from replview.store.retention.archive import (
    SliceCounts,
    counts_of,
    difference,
    fail,
    move,
    next_step,
)
from replview.text.formats import day_second_words
from replview.ui.templatetags.evidence import coverage_words
from tests.support.days import Days, days_ago, the
from tests.support.days import history as history  # a fixture
from tests.support.history_rows import insert
from tests.support.people import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def days(history: Days) -> Days:
    """Five days of four transactions, stored when they were committed, with an archive."""
    lately = timezone.now() - dt.timedelta(seconds=1)
    for row in Transaction.objects.all():
        stored_at = min(row.commit_time or lately, lately)
        Transaction.objects.filter(pk=row.pk).update(stored_at=stored_at)
    instance_settings.write("archive.target", "/archive", "somebody")
    return history


def taken(days: Days, through: int | None = None) -> int:
    """Have the next step done, or all up to a place; how far it is."""
    while step := next_step():
        assert move(step, step.through_seq, counts_of(step.incarnation_id, step.after_seq,
                                                      step.through_seq), 10)  # fmt: skip
        if through is None or step.through_seq >= through:
            return step.through_seq
    return 0


def test_a_day_goes_at_once_where_all_of_it_is_old_enough(days: Days) -> None:
    ends = []
    while end := taken(days):
        ends.append(end)
    # Younger than a day: yesterday's afternoon at the latest.
    assert ends[:3] == [4, 8, 12]
    assert all(Transaction.objects.get(commit_seq=end).commit_time
               < timezone.now() - dt.timedelta(hours=24) for end in ends)  # fmt: skip
    mark = ArchiveMark.objects.get()
    assert (mark.since_seq, mark.changes, mark.transactions) == (1, mark.through_seq,
                                                                 mark.through_seq)  # fmt: skip
    assert mark.through_lsn is not None
    assert mark.through_time == Transaction.objects.get(commit_seq=mark.through_seq).commit_time


def test_nothing_goes_without_a_target_nor_before_it_is_old_enough(days: Days) -> None:
    instance_settings.write("archive.after_hours", 24 * 30, "somebody")
    assert next_step() is None
    instance_settings.write("archive.after_hours", None, "somebody")
    assert next_step() is not None
    instance_settings.write("archive.target", None, "somebody")
    assert next_step() is None


def test_one_that_is_too_young_holds_back_all_after_it(days: Days) -> None:
    Transaction.objects.filter(commit_seq=3).update(stored_at=timezone.now())
    step = next_step()
    assert step is not None
    assert step.through_seq == 2


def test_a_slice_has_bounded_changes_and_what_is_little_waits(days: Days, monkeypatch) -> None:
    monkeypatch.setattr(archive, "MOST_CHANGES", 3)
    assert [taken(days), taken(days)] == [3, 4]
    # A few transactions of a day that is not over wait for more, but not for ever.
    instance_settings.write("archive.after_hours", 0, "somebody")
    monkeypatch.setattr(archive, "MOST_CHANGES", 1_000)
    taken(days, 16)
    now = timezone.now()
    Transaction.objects.filter(commit_seq__gt=16).update(stored_at=now - dt.timedelta(seconds=1))
    if now.hour == 0 and now.minute == 0:
        pytest.skip("a day has just begun")
    assert next_step() is None, "written a moment ago"
    ArchiveMark.objects.update(moved_at=now - dt.timedelta(hours=7), checked_at=None)
    assert taken(days) == 20


def test_rows_are_counted_not_what_was_noted_of_them(days: Days) -> None:
    key = str(days.orders.relation_id)
    update = {"op": "U", "new": {"id": "1"}}
    days.on(days_ago(0), insert(1), {**insert(2), "subxid": 9}, update, {"op": "M", "new": {}},
            relations={key: [9, 9, 9, 9]})  # fmt: skip
    AbortedSubtransaction.objects.create(
        transaction_id=Transaction.objects.get(commit_seq=21).pk, subxid=9
    )
    found = counts_of(days.incarnation.pk, 20, 21)
    assert found.transactions == 1
    assert found.changes == {(16384, "insert"): 1, (16384, "update"): 1, (None, "message"): 1}


def test_the_mark_stays_where_the_archive_has_something_else(days: Days) -> None:
    stored = counts_of(days.incarnation.pk, 0, 4)
    assert stored == SliceCounts(4, {(16384, "insert"): 4})
    assert difference(stored, SliceCounts(4, {(16384, "insert"): 4})) == ""
    assert "3 inserts of the table with oid 16384" in difference(
        stored, SliceCounts(4, {(16384, "insert"): 3})
    )
    assert "1 deletes" in difference(
        stored, SliceCounts(4, {**stored.changes, (16384, "delete"): 1})
    )
    assert "3 transactions" in difference(stored, SliceCounts(3, stored.changes))
    step = next_step()
    assert step is not None
    fail(step, "no space is left there", "make room")
    fail(step, "no space is left there", "make room")
    assert ArchiveMark.objects.get().through_seq == 0
    assert next_step() is None, "a while later"
    assert [e.message for e in SlotEvent.objects.filter(kind="archive")] == [
        "Archiving failed: no space is left there."
    ]
    ArchiveMark.objects.update(checked_at=None)
    assert taken(days) == 4
    assert not move(step, 4, stored, 1), "another was quicker"
    assert ArchiveMark.objects.get().problem == ""
    assert SlotEvent.objects.filter(kind="archive").count() == 2


def test_a_day_is_kept_until_all_of_it_is_in_the_archive(days: Days) -> None:
    assert retention.drop_day(the(4)) is None
    assert retention.why_kept(the(4)) == (
        f"{the(4)} is not in the archive yet: shop/replview is not archived at all."
    )
    # Committed on the day after, it belongs to its first day all the same.
    late = days.on(days_ago(4, 23), insert(99), committed=days_ago(3))
    Transaction.objects.filter(pk=late).update(stored_at=days_ago(3))
    taken(days)
    assert "is archived up to" in retention.why_kept(the(4))
    instance_settings.write("archive.after_hours", 0, "somebody")
    instance_settings.write("archive.every_seconds", 0, "somebody")
    taken(days, 21)
    assert ArchiveMark.objects.get().through_seq == 21
    assert retention.why_kept(the(4)) == ""

    first = Transaction.objects.get(commit_seq=1)
    assert retention.drop_day(the(4)) is not None
    place = archived.place_of(first.pk)
    assert place is not None
    assert (place.commit_seq, place.target, place.slot) == (1, "/archive", "replview")
    # Another archive that began later is not asked for what came before.
    ArchiveMark.objects.create(
        incarnation=days.incarnation,
        target="/other",
        through_seq=21,
        since_seq=5,
        moved_at=timezone.now(),
    )
    instance_settings.write("archive.target", "/other", "somebody")
    assert archived.place_of(first.pk) == place
    instance_settings.write("archive.target", "/archive", "somebody")
    assert archived.place_of(late) == archived.place_at(days.incarnation.pk, 21)
    assert archived.place_of(first.pk - 1) is None
    assert archived.place_of(late + 1) is None


def test_without_an_archive_and_of_slots_that_are_removed_a_day_goes(days: Days) -> None:
    Slot.objects.update(desired=Slot.Desired.REMOVING)
    assert retention.why_kept(the(4)) == ""
    Slot.objects.update(desired=Slot.Desired.RUNNING)
    assert retention.why_kept(the(4))
    instance_settings.write("archive.target", None, "somebody")
    assert retention.drop_day(the(4)) is not None


def test_coverage_says_since_when_the_store_and_the_archive_answer(days: Days) -> None:
    assert coverage_words(coverage_of(reading_session(), days.slot)).archived is None
    taken(days)
    # The archive is not mentioned as long as the store has as much.
    assert coverage_words(coverage_of(reading_session(), days.slot)).archived is None
    assert retention.drop_day(the(4)) is not None
    output = coverage_words(coverage_of(reading_session(), days.slot)).archived
    assert output is not None
    assert output.since == days_ago(4, 2)


def test_the_budget_waits_for_the_archive_and_says_so(days: Days) -> None:
    instance_settings.write("store.budget_bytes", 1, "somebody")
    store_size.enforce()
    assert Transaction.objects.count() == 20
    assert f"{the(4)} is not in the archive yet" in store_size.measure().stuck
    taken(days)
    store_size.enforce()
    assert Transaction.objects.count() == 16
    assert f"{the(3)} is not in the archive yet" in store_size.measure().stuck


def test_the_command_chooses_a_target_once_it_was_written_to(
    history: Days, settings, tmp_path
) -> None:  # fmt: skip
    def run(*words: str) -> str:
        out = StringIO()
        call_command("store", *words, stdout=out)
        return out.getvalue()

    settings.STORE_URL = "postgresql://the-test-store/"
    assert "no archive: set one with" in run("archive")
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="a part of the path is a file"):
        run("archive", str(tmp_path / "file"))
    with pytest.raises(CommandError, match="holds credentials"):
        run("archive", "s3://me:secret@bucket/x")
    with pytest.raises(CommandError, match="write archive URL"):
        run("archives")
    with pytest.raises(CommandError, match="between 0 and"):
        run("archive", "--after-hours=-1")
    assert archive.chosen().target is None
    output = run("archive", str(tmp_path / "a"), "--after-hours", "48")
    assert archive.chosen() == archive.Choice(str(tmp_path / "a"), 48, 21_600)
    assert "shop/replview: nothing is archived yet; 20 transactions not archived yet" in output
    assert "longer than 48 h ago" in output
    assert "archiving is off" in run("archive", "off")
    assert archive.chosen().target is None


def test_the_store_page_tells_how_far_it_is_and_what_is_in_its_way(
    days: Days, admin_client
) -> None:
    taken(days)
    step = next_step()
    assert step is not None
    fail(step, "<b>no space</b>", "make room")
    page = admin_client.get("/store/").content.decode()
    assert "/archive" in page
    assert "Archiving fails: &lt;b&gt;no space&lt;/b&gt;. Make room" in page
    instance_settings.write("archive.target", None, "somebody")
    assert "replview store archive URL" in admin_client.get("/store/").content.decode()


def test_the_page_chooses_a_target_once_it_was_written_to(
    days: Days, admin_client, tmp_path
) -> None:
    def choose(target: str, after: str = "24", every: str = "6"):
        words = {"target": target, "after_hours": after, "every_hours": every}
        return admin_client.post("/store/archive/", words)

    (tmp_path / "file").touch()
    for target, words in (
        (str(tmp_path / "file"), "A part of the path is a file. Choose a path of folders."),
        ("http://169.254.169.254/", "http:// is not allowed as a target"),
        ("s3://me:secret@bucket/x", "has a name or a password in it"),
        ("../elsewhere", "has .. in it"),
        ("", "No target is named"),
        (str(tmp_path / "<b>"), "Write the current day every: write hours, from 0 to 24"),
    ):
        every = "99" if "<b>" in target else "6"
        answer = choose(target, every=every)
        page = answer.content.decode()
        assert (answer.status_code, words.lower() in page.lower()) == (422, True), target
        assert "/<b>" not in page
        wrong = "every_hours" if "<b>" in target else "target"
        assert f'aria-describedby="id_{wrong}_helptext id_{wrong}_error"' in page
        wrong = "every_hours" if "<b>" in target else "target"
        assert f'aria-describedby="id_{wrong}_helptext id_{wrong}_error"' in page
    assert archive.chosen().target == "/archive", "as it was"

    assert choose(str(tmp_path / "a"), after="1.5")["Location"] == "/store/#archive"
    assert archive.chosen() == archive.Choice(str(tmp_path / "a"), 1.5, 21_600)
    record = AccessRecord.objects.order_by("id").values_list("subject", flat=True)
    assert list(record)[-2:] == ["the archive: after_hours 1.5", f"the archive: {tmp_path / 'a'}"]
    # A request archives what is not due yet, and tries at once what failed.
    instance_settings.write("archive.after_hours", 24 * 30, "somebody")
    assert next_step() is None
    assert admin_client.post("/store/archive/now/").status_code == 302
    assert "Archiving everything was requested" in admin_client.get("/store/").content.decode()
    assert taken(days, 20) == 20
    page = admin_client.get("/store/").content.decode()
    assert "Archiving everything was requested" not in page
    viewer = Client()
    viewer.force_login(make_user("vera", "viewer"))
    assert (
        viewer.get("/store/").content.decode().count('disabled title="needs the role admin"') == 4
    )
    begins = f">{day_second_words(days_ago(4, 2))}<"
    assert page.count(begins) == 2, "the store's, the archive's"
    assert admin_client.post("/store/archive/off/").status_code == 302
    assert archive.chosen().target is None
    assert f'value="{tmp_path / "a"}"' in admin_client.get("/store/").content.decode()
