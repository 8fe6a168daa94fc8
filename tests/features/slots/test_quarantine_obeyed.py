"""A real receiver obeys the decision that the page takes about a change the store refuses."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import Client

from replview.store.models import Slot, SlotEvent, Transaction
from replview.store.quarantine import open_quarantine
from tests.support.page_elements import spaced
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def a_store_that_refuses(transactional_db) -> Iterator[None]:
    """Whatever holds the word poison, the store will not take."""
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE change ADD CONSTRAINT no_poison "
            "CHECK (coalesce(new->>'note', '') <> 'poison')"
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE change DROP CONSTRAINT IF EXISTS no_poison")


def stopped_slot(record, source):
    source.run("CREATE TABLE t (id int PRIMARY KEY, note text)")
    recording = record(source)
    source.run(
        "INSERT INTO t VALUES (1, 'fine')",
        "INSERT INTO t VALUES (2, 'poison')",
        "INSERT INTO t VALUES (3, 'fine')",
    )
    recording.problem("quarantined")
    return recording


def test_a_skip_on_the_page_lets_the_slot_go_on(
    a_store_that_refuses, record, source, signed_in: Client
) -> None:
    recording = stopped_slot(record, source)
    row = open_quarantine(recording.slot)
    assert row is not None
    page = signed_in.get(f"/slots/{recording.slot}/").content.decode()
    assert "public.t" in page
    assert f'data-copy="{row.xid}"' in page

    signed_in.post(
        f"/slots/{recording.slot}/quarantine/{row.pk}/", {"decision": "skip", "xid": row.xid}
    )
    recording.caught_up()

    def settled() -> bool:
        row.refresh_from_db(fields=["settled_at"])
        return row.settled_at is not None

    wait_for(settled)
    states = [one.state for one in recording.transactions(inserts__gt=0)]
    assert states.count("committed") == 2
    assert Transaction.objects.filter(state="skipped", xid=row.xid).exists()
    kinds = set(SlotEvent.objects.values_list("kind", flat=True))
    assert {"quarantined", "skipped"} <= kinds
    page = signed_in.get(f"/slots/{recording.slot}/").content.decode()
    assert "<b>skipped</b> by alice" in spaced(page)


def test_trying_again_after_the_cause_is_mended_loses_nothing(
    a_store_that_refuses, record, source, signed_in: Client
) -> None:
    recording = stopped_slot(record, source)
    row = open_quarantine(recording.slot)
    assert row is not None
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE change DROP CONSTRAINT no_poison")
    signed_in.post(f"/slots/{recording.slot}/quarantine/{row.pk}/", {"decision": "retry"})
    recording.caught_up()

    assert [one.inserts for one in recording.transactions(state="committed")].count(1) == 3
    assert Slot.objects.get(pk=recording.slot.pk).problem_code == ""
    assert open_quarantine(recording.slot) is None
