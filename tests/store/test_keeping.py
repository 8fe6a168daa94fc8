"""Retention by slot: days go by age and by size, whole or in shares; what is left is right."""

import datetime as dt
import time

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store import instance_settings
from replview.store.models import (
    AccessRecord,
    Baseline,
    Change,
    HistoryBlock,
    KeptDay,
    RelationActivity,
    Slot,
    SlotEvent,
    StoreMoment,
    Transaction,
)
from replview.store.read.coverage import coverage_of
from replview.store.read.days import first_id_of
from replview.store.read.row_history.as_of import row_as_of
from replview.store.retention import day_sizes as kept_days
from replview.store.retention import deletion as retention
from replview.store.retention import forecast
from replview.store.retention import policy as keeping
from replview.store.retention import shares as retention_shares
from replview.store.retention import size as store_size
from replview.store.retention.forecast import loss_of
from replview.store.retention.policy import (
    DayContents,
    Keeping,
    change_keeping,
    days_of,
    doomed_through,
    enforce,
)
from replview.store.sums import activity
from replview.store.write.partitions import ensure_partitions
from tests.support.days import Days, days_ago, row, the, today
from tests.support.people import make_user

pytestmark = pytest.mark.django_db

DAYS = (6, 5, 4, 3, 2, 1, 0)


@pytest.fixture
def two(monkeypatch) -> tuple[Days, Days]:
    """Two slots with three transactions a day each, of seven days."""
    monkeypatch.setattr(activity, "BLOCK", 10)
    monkeypatch.setattr("replview.store.read.history_places.BLOCK", 10)
    monkeypatch.setattr(retention, "BLOCK", 10)
    # Within the test's transaction, which this begins.
    slots = Days("orders"), Days("audit")
    ensure_partitions(connection.connection, the(6), today().date())
    for history in slots:
        history.incarnation.started_at, history.incarnation.started_lsn = days_ago(6, 1), LSN(10)
        for day in DAYS:
            for number in range(3):
                moment = days_ago(day, 0.01 + number / 1000)
                history.on(moment, row(10 * day + number), size_bytes=150)
        history.slot.last_commit_time = days_ago(0, 3)
        history.slot.checkpoint_lsn = LSN(50_000)
        history.slot.save()
    activity.roll(time.monotonic() + 60)
    return slots


def keep(history: Days, days: int | None = None, size: int | None = None) -> None:
    change_keeping(history.slot, Keeping(days, size), by="ann")


def left(history: Days) -> list[int]:
    """Return how many days ago each transaction of the history was committed."""
    found = Transaction.objects.filter(incarnation=history.incarnation).order_by("pk")
    return [(today().date() - one.commit_time.date()).days for one in found if one.commit_time]


def expected(*days: int) -> list[int]:
    return [day for day in days for _ in range(3)]


def partitions() -> list[dt.date]:
    return [day for day, _ in kept_days.partitions() if day <= today().date()]


def no_change_without_its_transaction() -> bool:
    return not Change.objects.exclude(transaction_id__in=Transaction.objects.values("pk")).exists()


def test_where_all_slots_agree_days_go_whole(two: tuple[Days, Days], monkeypatch) -> None:
    monkeypatch.setattr(retention_shares, "delete", lambda *_: pytest.fail("row by row"))
    for history in two:
        keep(history, 3)
    enforce()

    assert partitions() == [the(day) for day in (3, 2, 1, 0)]
    for history in two:
        assert left(history) == expected(3, 2, 1, 0)
        assert coverage_of(reading_session(), history.slot).recorded_since > days_ago(4, 0)
    assert instance_settings.read("retention.last_day", None) == str(the(4))
    enforce()
    assert left(two[0]) == expected(3, 2, 1, 0)


