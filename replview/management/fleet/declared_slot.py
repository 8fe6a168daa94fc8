"""The keys of a slot in a fleet file and the rules between them; the base of all its tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainValidator,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_validator,
)

from replview.management.fleet.alert_overrides import OwnRule, parse_alerts
from replview.management.fleet.values import (
    Budget,
    Columns,
    Days,
    ExceptPatterns,
    Heartbeat,
    Names,
    Options,
    Patterns,
    Size,
    SlotName,
)

#: Keys that choose tables.
_TABLE_CHOICES = {"publications", "tables", "except_tables", "all_tables"}


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContext:
    """The parts of the file that the validation of a source, slot, mask or grant needs."""

    #: The valid default address; empty if it is invalid, None if there is none.
    default_dsn: str | None
    default_password_ref: str
    #: The valid defaults of slots, as they stand in the file.
    slot_defaults: Mapping[str, Any]
    source_names: frozenset[str]


class SlotDefaults(Table):
    """``[defaults.slot]``: the keys of a slot except its name.

    The validators of a slot depend on the order: ``adopt`` and the table choices come first.
    """

    adopt: StrictBool = False
    tables: Patterns | None = None
    except_tables: ExceptPatterns | None = None
    all_tables: StrictBool | None = None
    publications: Names = ()
    exclude_columns: Columns = ()
    mask_columns: Columns = ()
    two_phase: StrictBool = True
    failover: StrictBool = False
    wal_budget: Budget = None
    protect: Literal["database", "record"] | None = None
    heartbeat: Heartbeat = None
    interface: Literal["walsender", "sql"] = "walsender"
    keep_for: Days = None
    keep_at_most: Size = None
    keep_aborted: StrictBool = False
    options: Options = {}
    baseline: StrictBool = False
    running: StrictBool = True
    alerts: Annotated[dict[str, OwnRule], PlainValidator(parse_alerts)] = {}


class DeclaredSlot(SlotDefaults):
    """One ``[[source.slot]]`` with the defaults it inherits."""

    name: SlotName = "replview"

    def __str__(self) -> str:
        return f"{self.name}"

    @property
    def values(self) -> dict[str, Any]:
        """Return the declared values only, by key."""
        return {key: getattr(self, key) for key in self.model_fields_set - {"name"}}

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Return the declared value of a key, or ``otherwise`` if it is absent."""
        return getattr(self, key) if self.says(key) else otherwise

    def says(self, *keys: str) -> bool:
        """Return whether any of the keys is declared."""
        return not self.model_fields_set.isdisjoint(keys)

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, own: Any, info: ValidationInfo[FileContext]) -> Any:
        if not isinstance(own, Mapping):
            return own
        inherited = dict(info.context.slot_defaults)
        # A slot that chooses tables itself inherits no table choice from the defaults.
        if _TABLE_CHOICES & own.keys():
            inherited = {key: now for key, now in inherited.items() if key not in _TABLE_CHOICES}
        merged = {**inherited, **own}
        if "alerts" in inherited and isinstance(own.get("alerts"), Mapping):
            merged["alerts"] = {**inherited["alerts"], **own["alerts"]}
        return merged

    @field_validator("all_tables")
    @classmethod
    def _all_or_some(cls, all_tables: bool, info: ValidationInfo) -> bool:
        if all_tables and _chosen(info, "tables", "except_tables"):
            raise ValueError("all_tables leaves no choice: leave tables out")
        return all_tables

    @field_validator("publications")
    @classmethod
    def _existing_or_own(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if _chosen(info, "tables", "except_tables", "all_tables"):
            raise ValueError(
                "publications are used as they are: leave tables, except_tables and all_tables out"
            )
        return names

    @field_validator("wal_budget")
    @classmethod
    def _budget_of_own_slot(cls, budget: int | None, info: ValidationInfo) -> int | None:
        if budget is None and info.data.get("adopt") is False:
            raise ValueError(
                "a slot that replview creates has a WAL budget; to be warned only: "
                'protect = "record"'
            )
        return budget


def _chosen(info: ValidationInfo, *keys: str) -> bool:
    return any(info.data.get(key) is not None for key in keys)
