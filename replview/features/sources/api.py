"""API that manages sources and slots, with the same acts as the pages.

With ``dry_run`` a call returns what it would do and changes nothing. It needs a token of the scope
``operate``, or a browser's session with its CSRF token.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Literal

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from ninja import Field, Router, Schema
from ninja.utils import check_csrf

from replview.access.guard import require_all_tables
from replview.access.page import ADMIN, OF_SLOT, OPERATOR, VIEWER, page
from replview.access.rights import Role, may, sees_source, visible_sources
from replview.access.visibility import reading_session
from replview.acts import adopting, dropping, receiving
from replview.acts.columns import NamedColumns, change_columns, plan_columns
from replview.acts.credentials import Credentials, plan_credentials, set_credentials
from replview.acts.moving import Move, carry_out_move, plan_move
from replview.acts.sources import plan_remove, plan_rename, remove_source, rename_source
from replview.acts.tables import change_tables, plan_tables
from replview.catalog.plan.plan import Plan, json_of
from replview.store.models import Slot, Source
from replview.store.read.seen import seen_statements
from replview.text.problem import Problem
from replview.ui.api.access import Token
from replview.ui.api.answers import BadRequest
from replview.ui.api.slots import slot_named

router = Router(tags=["managing"])


class SourceOut(Schema):
    """A source, without its secrets."""

    name: str
    #: Connection string without the password.
    conninfo: str
    #: Place of the password: ``sealed``, ``env:NAME``, ``file:/path``; empty if none is stored.
    password: str
    server_version: int | None
    system_identifier: str | None
    timeline: int | None
    in_recovery: bool | None
    slots: list[str]
    checked_at: datetime | None
    credentials_changed_at: datetime | None
    #: Fleet file that declares the source and reverts changes made here; empty if none does.
    managed_by: str
    problem: str
    remedy: str


class StatementOut(Schema):
    """One statement on the source."""

    sql: str
    needs: str
    costs: str


class RefusalOut(Schema):
    """The reason that the act is refused now."""

    code: str
    cause: str
    remedy: str


class ActOut(Schema):
    """The act that was done or, with `dry_run`, would be done."""

    title: str
    on: str
    statements: list[StatementOut]
    consequences: list[str]
    #: Text that `confirm` must hold; empty if none is needed.
    confirm: str
    refused: RefusalOut | None
    done: bool


class Asked(Schema):
    """Parameters of every act."""

    model_config = {"extra": "forbid"}

    dry_run: bool = Field(default=False, description="tell what would be done, and do nothing")
    confirm: str = Field(
        default="", description="of an act that destroys something: its name, typed"
    )


class TablesAsked(Asked):
    """Tables to add and remove, as ``schema.table``."""

    add: list[str] = Field(default_factory=list, max_length=2000)
    remove: list[str] = Field(default_factory=list, max_length=2000)


class ColumnsAsked(Asked):
    """Columns to change, as ``schema.table.column``; other columns stay as they are."""

    keep: list[str] = Field(default_factory=list, max_length=2000)
    mask: list[str] = Field(default_factory=list, max_length=2000)
    exclude: list[str] = Field(default_factory=list, max_length=2000)


class AdoptAsked(Asked):
    """Publications to read the slot with."""

    publications: list[str] = Field(default_factory=list, max_length=200)


class DropAsked(Asked):
    """Parameters of dropping a slot; `record` keeps or deletes its record."""

    record: Literal["keep", "delete"]
    leave_on_source: bool = False


class CredentialsAsked(Asked):
    """The new credentials; an empty value leaves the old one."""

    dsn: str = Field("", max_length=4000)
    user: str = Field("", max_length=63)
    password: str = Field("", max_length=1000)
    password_ref: str = Field("", max_length=1000)


class MoveAsked(Asked):
    """The new address."""

    dsn: str = Field(max_length=4000)
    password_ref: str = Field("", max_length=1000)
    keep_password: bool = False


class RenameAsked(Asked):
    """The new name."""

    name: str = Field(max_length=63)


class RemoveAsked(Asked):
    """Parameters of removing a source; without `with_slots` it must have no slots."""

    with_slots: bool = False
    leave_on_source: bool = False


def acting(request: HttpRequest) -> User | None:
    """Return the user of a browser's session with a CSRF token, which other sites cannot send."""
    if not request.user.is_authenticated:
        return None
    # Read the whole body first: after the check has parsed it as a form it cannot be read.
    _ = request.body
    return None if check_csrf(request) is not None else request.user