def test_where_they_differ_a_share_goes_and_the_other_stays_whole(two: tuple[Days, Days]) -> None:
    orders, audit = two
    before = coverage_of(reading_session(), audit.slot)
    keep(orders, 3)
    enforce()

    assert left(orders) == expected(3, 2, 1, 0)
    assert left(audit) == expected(*DAYS)
    assert Change.objects.count() == 12 + 21
    assert no_change_without_its_transaction()
    assert partitions()[0] == the(6)
    assert coverage_of(reading_session(), audit.slot) == before
    assert not coverage_of(reading_session(), orders.slot).says_no_change(days_ago(5), days_ago(4))
    assert coverage_of(reading_session(), orders.slot).says_no_change(days_ago(3, 12), days_ago(2))
    assert coverage_of(reading_session(), audit.slot).says_no_change(
        days_ago(5, 12), days_ago(5, 13)
    )
    then = row_as_of(
        reading_session(), orders.slot, orders.orders.relation_id, {"id": "1"}, moment=days_ago(5)
    )
    assert (then.exists, then.why) == (None, "before the record")
    assert SlotEvent.objects.filter(kind="retention", slot=audit.slot).count() == 0
    assert SlotEvent.objects.filter(kind="retention", slot=orders.slot).count() == 3

    # Once the other lets go of them, the partitions go, too.
    keep(audit, 3)
    enforce()
    assert partitions() == [the(day) for day in (3, 2, 1, 0)]


def test_the_sums_are_those_of_what_is_left(two: tuple[Days, Days]) -> None:
    def sums():
        return [
            list(one.objects.order_by("pk").values()) for one in (HistoryBlock, RelationActivity)
        ]

    keep(two[0], 3)
    enforce()
    before = sums()
    for history in two:
        activity.forget(history.incarnation.pk)
    activity.roll(time.monotonic() + 60)
    assert before[1] == sums()[1]
    assert before[0] == [block for block in sums()[0] if block["transactions"]]


@pytest.mark.parametrize("where", ["delete_all_changes", "_take_piece", "recount", "others"])
def test_a_crash_in_the_middle_of_a_share_ends_as_none_would(
    two: tuple[Days, Days], monkeypatch, where: str
) -> None:
    orders, audit = two
    monkeypatch.setattr(retention_shares, "TOGETHER", 2)
    owner, name = {
        "delete_all_changes": (retention_shares.tidy, "delete_all_changes"),
        "_take_piece": (retention_shares, "_take_piece"),
        "recount": (retention, "recount"),
        "others": (retention_shares, "others_have_some"),
    }[where]
    real, calls = getattr(owner, name), []

    def crashes(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given)

    keep(orders, 4)
    monkeypatch.setattr(owner, name, crashes)
    with pytest.raises(KeyboardInterrupt):
        enforce()
    assert not coverage_of(reading_session(), orders.slot).says_no_change(
        days_ago(6, 0.01), days_ago(5)
    )
    enforce()

    assert not retention.is_under_way()
    assert left(orders) == expected(4, 3, 2, 1, 0)
    assert left(audit) == expected(*DAYS)
    assert no_change_without_its_transaction()


def test_a_large_transaction_goes_in_windows(two: tuple[Days, Days], monkeypatch) -> None:
    monkeypatch.setattr(retention_shares.tidy, "WINDOW", 4)
    orders, _ = two
    orders.on(days_ago(6, 0.02), *(row(100 + number) for number in range(15)))
    keep(orders, 5)
    enforce()
    assert left(orders) == expected(5, 4, 3, 2, 1, 0)
    assert no_change_without_its_transaction()


@pytest.mark.parametrize("state", ["streaming", "prepared", "copying"])
def test_an_open_transaction_keeps_its_slots_days_alone(two: tuple[Days, Days], state: str) -> None:
    orders, audit = two
    orders.on(days_ago(5, 0.02), row(1), state=state, gid="waits", commit_seq=None)
    for history in two:
        keep(history, 3)
    enforce()

    assert left(orders) == [5, 5, 5, 5, *expected(4, 3, 2, 1, 0)]
    assert left(audit) == expected(3, 2, 1, 0)
    assert "waits of shop/orders" in keeping.why_stuck(orders.slot)
    assert state in keeping.why_stuck(orders.slot)
    assert keeping.why_stuck(audit.slot) == ""

    Transaction.objects.filter(state=state).update(state="aborted")
    enforce()
    assert left(orders) == expected(3, 2, 1, 0)
    assert keeping.why_stuck(orders.slot) == ""


def test_no_day_goes_before_the_archive_has_it(two: tuple[Days, Days]) -> None:
    instance_settings.write("archive.target", "/nowhere", "test")
    orders, _ = two
    keep(orders, 3)
    enforce()
    assert left(orders) == expected(*DAYS)
    assert "not in the archive yet: shop/orders" in keeping.why_stuck(orders.slot)

    incarnation = orders.incarnation
    incarnation.archive_marks.create(target="/nowhere", through_seq=6)
    enforce()
    assert left(orders) == expected(4, 3, 2, 1, 0)


