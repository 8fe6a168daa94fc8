"""Count by day what each slot's record contains and occupies.

Whole hours of today are counted as they pass (before ``keeping.hour_through``, since 1970). A past
day is counted once more as a whole (up to ``keeping.day_through``), and its share of the disk is
estimated: in the day's partition by bytes received and number of changes, in the table of
transactions by their number. Pages only read these counts.
"""

import datetime as dt
import time
from collections.abc import Iterable

from django.db import connection, transaction

from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import KeptDay
from replview.store.read.days import IDS_PER_HOUR, first_id_of

#: Bytes of a change besides its values: tuple header and entries in two indexes.
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
#: Assumed bytes of a transaction's row and index entries before the table was analyzed.
_TRANSACTION_BYTES = 600.0


def count(deadline: float) -> None:
    """Count past days, oldest first, and then the past hours of today."""
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
    """Return the last day up to which all days were counted; None if none was."""
    found = instance_settings.read("keeping.day_through", None)
    return None if found is None else dt.date.fromisoformat(found)


def forget(incarnations: Iterable[int], day: dt.date) -> None:
    """Delete the counts of a day that was deleted."""
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
    """Count the hours of today before ``hour``, which is the current one."""
    midnight = first_id_of(today) // IDS_PER_HOUR
    begun = max(int(instance_settings.read("keeping.hour_through", 0)), midnight)
    if begun >= hour:
        return
    found = rows(_COUNTED, [begun * IDS_PER_HOUR, hour * IDS_PER_HOUR])
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, [[row[0], today, *row[1:]] for row in found])
    instance_settings.write("keeping.hour_through", hour)


def partitions() -> list[tuple[dt.date, int]]:
    """Return the days with a partition of changes, oldest first, with its size in bytes."""
    return [(day, size) for day, size in rows(_DAYS)]