#: Decorator of the endpoints that carry out acts.
acts = partial(router.post, response=ActOut, auth=[Token(), acting])


@page(role=VIEWER)
@router.get("/sources", response=list[SourceOut], summary="All sources")
def sources(request: HttpRequest) -> list[dict[str, Any]]:
    """Return every source that this account may see."""
    visible_ids = visible_sources(request.user)
    rows = Source.objects.prefetch_related("slots").filter(ephemeral=False)
    return [
        _source_json(row)
        for row in (rows if visible_ids is None else rows.filter(pk__in=visible_ids))
    ]


@page(role=VIEWER, of={"name": None})
@router.get("/sources/{name}", response=SourceOut, summary="One source")
def source(request: HttpRequest, name: str) -> dict[str, Any]:
    """Return the source's address and state, without its secrets."""
    return _source_json(_find_source(request, name, Role.VIEWER))


@page(role=OPERATOR, of=OF_SLOT)
@acts("/slots/{source_name}/{slot_name}/start", summary="Receive a slot")
def start_slot(
    request: HttpRequest, source_name: str, slot_name: str, asked: Asked | None = None
) -> dict[str, object]:
    """Start receiving the slot; create it again first if the source lost it."""
    slot = _find_slot(request, source_name, slot_name)
    return _act(request, asked, lambda: receiving.plan_start(slot),
                lambda by: receiving.start(slot, by=by))  # fmt: skip


@page(role=OPERATOR, of=OF_SLOT)
@acts("/slots/{source_name}/{slot_name}/stop", summary="Stop receiving a slot")
def stop_slot(
    request: HttpRequest, source_name: str, slot_name: str, asked: Asked | None = None
) -> dict[str, object]:
    """Stop receiving the slot, which stays on its source and retains WAL."""
    slot = _find_slot(request, source_name, slot_name)
    return _act(request, asked, lambda: receiving.plan_stop(slot),
                lambda by: receiving.stop(slot, by=by))  # fmt: skip


@page(role=OPERATOR, of=OF_SLOT)
@acts(
    "/slots/{source_name}/{slot_name}/tables",
    summary="Change the tables of a slot's own publications",
)
def change_slot_tables(
    request: HttpRequest, source_name: str, slot_name: str, asked: TablesAsked
) -> dict[str, object]:
    """Change the tables in one transaction; rows that exist already need a baseline."""
    slot = _find_slot(request, source_name, slot_name)
    options = {"add": asked.add, "remove": asked.remove}
    return _act(request, asked, lambda: plan_tables(slot, **options),
                lambda by: change_tables(slot, **options, by=by))  # fmt: skip


@page(role=ADMIN, of=OF_SLOT)
@acts(
    "/slots/{source_name}/{slot_name}/columns",
    summary="Change which columns of a slot's tables are kept",
)
def change_slot_columns(
    request: HttpRequest, source_name: str, slot_name: str, asked: ColumnsAsked
) -> dict[str, object]:
    """Keep, mask or leave out columns; needs the role admin.

    Columns are left out at the source if replview created the publication.
    """
    slot = _find_slot(request, source_name, slot_name, Role.ADMIN)
    columns = NamedColumns(keep=asked.keep, mask=asked.mask, exclude=asked.exclude)
    return _act(request, asked, lambda: plan_columns(slot, columns),
                lambda by: change_columns(slot, columns, by=by))  # fmt: skip


@page(role=OPERATOR, of=OF_SLOT)
@acts("/slots/{source_name}/{slot_name}/adopt", summary="Take over a slot that somebody else made")
def adopt_slot(
    request: HttpRequest, source_name: str, slot_name: str, asked: AdoptAsked
) -> dict[str, object]:
    """Adopt a slot that nobody reads; `confirm` is the slot's name."""
    row = _find_source(request, source_name, Role.OPERATOR)
    require_all_tables(request, row)
    return _act(
        request,
        asked,
        lambda: adopting.plan_adopt(row, slot_name, asked.publications),
        lambda by: adopting.adopt(row, slot_name, asked.publications, by=by),
    )


@page(role=OPERATOR, of=OF_SLOT)
@acts("/slots/{source_name}/{slot_name}/drop", summary="Drop a slot of replview's")
def drop_slot(
    request: HttpRequest, source_name: str, slot_name: str, asked: DropAsked
) -> dict[str, object]:
    """Drop the slot and its publications, and keep or delete its record.

    `confirm` is the slot's name.
    """
    slot = _find_slot(request, source_name, slot_name)
    require_all_tables(request, slot.source)
    options: dict[str, Any] = {"keep_record": asked.record == "keep",
                               "leave_on_source": asked.leave_on_source}  # fmt: skip
    return _act(request, asked, lambda: dropping.plan_drop(slot, **options),
                lambda by: dropping.drop_slot(slot, **options, by=by))  # fmt: skip