def test_days_go_until_the_rest_fits(two: tuple[Days, Days]) -> None:
    orders, audit = two
    enforce()
    sizes = {day.day: day.store_bytes for day in days_of(orders.slot.pk)}
    # In the first hour of a day nothing of it is counted yet.
    assert sizes.get(the(0)) is None
    assert all(sizes[the(day)] for day in DAYS[:-1])
    last_three = sum(sizes[the(day)] or 0 for day in (3, 2, 1))
    # Today's whole hours are counted, too: none of them is in the first hour of a day.
    of_today = keeping.today_share_bytes().get(orders.slot.pk, 0)
    Slot.objects.filter(pk=orders.slot.pk).update(keep_at_most_bytes=last_three + of_today)
    enforce()
    assert left(orders) == expected(3, 2, 1, 0)
    assert left(audit) == expected(*DAYS)
    if of_today:
        # Only as whole pages is the store's size known: today's share may outweigh a day.
        assert loss_of(orders.slot, Keeping(None, last_three)).last in (the(3), the(2))

    Slot.objects.filter(pk=orders.slot.pk).update(keep_at_most_bytes=1)
    enforce()
    assert left(orders) == expected(1, 0), "the last two days stay"
    assert "last two days alone" in keeping.why_stuck(orders.slot)


def test_what_goes_is_decided_by_whole_days() -> None:
    today = dt.date(2026, 11, 22)
    days = [
        DayContents(today - dt.timedelta(days=n), 1, 1, 10 if n else None) for n in range(9, -1, -1)
    ]

    def through(for_days: int | None, most: int | None, of_today: int = 0) -> int | None:
        last = doomed_through(Keeping(for_days, most), days, today, of_today)
        return None if last is None else (today - last).days

    assert through(None, None) is None
    assert through(7, None) == 8, "of the seventh day back something is younger"
    assert through(1, None) == 2
    assert through(30, None) is None
    assert through(None, 30) == 4
    assert through(None, 90) is None
    assert through(None, 90, 5) == 9
    assert through(7, 30) == 4
    assert through(3, 70) == 4
    assert through(None, 0) == 2


def test_what_would_be_lost_is_what_then_goes(two: tuple[Days, Days]) -> None:
    orders, _ = two
    Baseline.objects.create(
        slot=orders.slot, schema="public", table="orders", state="done",
        transaction_id=first_id_of(the(6)) + 1,
    )  # fmt: skip
    kept_days.count(time.monotonic() + 60)
    loss = loss_of(orders.slot, Keeping(4, None))

    assert (loss.first, loss.last, loss.days) == (the(6), the(5), 2)
    assert (loss.transactions, loss.changes, loss.baselines) == (6, 6, 1)
    assert loss.store_bytes > 0
    assert [name for name, _ in loss.tables] == ["public.orders"]
    assert loss.counted_through is None
    assert loss_of(orders.slot, Keeping(30, None)).nothing

    before = Transaction.objects.count(), Change.objects.count()
    keep(orders, 4)
    enforce()
    assert Transaction.objects.count() == before[0] - loss.transactions
    assert Change.objects.count() == before[1] - loss.changes


def test_days_that_were_not_counted_are_told_as_unknown_and_confirmed(
    client: Client, two: tuple[Days, Days]
) -> None:
    loss = loss_of(two[0].slot, Keeping(1, None))
    assert loss.counted_through is not None
    assert loss.nothing
    client.force_login(make_user("ada", "admin"))
    sent = {"keep_for": "1d", "keep_at_most": "none"}
    assert client.post("/slots/shop/orders/keeping/", sent).status_code == 422
    assert b"id_typed" in asked(client, **sent).content
    assert Slot.objects.get(name="orders").keep_for_days is None


def test_counting_again_counts_nothing_twice(two: tuple[Days, Days]) -> None:
    for _ in range(3):
        kept_days.count(time.monotonic() + 60)
    assert {day.transactions for day in days_of(two[0].slot.pk) if day.day != the(0)} == {3}
    assert KeptDay.objects.filter(day=the(1)).count() == 2
    if timezone.now().hour:
        assert days_of(two[0].slot.pk)[-1].transactions == 3


@pytest.mark.parametrize("keeping_", [Keeping(0, None), Keeping(40_000, None), Keeping(None, 10)])
def test_what_no_slot_can_keep_is_refused(two: tuple[Days, Days], keeping_: Keeping) -> None:
    with pytest.raises(ValueError, match="a slot keeps"):
        change_keeping(two[0].slot, keeping_, by="ann")


