"""Counting what each slot's record holds and occupies, day by day, behind the receivers.

Of today the whole hours are counted as they pass (before ``keeping.hour_through``, since 1970); a
day that is over is counted once more, whole (up to ``keeping.day_through``), and its share of the
disk is estimated: of the day's partition by what came over the wire and the number of changes, of
the table of transactions by their number. Nothing is counted to draw a page.
"""

import datetime as dt
import time
from collections.abc import Iterable

from django.db import connection, transaction

from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import KeptDay
from replview.store.read.days import IDS_PER_HOUR, first_id_of

#: What a change takes besides its values: its row's head, its entries in two indexes.
_PER_CHANGE_BYTES = 100

_DAYS = """
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD'), pg_total_relation_size(c.oid)::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'change'::regclass AND c.relname ~ '^change_[0-9]{8}$' ORDER BY 1
"""
# An incarnation that was deleted meanwhile has no row to count for.
_COUNTED = """
    SELECT t.incarnation_id, count(*),
           coalesce(sum(t.inserts + t.updates + t.deletes + t.truncates + t.messages), 0)::bigint,
           coalesce(sum(t.size_bytes), 0)::bigint, min(t.commit_seq), max(t.commit_seq)
    FROM transaction t JOIN slot_incarnation i ON i.id = t.incarnation_id
    WHERE t.id >= %s AND t.id < %s AND t.state <> 'discarded' GROUP BY 1
"""
_PER_TRANSACTION = """
    SELECT CASE WHEN reltuples > 0 THEN pg_total_relation_size(oid) / reltuples END
    FROM pg_class WHERE oid = 'transaction'::regclass
"""
_ADD = """
    INSERT INTO kept_day (incarnation_id, day, transactions, changes, size_bytes, first_seq,
                          last_seq)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (incarnation_id, day) DO UPDATE SET
        transactions = kept_day.transactions + excluded.transactions,
        changes = kept_day.changes + excluded.changes,
        size_bytes = kept_day.size_bytes + excluded.size_bytes,
        first_seq = least(kept_day.first_seq, excluded.first_seq),
        last_seq = greatest(kept_day.last_seq, excluded.last_seq)
"""
#: Of a transaction's row and its entries in indexes, where the store cannot tell yet.
_TRANSACTION_BYTES = 600.0


def count(deadline: float) -> None:
    """Count the days that are over, the oldest first, then the hours of today that are."""
    now = rows("SELECT clock_timestamp()")[0][0]
    today = now.astimezone(dt.UTC).date()
    for day, partition_bytes in partitions():
        through = counted_through()
        if day >= today or time.monotonic() > deadline:
            break
        if through is None or day > through:
            _count_day(day, partition_bytes)
    _count_hours(today, int(now.timestamp() // 3600))


def counted_through() -> dt.date | None:
    """All days up to this one were counted whole; None: none was yet."""
    found = instance_settings.read("keeping.day_through", None)
    return None if found is None else dt.date.fromisoformat(found)


def forget(incarnations: Iterable[int], day: dt.date) -> None:
    """What was deleted is not kept any more."""
    KeptDay.objects.filter(incarnation_id__in=list(incarnations), day=day).delete()


@transaction.atomic
def _count_day(day: dt.date, partition_bytes: int) -> None:
    found = rows(_COUNTED, [first_id_of(day), first_id_of(day + dt.timedelta(days=1))])
    weights = {row[0]: row[3] + _PER_CHANGE_BYTES * row[2] for row in found}
    whole = sum(weights.values()) or 1
    each = float(rows(_PER_TRANSACTION)[0][0] or _TRANSACTION_BYTES)
    KeptDay.objects.filter(day=day).delete()
    KeptDay.objects.bulk_create(
        KeptDay(
            incarnation_id=incarnation, day=day, transactions=transactions, changes=changes,
            size_bytes=size, first_seq=first, last_seq=last,
            store_bytes=int(partition_bytes * weights[incarnation] / whole + transactions * each),
        )
        for incarnation, transactions, changes, size, first, last in found
    )  # fmt: skip
    instance_settings.write("keeping.day_through", str(day))


@transaction.atomic
def _count_hours(today: dt.date, hour: int) -> None:
    """Those of today before ``hour``, the one that is under way."""
    midnight = first_id_of(today) // IDS_PER_HOUR
    begun = max(int(instance_settings.read("keeping.hour_through", 0)), midnight)
    if begun >= hour:
        return
    found = rows(_COUNTED, [begun * IDS_PER_HOUR, hour * IDS_PER_HOUR])
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, [[row[0], today, *row[1:]] for row in found])
    instance_settings.write("keeping.hour_through", hour)


def partitions() -> list[tuple[dt.date, int]]:
    """The days that there is a partition of changes for, the oldest first, with its bytes."""
    return [(day, size) for day, size in rows(_DAYS)]
