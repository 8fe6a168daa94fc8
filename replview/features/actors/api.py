"""Sums of what each actor changed; ``/changes?actor=`` returns the changes themselves."""

import datetime as dt
from typing import Any

from django.http import Http404, HttpRequest
from ninja import P, QueryEx, Router

from replview.access.page import VIEWER, page
from replview.store.read.changes.records import utc_text
from replview.store.sums.actor_sums import (
    SORTS,
    ActorCounts,
    ActorSum,
    actors_of,
    span_of,
    totals_of,
)
from replview.text.parsing import clean_text
from replview.ui.api.slots import coverage_json, slot_named

router = Router(tags=["actors"])
_ACTORS_LIMIT = 1000


@page(role=VIEWER)
@router.get("/actors", response=dict[str, Any], summary="Everybody seen")
def actors(
    request: HttpRequest,
    slot: str = "",
    q: str = "",
    since: dt.date | None = None,
    until: dt.date | None = None,
    sort: QueryEx[str, P(pattern=f"^({'|'.join(SORTS)})$")] = "last",
) -> dict[str, object]:
    """Return the actors of a slot's record, in descending order of `sort`.

    `since` and `until` are whole days (UTC). An empty `actor` stands for transactions that name
    nobody. At most 1,000 actors are returned; narrow them with `q`.
    """
    recorded_slot = slot_named(slot)
    span = span_of(recorded_slot.pk, since, until)
    actor_list = actors_of(
        span, text=clean_text(q, 200, strip=False), sort=sort, limit=_ACTORS_LIMIT
    )
    return {
        "slot": str(recorded_slot),
        "items": [_sums_json(sums) for sums in actor_list.rows],
        "more": actor_list.more,
        "transactions_not_counted": span.left_out,
        "coverage": coverage_json(recorded_slot),
    }


@page(role=VIEWER)
@router.get("/actors/one", response=dict[str, Any], summary="One of them")
def actor(
    request: HttpRequest,
    actor: str,
    slot: str = "",
    since: dt.date | None = None,
    until: dt.date | None = None,
) -> dict[str, object]:
    """Return what one actor changed, by table and by day; an empty `actor` means nobody named."""
    recorded_slot = slot_named(slot)
    span = span_of(recorded_slot.pk, since, until)
    name = clean_text(actor, strip=False)
    totals = totals_of(span, [name]).get(name)
    if totals is None:
        raise Http404(f"nothing by {actor[:100]!r} is in the record of that time")
    return {
        "slot": str(recorded_slot),
        **_sums_json(totals.whole),
        "tables": [
            {
                "relation": table.relation_id,
                "schema": table.schema or None,
                "table": table.table or None,
                **_counts_json(table),
                "last_time": utc_text(table.last_time),
            }
            for table in totals.tables
        ],
        "days": [{"day": day.day.isoformat(), **_counts_json(day)} for day in totals.days],
        "transactions_not_counted": span.left_out,
        "coverage": coverage_json(recorded_slot),
    }


def _sums_json(sums: ActorSum) -> dict[str, object]:
    """Return the sums as JSON; ``claimed`` and ``stamped`` count transactions by evidence."""
    return {
        "actor": sums.actor,
        "claimed": sums.claimed,
        "stamped": sums.stamped,
        **_counts_json(sums),
        "first_time": utc_text(sums.first_time),
        "last_time": utc_text(sums.last_time),
    }


def _counts_json(sums: ActorCounts) -> dict[str, int]:
    names = ("transactions", "inserts", "updates", "deletes", "truncates", "messages")
    return {name: getattr(sums, name) for name in names}
