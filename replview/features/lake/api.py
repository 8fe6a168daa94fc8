"""The API of lakes: how far their tables are, and how their last runs ended."""

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Router, Schema

from replview.access.page import OPERATOR, page
from replview.features.lake.facts import lake_facts
from replview.store.models import Lake

router = Router(tags=["lakes"])


class LakeSizeOut(Schema):
    """The size of `changes` or `current`, as the last run reported it."""

    rows: int
    files: int
    bytes: int


class LakeTableOut(Schema):
    """A table in a lake; null is unknown."""

    table: str
    state: str = Field(description="`running`, `failed` or `idle`")
    reached: dict[str, int] = Field(description="the last `commit_seq` read, by incarnation")
    behind_changes: int | None = Field(description="stored changes that the lake has not read")
    behind_more: bool = Field(description="there may be more: only the first ones were counted")
    behind_seconds: float | None = Field(description="age of the oldest of them")
    changes: LakeSizeOut | None
    current: LakeSizeOut | None
    no_current: str = Field(description="why there is no `current`; empty: there is one")
    batches: int = Field(description="of the last run")
    gaps: list[list[int]] = Field(
        description="history that it lacks: incarnation, first and last `commit_seq` (0: what "
        "changed before the incarnation began)"
    )
    reported_at: str | None
    problem: str = Field(description="of the last run; empty: none")
    remedy: str


class LakeProgressOut(Schema):
    """The progress of a run; null is unknown."""

    table: int | None = Field(description="number of the table that it reads, from 1")
    tables: int
    changes: int | None = Field(description="changes of this table that it has read")
    of: int | None = Field(description="changes of this table that there were to read")


class LakeRunOut(Schema):
    """The last run of a lake."""

    id: int
    action: str = Field(description="`run` or `maintain`")
    state: str = Field(description="`waiting`, `running`, `done`, `failed` or `cancelled`")
    table: str = Field(description="that it reads, or at which it failed; empty: none")
    progress: LakeProgressOut | None = Field(description="while it runs")
    requested_by: str
    requested_at: str
    finished_at: str | None
    problem: str
    remedy: str


class LakeOut(Schema):
    """A lake with its tables."""

    id: int
    name: str
    format: str = Field(description="`delta` or `iceberg`")
    root: str
    slot: str
    every_minutes: int | None = Field(description="null: it runs only when somebody asks")
    run: LakeRunOut | None
    tables: list[LakeTableOut]


@page(role=OPERATOR)
@router.get("/lakes", response=list[LakeOut], summary="Lakes, and how far behind they are")
def all_lakes(request: HttpRequest) -> list[dict[str, Any]]:
    """List the lakes by name, each with its tables and its last run."""
    return [lake_facts(lake) for lake in Lake.objects.select_related("slot__source")]


@page(role=OPERATOR, of={"lake_id": Lake})
@router.get("/lakes/{int:lake_id}", response=LakeOut, summary="One lake")
def one_lake(request: HttpRequest, lake_id: int) -> dict[str, Any]:
    """Return one lake with its tables and its last run."""
    lakes = Lake.objects.select_related("slot__source")
    return lake_facts(get_object_or_404(lakes, pk=lake_id))
