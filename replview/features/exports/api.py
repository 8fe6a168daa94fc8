"""The API of exports: programs request, follow and cancel them."""

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Field, P, Query, QueryEx, Router, Schema, Status

from replview.access.page import OPERATOR, page
from replview.access.rights import Role, may
from replview.access.withheld import shown_slice, shown_words, visible_exports
from replview.features.exports.outlook import outlook_of, spark_for
from replview.features.exports.request import (
    ExportRequest,
    ask,
    over_a_gap,
    read_export_request,
)
from replview.jobs import exports
from replview.parquet.slices import BeforeOrigin
from replview.store.models import Export
from replview.store.read.changes.records import utc_text
from replview.store.write.access_record import Action, note
from replview.targets.policy import Refused, may_choose_anywhere, read_policy
from replview.ui.api.access import Token
from replview.ui.api.answers import BadRequest, Refusal
from replview.ui.api.filters import FilterWords
from replview.ui.api.slots import slot_named

router = Router(tags=["exports"])
_MAX_EXPORTS = 200
_BEFORE_DESCRIPTION = (
    "rows before an update: `sent` (the default), or `derived` too; `full`: also what else was not "
    "sent. With `since_last`, by default as in the last export"
)

_SCALE_DESCRIPTION = (
    "`numeric` without a precision as `decimal(38, …)` with so many digits behind the point; what "
    "does not fit is null, its text in `_pg_raw`. Without it: text"
)


class SliceWords(FilterWords):
    """Parameters that select the changes of an export: a transaction filter and its own."""

    states: str = Field("", description="some of `committed`, `snapshot`, `message`, with commas")
    transaction: str = Field("", description="one transaction, by its id")
    before: BeforeOrigin | None = Field(None, description=_BEFORE_DESCRIPTION)
    numeric_scale: int | None = Field(None, ge=0, le=38, description=_SCALE_DESCRIPTION)
    name: str = Field("", max_length=100, description="to continue it later")
    since_last: bool = Field(False, description="what was committed since the last of this name")

    def export_request(self) -> ExportRequest:
        """Return the slice that the parameters mean. Raises ``BadRequest``."""
        if self.since_last and not self.name:
            raise BadRequest("since_last continues a name", "give name")
        # These parameters belong to the request and not to its filter.
        params = self.dict(exclude={"before", "numeric_scale", "name", "to", "allow_gaps"})
        params = {
            param: value for param, value in params.items() if value and isinstance(value, str)
        }
        slot = slot_named(self.slot)
        return read_export_request(
            slot, params, name=self.name, since_last=self.since_last, before=self.before,
            numeric_scale=self.numeric_scale,
        )  # fmt: skip


class NewExport(SliceWords):
    """A request for an export: the slice and the target."""

    model_config = {"extra": "forbid"}

    allow_gaps: bool = Field(
        False, description="go on with `since_last` where the record lacks something in between"
    )
    to: str = Field(description="a folder within the instance's, for admins also a URL: `s3://…`")


class EstimateOut(Schema):
    """The estimated size and duration of an export."""

    slice: dict[str, Any]
    rows: int
    transactions: int
    bytes: int
    seconds: float
    first_lsn: str | None
    last_lsn: str | None
    #: For an empty slice: time and LSN of the nearest change outside of it.
    nearest: dict[str, Any] | None
    #: True if the slice is too large for one process, so that a Spark session is started.
    spark: bool
    tables: list[dict[str, Any]]


class ExportOut(Schema):
    """An export, with its progress and its result."""

    id: int
    slot: str
    name: str
    state: str = Field(description="waiting, running, done, failed or cancelled")
    slice: dict[str, Any]
    words: dict[str, str]
    target: str
    requested_by: str
    requested_how: str
    requested_at: str | None
    started_at: str | None
    finished_at: str | None
    rows: int | None
    total_rows: int | None
    files: int | None
    bytes: int | None
    seconds_left: float | None
    #: The reason why it failed; empty: none.
    problem: str
    remedy: str
    #: The manifest, which lists every file with its rows and bytes.
    result: dict[str, Any] | None


