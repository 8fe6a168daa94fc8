"""The sums of a record part of which was deleted: what is left is counted anew, and nothing else.

A block of which nothing is left goes with its tables' sums; one of which something is left is
summed up again from that. Of actors the days that lost something are. The sums of a life are taken
as a receiver's roller takes them (``store.sums.activity``), so that neither sees half of the other.
"""

import datetime as dt
from collections.abc import Sequence

from django.db import connection, transaction

from replview.store.models import ActivityMark, ActorActivity, HistoryBlock, RelationActivity
from replview.store.read.history_places import next_block
from replview.store.sums.activity import ADD_ACTORS, ADD_BLOCKS, ADD_TABLES, values_of

_CHANGED = """
    SELECT b.block, n.left_over FROM history_block b CROSS JOIN LATERAL (
        SELECT count(*) AS left_over FROM transaction t
        WHERE t.incarnation_id = b.incarnation_id AND t.commit_seq BETWEEN b.block * %(size)s
              AND b.block * %(size)s + %(size)s - 1) n
    WHERE b.incarnation_id = %(life)s AND b.block BETWEEN %(first)s AND %(last)s
      AND n.left_over <> b.transactions
"""
_OF_DAY = """
    SELECT min(block), max(block) FROM history_block
    WHERE incarnation_id = %s AND last_time >= %s AND first_time < %s
"""


def recount(life: int, first: int, last: int, days: Sequence[dt.date]) -> None:
    """Make the sums of a life true again, of its blocks from ``first`` to ``last`` and its actors'
    days; to be repeated at will.
    """
    with transaction.atomic():
        mark = ActivityMark.objects.select_for_update().filter(pk=life).first()
        if mark is None:
            return
        _blocks(life, first, min(last, next_block(mark.rolled_seq) - 1))
        if days:
            _actors(life, sorted(days))


def _blocks(life: int, first: int, last: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED, values_of(life, first, last))
        changed = dict(cursor.fetchall())
        for sums in (HistoryBlock, RelationActivity):
            sums.objects.filter(incarnation_id=life, block__in=list(changed)).delete()
        for block in sorted(block for block, left in changed.items() if left):
            cursor.execute(ADD_BLOCKS, values_of(life, block, block))
            cursor.execute(ADD_TABLES, values_of(life, block, block))


def _actors(life: int, days: list[dt.date]) -> None:
    """From the blocks that have something of a day, day by day: what committed long after the
    others of its day was counted on another, and between the two lies all of the record.
    """
    ActorActivity.objects.filter(incarnation_id=life, day__in=days).delete()
    with connection.cursor() as cursor:
        for day in days:
            begin = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
            cursor.execute(_OF_DAY, [life, begin, begin + dt.timedelta(days=1)])
            first, last = cursor.fetchone()
            if first is not None:
                cursor.execute(ADD_ACTORS, values_of(life, first, last, [day]))
