"""Transactions of days past."""

import datetime as dt
import time
from typing import Any

import pytest
from django.db import connection

from decoder.scalars import LSN
from replview.store.models import Change, Transaction
from replview.store.read.days import transaction_id
from replview.store.read.rows import signed_hash
from replview.store.retention import deletion as retention
from replview.store.sums import activity
from replview.store.write.partitions import ensure_partitions
from tests.support.history_rows import History, insert


def today() -> dt.datetime:
    """The last midnight, as it is now: a run of the suite may begin before it and end after."""
    return dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def days_ago(days: int, hour: float = 12) -> dt.datetime:
    return today() - dt.timedelta(days=days) + dt.timedelta(hours=hour)


def the(day: int) -> dt.date:
    return days_ago(day).date()


def row(number: int) -> dict[str, Any]:
    """An insert of a row that its history finds."""
    return insert(number, key_hash=signed_hash((str(number),)))


class Days(History):
    """Transactions of whatever day."""

    def on(self, first_seen: dt.datetime, *changes, committed: dt.datetime | None = None, **more):
        """Store a transaction that was first seen at this time and committed then or later.

        Returns its identifier.
        """
        former = self.commit(*changes, commit_time=committed or first_seen, **more)
        identifier = transaction_id(former, at=first_seen.timestamp())
        Change.objects.filter(transaction_id=former).update(transaction_id=identifier)
        Transaction.objects.filter(pk=former).update(id=identifier)
        return identifier


@pytest.fixture
def history(monkeypatch) -> Days:
    """Five days, of each four transactions of one row each: by ann, of row 1 and of its own."""
    monkeypatch.setattr(activity, "BLOCK", 10)
    monkeypatch.setattr("replview.store.read.history_places.BLOCK", 10)
    monkeypatch.setattr(retention, "BLOCK", 10)
    # Within the test's transaction, which this begins.
    history = Days()
    ensure_partitions(connection.connection, days_ago(4).date(), today().date())
    history.incarnation.started_at, history.incarnation.started_lsn = days_ago(4, 1), LSN(10)
    for day in (4, 3, 2, 1, 0):
        for number in range(4):
            history.on(days_ago(day, 2 + number / 10), row(10 * day + number), actor="ann",
                       actor_grade="stamped")  # fmt: skip
    history.slot.last_commit_time = days_ago(0, 3)
    history.slot.checkpoint_lsn = LSN(50_000)
    history.slot.save()
    activity.roll(time.monotonic() + 60)
    return history
