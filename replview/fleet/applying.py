"""A plan carried out: sources, masks, grants, then slots: nothing is received before its masks.

Eight at a time; what fails is named, and the rest goes on.
"""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
from django.db import DatabaseError

from replview.catalog.problems import SourceTrouble, Trouble
from replview.fleet.planning import side_by_side
from replview.fleet.plans import Item, Plan
from replview.store.access_record import note
from replview.store.dsn import DSNError
from replview.store.secrets import SecretKeyChanged

#: Told which item a line is about, and the line.
Tell = Callable[[str, str], None]


def apply_plan(plan: Plan, tell: Tell, stop: threading.Event, path: Path) -> None:
    """Do it. What could not be done is in the items' ``trouble`` afterwards."""

    def carry_out(items: list[Item]) -> None:
        for item in items:
            if item.changes_something and not stop.is_set():
                _carry_out(item, tell)

    side_by_side(carry_out, [_of(group, "source") for group in plan.groups], stop)
    for group in plan.groups:
        _leave_out(group)
    # One after another: a rule may be of a source that was added just now.
    carry_out([item for item in plan.items if item.kind == "mask"])
    carry_out([item for item in plan.items if item.kind == "grant"])
    side_by_side(carry_out, [_of(group, "slot") for group in plan.groups], stop)
    done = Counter(str(item.verdict) for item in plan.items if item.acts and not item.trouble)
    note("applied_fleet", subject=path.name, details=dict(done))


def _of(group: list[Item], kind: str) -> list[Item]:
    return [item for item in group if item.kind == kind]


def _carry_out(item: Item, tell: Tell) -> None:
    try:
        for act in item.acts:
            act(lambda line: tell(item.name, line))
    except SourceTrouble as error:
        item.trouble = error.trouble
    except (DSNError, SecretKeyChanged) as error:
        item.trouble = Trouble("address", str(error), "Correct its dsn or password in the file")
    except (psycopg.Error, DatabaseError) as error:
        # Its text may hold values.
        item.trouble = Trouble("failed", f"it failed ({type(error).__name__})", "Apply again")
    tell(item.name, f"failed: {item.trouble}" if item.trouble else str(item.verdict))


def _leave_out(group: list[Item]) -> None:
    """Slots of a source that could not be made known, or changed."""
    if not any(item.kind == "source" and item.trouble for item in group):
        return
    for item in group:
        if item.changes_something and item.trouble is None:
            item.trouble = Trouble("not_tried", "not tried, since its source failed", "Apply again")
            item.acts = []
