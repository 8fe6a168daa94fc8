"""The rate of a slot in the pages' header, from its samples."""

import datetime as dt

import pytest
from django.db import connection

from replview.health.fleet import read_fleet
from tests.support.scene import Scene


@pytest.mark.parametrize(
    ("samples", "rate"),
    [([(5, 100)], None), ([(10, 100), (5, 200)], 20), ([(15, 0), (10, 100), (5, 150)], 10)],
)
def test_two_samples_tell_the_rate(
    scene: Scene, samples: list[tuple[int, int]], rate: float | None
) -> None:
    slot = scene.slots["shop/replview"]
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
