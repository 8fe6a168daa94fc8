"""The tables of a fleet file, a model for each, with the rules between their keys.

An absent key leaves the stored setting unchanged; a new slot gets the default. A validator sees the
keys that stand above its own in the model, unless they are invalid. A validator that also runs for
an absent key gets None, which TOML cannot write.
"""

from typing import Annotated, Literal, LiteralString, Self

from psycopg import conninfo as libpq
from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from replview.acts.sources import name_fault
from replview.management.fleet.declared_slot import DeclaredSlot, FileContext, SlotDefaults, Table
from replview.management.fleet.values import (
    DSN,
    GrantPatterns,
    PasswordRef,
    Text,
    parse_dsn,
    parse_password,
    parse_text,
)


def _incomplete(text: LiteralString) -> PydanticCustomError:
    """Return an error of the whole table, for the validator of one of its keys."""
    return PydanticCustomError("incomplete", text)


class Defaults(Table):
    """``[defaults]``."""

    dsn: DSN = ""
    password_ref: PasswordRef = Field(default="", validation_alias="password")
    slot: SlotDefaults = SlotDefaults()


class DeclaredSource(Table):
    """One ``[[source]]``. It holds no secret, only the place where the secret is."""

    name: str = Field(default=None, validate_default=True)
    service: Text = ""
    #: A libpq connection string without a password, ``service=…`` or ``env:NAME``.
    dsn: str = Field(default=None, validate_default=True)
    #: ``env:NAME`` or ``file:/path``; empty if no password is declared.
    password_ref: str = Field(default=None, validation_alias="password", validate_default=True)
    slots: tuple[DeclaredSlot, ...] = Field(default=(), validation_alias="slot")

    def __str__(self) -> str:
        return f"{self.name or ''}"

    @field_validator("name", mode="plain")
    @classmethod
    def _name(cls, value: object) -> str:
        if value is None:
            raise _incomplete('it has no name: name = "shop"')
        if fault := name_fault(name := parse_text(value)):
            raise ValueError(fault)
        return name

    @field_validator("dsn", mode="plain")
    @classmethod
    def _address(cls, value: object, info: ValidationInfo[FileContext]) -> str:
        """Return the address in the form that the store keeps, merged with the default one."""
        own = "" if value is None else parse_dsn(value)
        if service := info.data.get("service"):
            if own:
                raise ValueError("give a dsn or a service, not both")
            # Merge no defaults: their keywords would override the settings of the service.
            return libpq.make_conninfo("", service=service)
        if not own and info.context.default_dsn is None:
            raise _incomplete('it has no address: dsn = "host=… dbname=… user=…"')
        shared = info.context.default_dsn or ""
        if own.startswith("env:") or shared.startswith("env:"):
            return own or shared
        merged = {**libpq.conninfo_to_dict(shared), **libpq.conninfo_to_dict(own)}
        return libpq.make_conninfo("", **merged)

    @field_validator("password_ref", mode="plain")
    @classmethod
    def _password(cls, value: object, info: ValidationInfo[FileContext]) -> str:
        own = "" if value is None else parse_password(value)
        if info.data.get("dsn", "").startswith("env:"):
            if own:
                raise ValueError("the whole DSN is in that variable, password and all")
            return ""
        return own if own or info.data.get("service") else info.context.default_password_ref


def _known_source(name: str, info: ValidationInfo[FileContext]) -> str:
    if name not in info.context.source_names:
        raise ValueError(f"there is no [[source]] named {name} here")
    return name


#: The name of a source; empty means every source.
SourceName = Annotated[Text, AfterValidator(_known_source)]


class DeclaredMask(Table):
    """One ``[[mask]]``."""

    source: SourceName = ""
    table: Text = "*"
    column: Text = "*"
    type: str = Field(default=None, validate_default=True)
    when: Literal["ingest", "display"] = "ingest"
    note: Text = ""

    def __str__(self) -> str:
        kind = f" of type {self.type}" if self.type else ""
        return f"{self.table}.{self.column}{kind}, {self.source or 'every source'}"

    @field_validator("type", mode="plain")
    @classmethod
    def _type(cls, value: object, info: ValidationInfo) -> str:
        names = info.data.get("table", "?") + info.data.get("column", "?")
        if value is None and set(names) <= set("*."):
            raise _incomplete(
                "it would mask every column there is: name a table, a column or a type"
            )
        return "" if value is None else parse_text(value)


class DeclaredGrant(Table):
    """One ``[[grant]]``."""

    user: Text = ""
    group: str = Field(default=None, validate_default=True)
    source: SourceName = ""
    #: Table patterns; empty means all tables.
    tables: GrantPatterns = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.holder} on {self.source or 'every source'}"

    @property
    def kind(self) -> str:
        """Return ``user`` or ``group``."""
        return "user" if self.user else "group"

    @property
    def holder(self) -> str:
        """Return the name of the user or group."""
        return self.user or self.group

    @field_validator("group", mode="plain")
    @classmethod
    def _user_or_group(cls, value: object, info: ValidationInfo) -> str:
        group = "" if value is None else parse_text(value)
        if "user" in info.data and bool(info.data["user"]) == bool(group):
            raise _incomplete('it must name either a user or a group, such as group = "viewer"')
        return group


class DeclaredFleet(Table):
    """Everything that a fleet file declares."""

    defaults: Defaults = Defaults()
    sources: tuple[DeclaredSource, ...] = Field(default=(), validation_alias="source")
    masks: tuple[DeclaredMask, ...] = Field(default=(), validation_alias="mask")
    grants: tuple[DeclaredGrant, ...] = Field(default=(), validation_alias="grant")
    _name: str = PrivateAttr("fleet.toml")

    @property
    def name(self) -> str:
        """Return the file's name without its folder."""
        return self._name

    @property
    def has_masks(self) -> bool:
        """Return whether the file declares mask rules; if not, ``--prune`` leaves stored rules."""
        return "masks" in self.model_fields_set

    def named(self, name: str) -> Self:
        """Return the fleet with this name of its file."""
        fleet = self.model_copy()
        fleet._name = name
        return fleet
