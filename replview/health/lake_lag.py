"""Measure how far the tables of a lake are behind the stored record."""

import datetime as dt
from dataclasses import dataclass

from django.utils import timezone

from replview.store.django_session import rows
from replview.store.models import LakeRelation, Relation, SlotIncarnation
from replview.text.parsing import table_word

#: Largest number of transactions that are counted, so that a page stays fast.
_MOST_TRANSACTIONS = 10_000
_UNREAD = """
    SELECT coalesce(sum(changes), 0)::bigint, min(commit_time) FILTER (WHERE changes > 0), count(*)
    FROM (SELECT t.commit_time,
                 (SELECT sum(number::bigint)
                    FROM unnest(%(relations)s::text[]) relation,
                         jsonb_array_elements_text(t.relations -> relation) number) AS changes
            FROM transaction t
           WHERE t.incarnation_id = %(incarnation)s AND t.commit_seq > %(reached)s
           ORDER BY t.commit_seq LIMIT %(most)s) unread
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeLag:
    """The changes of a table that are stored and that its lake has not read."""

    changes: int
    #: True when there may be more: only the first transactions were counted.
    more: bool = False
    #: Age of the oldest of them; None: there is none, or its time is unknown.
    seconds: float | None = None


def lag_of(relation: LakeRelation) -> LakeLag | None:
    """Return the lag of a table of a lake; None where the slot was removed."""
    slot = relation.lake.slot
    if slot is None:
        return None
    recorded = Relation.objects.filter(slot=slot)
    ids = [str(one.pk) for one in recorded if table_word(one.schema, one.table) == relation.name]
    changes, oldest, left = 0, None, _MOST_TRANSACTIONS
    for incarnation in SlotIncarnation.objects.filter(slot=slot).order_by("number"):
        reached = int(relation.reached.get(str(incarnation.number), 0))
        if incarnation.commit_seq <= reached or left <= 0:
            continue
        params = {"relations": ids, "incarnation": incarnation.pk, "reached": reached, "most": left}
        [(unread, first, counted)] = rows(_UNREAD, params)
        changes, left = changes + unread, left - counted
        oldest = oldest or first
    return LakeLag(changes=changes, more=left <= 0, seconds=_age(oldest))


def _age(moment: dt.datetime | None) -> float | None:
    return None if moment is None else max((timezone.now() - moment).total_seconds(), 0.0)
