"""The rate of a slot in the pages' header, from its samples."""

import datetime as dt

import pytest
from django.db import connection
from django.utils import timezone

from replview.health.fleet import read_fleet
from replview.store.models import Transaction
from tests.support.scene import Scene


@pytest.mark.parametrize(
    ("samples", "rate"),
    [([(5, 100)], None), ([(10, 100), (5, 200)], 20), ([(15, 0), (10, 100), (5, 150)], 10)],
)
def test_two_samples_tell_the_rate(
    scene: Scene, samples: list[tuple[int, int]], rate: float | None
) -> None:
    slot = scene.slots["shop/replview"]
    Transaction.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample")
        cursor.executemany(
            "INSERT INTO slot_sample (slot_id, sampled_at, retained_wal_bytes, transactions_stored)"
            " VALUES (%s, %s, 0, %s)",
            [(slot.pk, scene.now - dt.timedelta(seconds=ago), n) for ago, n in samples],
        )

    view = read_fleet().find_slot("shop/replview")
    assert view is not None
    assert view.transactions_per_second == rate


def stored(scene: Scene, number: int, ago: dt.timedelta) -> float | None:
    """Return the rate with one sample, and so many transactions that were all stored then."""
    Transaction.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM slot_sample")
        cursor.execute(
            "INSERT INTO slot_sample (slot_id, sampled_at, retained_wal_bytes, transactions_stored)"
            " VALUES (%s, %s, 0, 0)",
            [scene.slots["shop/replview"].pk, timezone.now()],
        )
    at = timezone.now() - ago
    rows = []
    for seq in range(1, number + 1):
        known = {"commit_seq": seq, "commit_time": at, "stored_at": at, "xid": seq + 3}
        rows.append(scene.unsaved("shop/replview", "committed", ago, **known))
    Transaction.objects.bulk_create(rows)
    view = read_fleet().find_slot("shop/replview")
    assert view is not None
    return view.transactions_per_second


def test_before_two_samples_the_last_transactions_tell_the_rate(scene: Scene) -> None:
    assert stored(scene, 10, dt.timedelta(0)) == 2
    # A hundred are read at most: the time in which they were stored counts.
    many = stored(scene, 300, dt.timedelta(0))
    assert many is not None
    assert many > 20


def test_transactions_of_long_ago_leave_the_rate_unknown(scene: Scene) -> None:
    assert stored(scene, 10, dt.timedelta(minutes=1)) is None