@page(role=ADMIN, of={"name": None})
@acts("/sources/{name}/credentials", summary="Change the credentials of a source")
def change_credentials(
    request: HttpRequest, name: str, asked: CredentialsAsked
) -> dict[str, object]:
    """Test the credentials on the same server and database, then store them sealed."""
    row = _find_source(request, name, Role.ADMIN)
    new_credentials = Credentials(dsn=asked.dsn, user=asked.user, password=asked.password,
                                  password_ref=asked.password_ref)  # fmt: skip
    return _act(request, asked, lambda: plan_credentials(row),
                lambda by: set_credentials(row, new_credentials, by=by))  # fmt: skip


@page(role=ADMIN, of={"name": None})
@acts("/sources/{name}/move", summary="Move a source to another address")
def change_address(request: HttpRequest, name: str, asked: MoveAsked) -> dict[str, object]:
    """Move the source; if it is another cluster, `confirm` is the source's name."""
    row = _find_source(request, name, Role.ADMIN)
    moves: list[Move] = []

    def plan() -> Plan:
        keep = asked.keep_password
        moves.append(plan_move(row, asked.dsn, asked.password_ref, keep_password=keep))
        return moves[0].act

    return _act(request, asked, plan, lambda by: carry_out_move(row, moves[0], by=by))


@page(role=ADMIN, of={"name": None})
@acts("/sources/{name}/rename", summary="Rename a source")
def rename(request: HttpRequest, name: str, asked: RenameAsked) -> dict[str, object]:
    """Rename the source and keep its record."""
    row = _find_source(request, name, Role.ADMIN)
    return _act(request, asked, lambda: plan_rename(row, asked.name),
                lambda by: rename_source(row, asked.name, by=by))  # fmt: skip


@page(role=ADMIN, of={"name": None})
@acts("/sources/{name}/remove", summary="Remove a source")
def remove(request: HttpRequest, name: str, asked: RemoveAsked) -> dict[str, object]:
    """Remove the source; `confirm` is the source's name."""
    row = _find_source(request, name, Role.ADMIN)
    options: dict[str, Any] = {"with_slots": asked.with_slots,
                               "leave_on_source": asked.leave_on_source}  # fmt: skip
    return _act(request, asked, lambda: plan_remove(row, **options),
                lambda by: remove_source(row, **options, by=by))  # fmt: skip


def _act(
    request: HttpRequest, asked: Asked | None, plan: Callable[[], Plan], do: Callable[[str], object]
) -> dict[str, object]:
    """Plan the act, and carry it out unless it is a dry run."""
    asked = asked or Asked()
    try:
        act = plan()
        if asked.dry_run:
            return {**_visible_json(act), "done": False}
        act.check_typed(asked.confirm)
        do(request.user.get_username())
    except Problem as error:
        raise BadRequest(error.cause, error.remedy) from None
    return {**_visible_json(act), "done": True}


def _visible_json(act: Plan) -> dict[str, object]:
    visible: dict[str, object] = seen_statements(json_of(act), reading_session().visibility)
    return visible


def _find_source(request: HttpRequest, name: str, role: Role) -> Source:
    row = Source.objects.filter(name=name).first()
    if row is None or not sees_source(request.user, row.pk):
        raise Http404(f"there is no source {name!r}: see /api/v1/sources")
    if not may(request.user, role, row.pk):
        raise PermissionDenied(f"this needs the role {role.word}")
    return row


def _find_slot(
    request: HttpRequest, source_name: str, slot_name: str, role: Role = Role.OPERATOR
) -> Slot:
    _find_source(request, source_name, role)
    return slot_named(f"{source_name}/{slot_name}")


def _source_json(row: Source) -> dict[str, object]:
    return {
        "name": row.name,
        "conninfo": row.conninfo,
        "password": row.password_ref or ("sealed" if row.sealed_password else ""),
        "server_version": row.server_version,
        "system_identifier": row.system_identifier,
        "timeline": row.timeline,
        "in_recovery": row.in_recovery,
        "slots": sorted(slot.name for slot in row.slots.all()),
        "checked_at": row.checked_at,
        "credentials_changed_at": row.credentials_at,
        "managed_by": row.managed_by,
        "problem": row.problem_cause,
        "remedy": row.problem_remedy,
    }