def test_a_slots_budget_of_the_store_still_deletes_whole_days(two: tuple[Days, Days]) -> None:
    kept_days.count(time.monotonic() + 60)
    assert retention.drop_day(the(6), why="to make room")
    assert not KeptDay.objects.filter(day=the(6)).exists()
    for history in two:
        assert left(history) == expected(5, 4, 3, 2, 1, 0)


# The forecast


def moment(hours: float, size: int, free: int | None = None) -> None:
    at = timezone.now() - dt.timedelta(hours=hours)
    StoreMoment.objects.create(at=at, size_bytes=size, free_bytes=free)


def test_the_forecast_is_of_what_fills_first(monkeypatch) -> None:
    monkeypatch.setattr(store_size, "size_now", lambda: 100 << 30)
    moment(150, 40 << 30)
    moment(20, 80 << 30, 50 << 30)
    found = forecast.forecast()
    assert (found.of, found.room_bytes) == ("disk", 50 << 30)
    assert found.week is not None
    assert found.days_left(found.week) == pytest.approx(50 / 60 * 150 / 24, rel=0.01)
    assert found.day is not None
    assert found.days_left(found.day) == pytest.approx(50 / 20 * 20 / 24, rel=0.01)

    instance_settings.write("store.budget_bytes", 110 << 30, "test")
    found = forecast.forecast()
    assert (found.of, found.room_bytes) == ("budget", 10 << 30)


def test_a_disk_that_fills_today_is_told_though_the_week_shrank(
    client: Client, monkeypatch
) -> None:
    monkeypatch.setattr(store_size, "size_now", lambda: 100 << 30)
    moment(150, 140 << 30)
    moment(12, 80 << 30, 10 << 30)
    found = forecast.forecast()
    assert found.days_left(found.week) is None, "many days were deleted"
    assert found.disk_days == pytest.approx(0.25, rel=0.01)
    client.force_login(make_user("ada", "admin"))
    page = client.get("/store/").content.decode()
    assert "Its disk is full in 6 hours at this rate." in page
    assert 'data-say="now|' in page


def test_unknown_stays_unknown(monkeypatch) -> None:
    found = forecast.forecast()
    assert (found.room_bytes, found.of, found.week, found.day) == (None, "", None, None)
    monkeypatch.setattr(store_size, "size_now", lambda: 100 << 30)
    moment(0.5, 10 << 30, 1 << 30)
    found = forecast.forecast()
    assert found.week is None, "half an hour tells nothing"
    assert found.days_left(found.week) is None
    moment(30, 100 << 30, 1 << 30)
    found = forecast.forecast()
    assert found.week is not None
    assert found.days_left(found.week) is None, "it does not grow"


def test_the_size_is_noted_with_what_the_disk_has_left() -> None:
    forecast.note_size()
    forecast.note_size()
    [noted] = StoreMoment.objects.all()
    assert noted.size_bytes > 1 << 20
    assert noted.free_bytes is None or noted.free_bytes > 0


def test_a_slots_forecast_levels_off(two: tuple[Days, Days]) -> None:
    kept_days.count(time.monotonic() + 60)
    orders, _ = two
    rate = forecast.of_slot(orders.slot).bytes_per_day
    assert rate
    keep(orders, 30)
    outlook = forecast.of_slot(orders.slot)
    assert outlook.levels_off_bytes == int(30 * rate)
    assert outlook.days_left is None
    keep(orders, 30, 8 << 20)
    outlook = forecast.of_slot(orders.slot)
    assert outlook.levels_off_bytes == min(8 << 20, int(30 * rate))


# Choosing


def asked(client: Client, **words: str):
    return client.get("/slots/shop/orders/keeping/", words)


