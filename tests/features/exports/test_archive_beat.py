"""Real beat and a real worker: closed days go to the archive, then from the store, unasked."""

from pathlib import Path

import pyarrow.dataset as pads
import pytest
from django.db import connection

from replview.store import instance_settings
from replview.store.models import ArchiveMark, Transaction
from replview.store.retention import archived
from replview.store.write.partitions import ensure_partitions
from tests.support.celery_workers import Workers
from tests.support.celery_workers import workers as workers  # a fixture
from tests.support.days import Days, days_ago, row, today
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def days(transactional_db, tmp_path: Path) -> Days:
    """Five days of two transactions, with an archive, and a budget that wants all of them gone."""
    connection.ensure_connection()
    ensure_partitions(connection.connection, days_ago(4).date(), today().date())
    history = Days()
    for day in (4, 3, 2, 1, 0):
        for number in range(2):
            history.on(days_ago(day, number / 10), row(10 * day + number))
    for transaction in Transaction.objects.all():
        Transaction.objects.filter(pk=transaction.pk).update(stored_at=transaction.commit_time)
    instance_settings.write("archive.target", str(tmp_path / "archive"), "somebody")
    instance_settings.write("store.budget_bytes", 1, "somebody")
    return history


def test_closed_days_go_to_the_archive_and_then_from_the_store_by_themselves(
    days: Days, workers: Workers, tmp_path: Path
) -> None:
    oldest = Transaction.objects.get(commit_seq=1).pk
    workers.beat()

    # Days that are over for a day; of the day after them a file every six hours would do.
    wait_for(lambda: ArchiveMark.objects.filter(through_seq__gte=6).exists(), 60)
    wait_for(lambda: Transaction.objects.order_by("commit_seq")[0].commit_seq == 7, 60)

    folder = tmp_path / "archive" / "shop" / "replview-1"
    rows = pads.dataset(folder / "public.orders", format="parquet", partitioning="hive").to_table()
    assert rows.num_rows == ArchiveMark.objects.get().through_seq < 10
    wanted = [str(10 * day + number) for day in (4, 3, 2) for number in range(2)]
    assert rows["id"].to_pylist()[:6] == wanted
    left = Transaction.objects.order_by("commit_seq").values_list("commit_seq", flat=True)
    assert list(left) == [7, 8, 9, 10]
    place = archived.place_of(oldest)
    assert place is not None
    assert place.commit_seq == 1
