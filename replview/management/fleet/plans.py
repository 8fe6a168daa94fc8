"""What a fleet file comes to: one item for each source, slot and mask rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from replview.catalog.plan.carrying_out import Say
from replview.catalog.plan.plan import Plan, Statement
from replview.catalog.problems import SourceProblem

#: Fields of a ``SlotRequest`` → the key that a file has for them.
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
#: Who is named in logs and in the access record.
BY = "fleet.toml"


class Verdict(StrEnum):
    UNCHANGED = "unchanged"
    ADDED = "added"
    CHANGED = "changed"
    #: Known here, not in the file, left alone.
    LEFT = "not in the file"
    REMOVED = "removed"
    #: Cannot be done as the file says.
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Change:
    what: str
    was: str
    now: str


@dataclass(slots=True, kw_only=True)
class Item:
    """One source, slot or mask rule, with what would be done. Holds no secret."""

    #: ``source``, ``slot`` or ``mask``.
    kind: str
    #: ``shop``, ``shop/replview``.
    name: str
    verdict: Verdict = Verdict.UNCHANGED
    changes: list[Change] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Why it is refused, cannot be reached, or failed while it was done.
    trouble: SourceProblem | None = None
    #: What carries it out, in this order.
    acts: list[Callable[[Say], Any]] = field(default_factory=list)

    def change(self, what: str, was: object, now: object) -> None:
        self.changes.append(Change(what, _word(was), _word(now)))
        if self.verdict is Verdict.UNCHANGED:
            self.verdict = Verdict.CHANGED

    def refuse(self, trouble: SourceProblem, verdict: Verdict = Verdict.REFUSED) -> None:
        self.verdict, self.trouble = verdict, trouble.with_places(KEYS)
        self.acts, self.statements = [], []

    def take(self, act: Plan, carry_out: Callable[[Say], Any]) -> None:
        """Do what an act says; where that refuses, the whole item is refused."""
        if act.refusal is not None:
            self.refuse(act.refusal)
        elif self.trouble is None:
            self.statements += act.statements
            self.notes += act.consequences
            self.acts.append(carry_out)

    def will(self, act: Callable[..., Any], *args: Any, **named: Any) -> None:
        """Have this done when it is carried out; it says nothing meanwhile."""
        self.acts.append(lambda say: act(*args, **named))


@dataclass(slots=True)
class FleetPlan:
    """All of it, source by source in the file's order, then mask rules, then what is not in it."""

    #: Items that belong together, the source first: they are carried out one after another.
    groups: list[list[Item]] = field(default_factory=list)

    @property
    def items(self) -> list[Item]:
        """In the order they are told."""
        return [item for group in self.groups for item in group]

    @property
    def changes_something(self) -> bool:
        return any(item.acts for item in self.items)

    @property
    def troubled(self) -> list[Item]:
        """What could not be, or was not, done."""
        return [item for item in self.items if item.trouble is not None]

    def count(self, verdict: Verdict) -> int:
        """How many items it holds for."""
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
