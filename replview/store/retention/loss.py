"""What would be lost if a slot kept less: told before anything is chosen.

From the days' counts (``store.retention.day_sizes``) and the sums of tables
(``store.sums.activity``), so that it costs nothing to ask: numbers of tables are those of the
blocks that reach into the lost days.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.utils import timezone

from replview.store.models import Baseline, KeptDay, Slot
from replview.store.read.history_places import BLOCK
from replview.store.read.transaction_ids import first_id_of
from replview.store.retention import archive
from replview.store.retention import day_sizes as kept_days
from replview.store.retention.policy import Keeping, days_of, doomed_through, today_share_bytes

_TABLES = """
    SELECT r.schema || '.' || r."table",
           sum(a.inserts + a.updates + a.deletes + a.truncates + a.snapshots)::bigint AS changes
    FROM unnest(%(lives)s::bigint[], %(first)s::bigint[], %(last)s::bigint[])
         AS lost (life, first, last)
    JOIN relation_activity a ON a.incarnation_id = lost.life
                            AND a.block BETWEEN lost.first AND lost.last
    JOIN relation r ON r.id = a.relation_id
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %(most)s
"""
_MOST_TABLES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What of a slot's record would be deleted."""

    #: The first and the last day; None: nothing.
    first: dt.date | None
    last: dt.date | None
    days: int
    transactions: int
    changes: int
    store_bytes: int
    #: Tables with about so many changes, the most first.
    tables: tuple[tuple[str, int], ...]
    #: Baselines read in those days: rows that never changed since are known from them alone.
    baselines: int
    #: There is an archive: days go only once it has them.
    archived: bool
    #: Of the days that may go those after this are not counted yet; None: all are.
    counted_through: dt.date | None

    @property
    def nothing(self) -> bool:
        """Whether the slot has nothing that it would not keep."""
        return self.days == 0

    @property
    def is_to_be_confirmed(self) -> bool:
        """Something would go, or may: of days that are not counted nothing is told."""
        return not self.nothing or self.counted_through is not None


def loss_of(slot: Slot, keeping: Keeping) -> Loss:
    """What would go now if the slot kept so much; more goes as time passes."""
    today = timezone.now().date()
    days = days_of(slot.pk)
    through = doomed_through(keeping, days, today, today_share_bytes().get(slot.pk, 0))
    lost = [] if through is None else [day for day in days if day.day <= through]
    counted = kept_days.counted_through()
    late = kept_days.uncounted_before(today)
    return Loss(
        first=lost[0].day if lost else None,
        last=lost[-1].day if lost else None,
        days=len(lost),
        transactions=sum(day.transactions for day in lost),
        changes=sum(day.changes for day in lost),
        store_bytes=sum(day.store_bytes or 0 for day in lost),
        tables=_tables(slot, lost[-1].day) if lost else (),
        baselines=_baselines(slot, lost[-1].day) if lost else 0,
        archived=archive.chosen().target is not None,
        counted_through=(counted or dt.date.min) if late else None,
    )


def _tables(slot: Slot, last: dt.date) -> tuple[tuple[str, int], ...]:
    rows = KeptDay.objects.filter(
        incarnation__slot=slot, day__lte=last, first_seq__isnull=False
    ).values_list("incarnation_id", "first_seq", "last_seq")
    spans: dict[int, tuple[int, int]] = {}
    for life, first, final in rows:
        assert first is not None
        assert final is not None
        low, high = spans.get(life, (first, final))
        spans[life] = (min(low, first), max(high, final))
    return _changes_of_tables(
        list(spans), [low for low, _ in spans.values()], [high for _, high in spans.values()]
    )


def _changes_of_tables(
    lives: Sequence[int], first: Sequence[int], last: Sequence[int]
) -> tuple[tuple[str, int], ...]:
    wanted: dict[str, Any] = {
        "lives": list(lives), "first": [seq // BLOCK for seq in first],
        "last": [seq // BLOCK for seq in last], "most": _MOST_TABLES,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_TABLES, wanted)
        return tuple((str(name), int(changes)) for name, changes in cursor.fetchall())


def _baselines(slot: Slot, last: dt.date) -> int:
    until = first_id_of(last + dt.timedelta(days=1))
    return Baseline.objects.filter(slot=slot, state="done", transaction_id__lt=until).count()
