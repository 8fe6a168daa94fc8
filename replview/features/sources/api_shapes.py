"""What programs send to have a source or a slot managed, and what they are answered."""

from datetime import datetime
from typing import Literal

from ninja import Field, Schema


class SourceOut(Schema):
    """A source, without its secrets."""

    name: str
    #: Its address without the password.
    conninfo: str
    #: ``sealed``, ``env:NAME``, ``file:/path``, or empty: none is kept here.
    password: str
    server_version: int | None
    system_identifier: str | None
    timeline: int | None
    in_recovery: bool | None
    slots: list[str]
    checked_at: datetime | None
    credentials_changed_at: datetime | None
    #: The fleet file that declares it, and sets back what is changed here; empty: none does.
    managed_by: str
    problem: str
    remedy: str


class StatementOut(Schema):
    """One statement on the source."""

    sql: str
    needs: str
    costs: str


class RefusalOut(Schema):
    """Why it cannot be done now."""

    code: str
    cause: str
    remedy: str


class ActOut(Schema):
    """What was done, or would be."""

    title: str
    on: str
    statements: list[StatementOut]
    consequences: list[str]
    #: What `confirm` must hold; empty: nothing.
    confirm: str
    refused: RefusalOut | None
    done: bool


class Asked(Schema):
    """What every act takes."""

    model_config = {"extra": "forbid"}

    dry_run: bool = Field(default=False, description="tell what would be done, and do nothing")
    confirm: str = Field(
        default="", description="of an act that destroys something: its name, typed"
    )


class TablesAsked(Asked):
    """Tables by ``schema.table``."""

    add: list[str] = Field(default_factory=list, max_length=2000)
    remove: list[str] = Field(default_factory=list, max_length=2000)


class ColumnsAsked(Asked):
    """Columns by ``schema.table.column``; every other one stays as it is."""

    keep: list[str] = Field(default_factory=list, max_length=2000)
    mask: list[str] = Field(default_factory=list, max_length=2000)
    exclude: list[str] = Field(default_factory=list, max_length=2000)


class AdoptAsked(Asked):
    """Publications to read the slot with."""

    publications: list[str] = Field(default_factory=list, max_length=200)


class DropAsked(Asked):
    """What becomes of the record."""

    record: Literal["keep", "delete"]
    leave_on_source: bool = False


class CredentialsAsked(Asked):
    """What is new; what is left out stays."""

    dsn: str = Field("", max_length=4000)
    user: str = Field("", max_length=63)
    password: str = Field("", max_length=1000)
    password_ref: str = Field("", max_length=1000)


class MoveAsked(Asked):
    """Another address."""

    dsn: str = Field(max_length=4000)
    password_ref: str = Field("", max_length=1000)
    keep_password: bool = False


class RenameAsked(Asked):
    """Another name."""

    name: str = Field(max_length=63)


class RemoveAsked(Asked):
    """With its slots, or only where there are none."""

    with_slots: bool = False
    leave_on_source: bool = False
