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
_MOST = 1000


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
    found = slot_named(slot)
    span = span_of(found.pk, since, until)
    listed = actors_of(span, text=clean_text(q, 200, strip=False), sort=sort, limit=_MOST)
    return {
        "slot": str(found),
        "items": [_actor(one) for one in listed.rows],
        "more": listed.more,
        "transactions_not_counted": span.left_out,
        "coverage": coverage_json(found),
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
    found = slot_named(slot)
    span = span_of(found.pk, since, until)
    name = clean_text(actor, strip=False)
    done = totals_of(span, [name]).get(name)
    if done is None:
        raise Http404(f"nothing by {actor[:100]!r} is in the record of that time")
    return {
        "slot": str(found),
        **_actor(done.whole),
        "tables": [
            {
                "relation": table.relation_id,
                "schema": table.schema or None,
                "table": table.table or None,
                **_counts(table),
                "last_time": utc_text(table.last_time),
            }
            for table in done.tables
        ],
        "days": [{"day": day.day.isoformat(), **_counts(day)} for day in done.days],
        "transactions_not_counted": span.left_out,
        "coverage": coverage_json(found),
    }


def _actor(one: ActorSum) -> dict[str, object]:
    """Return the sums as JSON; ``claimed`` and ``stamped`` count transactions by evidence."""
    return {
        "actor": one.actor,
        "claimed": one.claimed,
        "stamped": one.stamped,
        **_counts(one),
        "first_time": utc_text(one.first_time),
        "last_time": utc_text(one.last_time),
    }


def _counts(sums: ActorCounts) -> dict[str, int]:
    names = ("transactions", "inserts", "updates", "deletes", "truncates", "messages")
    return {name: getattr(sums, name) for name in names}