def test_the_page_shows_what_would_be_lost_and_asks_for_the_name(
    client: Client, two: tuple[Days, Days]
) -> None:
    client.force_login(make_user("ada", "admin"))
    kept_days.count(time.monotonic() + 60)
    answer = asked(client, keep_for="4d", keep_at_most="none")
    shown = answer.context["page"]
    assert (shown.form["keep_for"].value(), shown.form["keep_at_most"].value()) == ("4d", "none")
    assert not shown.form.errors
    assert (shown.asked_words, shown.loss.days) == ("for 4 days", 2)
    assert shown.lost.startswith(f"2 days would be deleted ({the(6)} to {the(5)})")
    assert any(note.startswith("There is no archive") for note in shown.notes)
    page = answer.content.decode()
    assert f"2 days would be deleted ({the(6)} to {the(5)}): 6 transactions with 6 changes" in page
    assert "There is no archive" in page
    assert "public.orders" in page

    sent = {"keep_for": "4d", "keep_at_most": "none"}
    refused = client.post("/slots/shop/orders/keeping/", sent)
    assert refused.status_code == 422
    confirm = "Type orders to confirm the deletion."
    assert refused.context["page"].form.errors == {"typed": [confirm]}
    assert "Type orders to confirm the deletion." in refused.content.decode()
    assert Slot.objects.get(name="orders").keep_for_days is None

    done = client.post("/slots/shop/orders/keeping/", {**sent, "typed": "orders"})
    assert done.status_code == 302
    assert Slot.objects.get(name="orders").keep_for_days == 4
    assert "4 days" in AccessRecord.objects.filter(action="changed_settings").latest("id").subject
    kept = asked(client).context["page"]
    assert (kept.title, kept.loss) == ("orders keeps its record for 4 days.", None)
    page = client.get("/store/").content.decode()
    assert "for 4 days" in page
    assert "rows are deleted one by one" in page


def test_keeping_more_needs_no_name(client: Client, two: tuple[Days, Days]) -> None:
    client.force_login(make_user("ada", "admin"))
    kept_days.count(time.monotonic() + 60)
    for size in ("1TB", "1 TB"):
        sent = {"keep_for": "52w", "keep_at_most": size}
        assert client.post("/slots/shop/orders/keeping/", sent).status_code == 302
        slot = Slot.objects.get(name="orders")
        assert slot.keep_for_days == 364
        assert slot.keep_at_most_bytes == 1 << 40


@pytest.mark.parametrize(
    "words",
    [{"keep_for": "soon"}, {"keep_for": "0"}, {"keep_at_most": "5"}, {"keep_for": "9" * 40}],
)
def test_what_cannot_be_kept_is_said_with_what_to_write(
    client: Client, two: tuple[Days, Days], words: dict[str, str]
) -> None:
    client.force_login(make_user("ada", "admin"))
    answer = asked(client, **words)
    assert answer.status_code == 422
    [name] = words
    assert list(answer.context["page"].form.errors) == [name]
    assert f'aria-describedby="id_{name}_helptext id_{name}_error"' in answer.text


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_admins_choose(client: Client, two: tuple[Days, Days], role: str) -> None:
    client.force_login(make_user("bob", role))
    assert asked(client).status_code == 200
    sent = {"keep_for": "1d", "typed": "orders"}
    assert client.post("/slots/shop/orders/keeping/", sent).status_code == 403
    assert Slot.objects.get(name="orders").keep_for_days is None


def test_the_command_asks_before_it_lets_go(two: tuple[Days, Days], settings, capsys) -> None:
    settings.STORE_URL = "postgresql://the-test-store/"
    kept_days.count(time.monotonic() + 60)
    words = ("slot", "set", "shop", "orders", "--keep-for", "4d", "--keep-at-most", "50GB")
    with pytest.raises(CommandError, match="--yes"):
        call_command(*words)
    assert Slot.objects.get(name="orders").keep_for_days is None
    call_command(*words, "--yes")
    output = capsys.readouterr().out
    assert "2 days would be deleted" in output
    assert "public.orders: about" in output
    assert "keeps its record for 4 days, and at most 50\xa0GB" in output
    slot = Slot.objects.get(name="orders")
    assert (slot.keep_for_days, slot.keep_at_most_bytes) == (4, 50 << 30)
    with pytest.raises(CommandError, match="30d"):
        call_command("slot", "set", "shop", "orders", "--keep-for", "soon")


def test_the_api_tells_what_each_slot_keeps(client: Client, two: tuple[Days, Days]) -> None:
    client.force_login(make_user("bob", "viewer"))
    kept_days.count(time.monotonic() + 60)
    keep(two[0], 30)
    body = client.get("/api/v1/store").json()
    assert body["size_bytes"] > 1 << 20
    assert (body["days_left"], body["bytes_per_day"]) == (None, None)
    slots = {slot["slot"]: slot for slot in body["slots"]}
    assert slots["shop/orders"]["keep_for_days"] == 30
    assert slots["shop/orders"]["first_day"] == str(the(6))
    assert slots["shop/audit"]["levels_off_bytes"] is None
