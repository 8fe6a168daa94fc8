"""The access record in the API, for admins only."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from replview.access.page import ADMIN, page
from replview.access.reading import AccessFilter, RecordPosition, read, record_json
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.write.access_record import Action, is_new, note
from replview.ui.api.answers import BadRequest
from replview.ui.api.filters import PAGE, PAGE_MOST

router = Router(tags=["access record"])


class AccessWords(Schema):
    """The filters of the record; an absent filter excludes nothing."""

    action: str = Field("", description=", ".join(Action.values))
    user: str = Field("", description="an account's name, exactly")
    source: str = Field("", description="a source's name")
    table: str = Field("", description="`schema.table`")
    via: str = Field("", description="page, api, socket or command")
    since: str = Field("", description="an ISO time, or an age: `2h`, `7d`")
    until: str = Field("", description="the same")
    cursor: str = Field("", description="`older` of an earlier answer")
    limit: int = Field(PAGE, ge=1, le=PAGE_MOST)


class AccessOut(Schema):
    """A page of the record, the newest entry first."""

    items: list[dict[str, Any]]
    #: The cursor of the next page; null on the last one.
    older: str | None


@page(role=ADMIN, record=(Action.VIEWED_ACCESS_RECORD,))
@router.get("/access", response=AccessOut, summary="Who did what, when, from where")
def access_record(request: HttpRequest, words: Query[AccessWords]) -> dict[str, object]:
    """Return a page of the record, the newest entry first. The request itself is recorded too."""
    if words.action and words.action not in Action.values:
        raise BadRequest(f"there is no action {words.action!r}", ", ".join(Action.values))
    before = RecordPosition.parse(words.cursor) if words.cursor else None
    if words.cursor and before is None:
        raise BadRequest("not a cursor", "give back `older` of an earlier answer")
    times = TransactionFilter.from_words({"since": words.since, "until": words.until})
    if times.misread:
        raise BadRequest(f"not valid: {', '.join(times.misread)}", "an ISO time, or an age")
    filter_ = AccessFilter(
        action=words.action, user=words.user, source=words.source, table=words.table,
        via=words.via, since=times.since_at, until=times.until_at,
    )  # fmt: skip
    rows, older = read(filter_, before=before, limit=words.limit)
    params = {name: value for name, value in words.dict().items() if value and name != "cursor"}
    if is_new((Action.VIEWED_ACCESS_RECORD, request.user.pk, tuple(sorted(params.items())))):
        note(Action.VIEWED_ACCESS_RECORD, details=params)
    return {"items": [record_json(row) for row in rows], "older": str(older) if older else None}
