"""The plan of a fleet file: one item for each source, slot, mask rule and grant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from replview.catalog.plan.carrying_out import Say
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.problems import SourceProblem

#: Maps fields of a ``SlotRequest`` to the fleet file's keys.
KEYS: Mapping[str, str] = {
    "adopt": "adopt = true",
    "all_tables": "all_tables = true",
    "exclude": "exclude_columns",
    "failover": "failover = true",
    "heartbeat_seconds": "heartbeat",
    "interface": 'interface = "sql"',
    "mask": "mask_columns",
    "protect": 'protect = "record": warn only',
    "publications": "publications",
    "schemas": "tables",
    "tables": "tables",
    "two_phase": "two_phase = false",
    "wal_budget_bytes": "wal_budget",
}
#: The author that logs and the access record name.
BY = "fleet.toml"


class Verdict(StrEnum):
    """The result of comparing an item with the file, or what was done with it."""

    UNCHANGED = "unchanged"
    ADDED = "added"
    CHANGED = "changed"
    #: The item is in the store but not in the file, and stays as it is.
    LEFT = "not in the file"
    REMOVED = "removed"
    #: The item cannot be made as the file says.
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that differs: its name, its present value and its new value."""

    what: str
    was: str
    now: str


@dataclass(slots=True, kw_only=True)
class Item:
    """One source, slot, mask rule or grant, with what would be done. It holds no secret."""

    #: ``source``, ``slot``, ``mask`` or ``grant``.
    kind: str
    #: For example ``shop`` for a source, ``shop/replview`` for a slot.
    name: str
    verdict: Verdict = Verdict.UNCHANGED
    changes: list[SettingChange] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: The reason why the item is refused, unreachable, or failed while it was carried out.
    trouble: SourceProblem | None = None
    #: Functions that carry the item out, in this order.
    acts: list[Callable[[Say], Any]] = field(default_factory=list)

    def change(self, what: str, was: object, now: object) -> None:
        """Add a changed setting; an item that was unchanged so far becomes changed."""
        self.changes.append(SettingChange(what, _word(was), _word(now)))
        if self.verdict is Verdict.UNCHANGED:
            self.verdict = Verdict.CHANGED

    def refuse(self, trouble: SourceProblem, verdict: Verdict = Verdict.REFUSED) -> None:
        """Mark the item as not possible, and drop everything it would have done."""
        self.verdict, self.trouble = verdict, trouble.with_places(KEYS)
        self.acts, self.statements = [], []

    def take(self, act: Plan, carry_out: Callable[[Say], Any]) -> None:
        """Add the statements of a plan and its execution; refuse the item if the plan refuses."""
        if act.refusal is not None:
            self.refuse(act.refusal)
        elif self.trouble is None:
            self.statements += act.statements
            self.notes += act.consequences
            self.acts.append(carry_out)

    def will(self, act: Callable[..., Any], *args: Any, **named: Any) -> None:
        """Run this function when the item is carried out; it reports no progress."""
        self.acts.append(lambda say: act(*args, **named))


@dataclass(slots=True)
class FleetPlan:
    """The whole plan: sources in the file's order, then sources it does not name, masks, grants."""

    #: Items of one source, the source first. The items of a group run one after another.
    groups: list[list[Item]] = field(default_factory=list)

    @property
    def items(self) -> list[Item]:
        """Return all items, in the order in which they are shown."""
        return [item for group in self.groups for item in group]

    @property
    def changes_something(self) -> bool:
        """Return whether any item has something to carry out."""
        return any(item.acts for item in self.items)

    @property
    def troubled(self) -> list[Item]:
        """Return the items that cannot be done, or that failed while they were done."""
        return [item for item in self.items if item.trouble is not None]

    def count(self, verdict: Verdict) -> int:
        """Return the number of items with this verdict."""
        return sum(item.verdict is verdict for item in self.items)


def _word(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}={value[key]}" for key in sorted(value)) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