@page(role=OPERATOR)
@router.get("/exports/estimate", response=EstimateOut, summary="What an export would take")
def estimate(request: HttpRequest, words: Query[SliceWords]) -> dict[str, object]:
    """Count the rows, and estimate bytes and seconds; nothing is written."""
    try:
        read_policy().check()
        export_request = words.export_request()
        outlook = outlook_of(export_request)
    except Refused as refused:
        raise BadRequest(refused.cause, refused.remedy) from None
    return {"slice": export_request.slice.to_json(), **outlook.facts()}


@page(role=OPERATOR, exports=True)
@router.post(
    "/exports", response={202: ExportOut}, auth=Token(), summary="Export a slice as Parquet"
)
def create(request: HttpRequest, wanted: NewExport) -> Any:
    """Record the export; a worker starts it within a second or two.

    Needs a token, not a browser's session.
    """
    user = request.user
    try:
        # The policy is checked before the record is read, so that "switched off" is the first
        # answer.
        read_policy().check()
        export_request = wanted.export_request()
        if export_request.gaps and not wanted.allow_gaps:
            raise Refused(over_a_gap(export_request), "Give allow_gaps to go on without it")
        row = ask(
            export_request,
            wanted.to,
            by=user.get_username(),
            how=Export.How.API,
            anywhere=may_choose_anywhere(user),
            spark=spark_for(export_request, wanted.to),
        )
    except Refused as refused:
        raise BadRequest(refused.cause, refused.remedy) from None
    return Status(202, export_json(row))


@page(role=OPERATOR, exports=True)
@router.get("/exports", response=list[ExportOut], summary="What was exported, and by whom")
def all_exports(
    request: HttpRequest, slot: str = "", limit: QueryEx[int, P(ge=1, le=_MAX_EXPORTS)] = 50
) -> list[dict[str, Any]]:
    """List the exports, newest first, without their files."""
    rows = visible_exports().defer("result")
    if slot:
        rows = rows.filter(slot=slot_named(slot))
    return [export_json(row, whole=False) for row in rows[:limit]]


@page(role=OPERATOR, of={"export_id": Export}, exports=True)
@router.get("/exports/{int:export_id}", response=ExportOut, summary="One export")
def one(request: HttpRequest, export_id: int) -> dict[str, object]:
    """Return the export's progress and, once it is done, its files."""
    return export_json(_export_or_404(export_id))


@page(role=OPERATOR, of={"export_id": Export}, exports=True)
@router.delete(
    "/exports/{int:export_id}", response=ExportOut, auth=Token(), summary="Cancel an export"
)
def cancel(request: HttpRequest, export_id: int) -> dict[str, object]:
    """Cancel the export; its record stays, and the files it had written are deleted."""
    row = _export_or_404(export_id)
    if row.requested_by != request.user.get_username() and not may(request.user, Role.ADMIN):
        raise Refusal("an export is cancelled by whoever asked for it, or by an admin")
    if not exports.rows.cancel(row.pk):
        raise BadRequest(f"export {row.pk} is {_export_or_404(export_id).state} already")
    note(Action.EXPORTED, subject=f"export {row.pk}", details={"act": "cancelled"})
    return export_json(_export_or_404(export_id))


def export_json(row: Export, *, whole: bool = True) -> dict[str, object]:
    """Return the export in the form of ``ExportOut``."""
    result = row.result
    if result and "slice" in result:
        result = {**result, "slice": shown_slice(row, result["slice"])}
    # (The schema decides the order of the fields.)
    fields = ("name", "state", "target", "requested_by", "requested_how", "rows", "total_rows",
              "files", "seconds_left")  # fmt: skip
    times = ("requested_at", "started_at", "finished_at")
    return {
        **{name: getattr(row, name) for name in fields},
        **{name: utc_text(getattr(row, name)) for name in times},
        "id": row.pk,
        "slot": row.slot_name,
        "slice": shown_slice(row, row.slice),
        "words": shown_words(row),
        "bytes": row.size_bytes,
        "problem": row.problem_cause,
        "remedy": row.problem_remedy,
        "result": result if whole else None,
    }


def _export_or_404(export_id: int) -> Export:
    row = visible_exports().filter(pk=export_id).first()
    if row is None:
        raise Http404(f"there is no export {export_id}")
    return row
