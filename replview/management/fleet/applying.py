"""A plan carried out: sources, masks, grants, then slots: nothing is received before its masks.

Eight at a time; what fails is named, and the rest goes on.
"""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from django.core.exceptions import ObjectDoesNotExist

from replview.access.accounts import AccountProblem
from replview.catalog.problems import SourceTrouble, Trouble
from replview.management.fleet.planning import side_by_side
from replview.management.fleet.plans import Item, Plan
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged
from replview.store.write.access_record import note

_NOT_HERE = "not_here"
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
        if any(item.kind == "source" and item.trouble for item in group):
            _leave_out(group, "its source failed")
    # One after another: a rule may be of a source that was added just now.
    masks = [item for item in plan.items if item.kind == "mask"]
    carry_out(masks)
    if any(item.trouble and item.trouble.code != _NOT_HERE for item in masks):
        _leave_out([item for item in plan.items if item.kind == "slot"], "a mask rule failed")
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
    except AccountProblem as problem:
        item.trouble = Trouble("refused", str(problem), "Correct it in the file")
    except ObjectDoesNotExist:
        # Its server was not reached, or it is being removed: there is nothing to mask or to see.
        item.trouble = Trouble(_NOT_HERE, "not tried, since its source is not here", "Apply again")
    except Exception as error:
        # One of forty must not hold up the rest; its text may hold values.
        item.trouble = Trouble("failed", f"it failed ({type(error).__name__})", "Apply again")
    tell(item.name, f"failed: {item.trouble}" if item.trouble else str(item.verdict))


def _leave_out(items: list[Item], why: str) -> None:
    """What would build upon something that could not be done."""
    for item in items:
        if item.changes_something and item.trouble is None:
            item.trouble = Trouble("not_tried", f"not tried, since {why}", "Apply again")
            item.acts = []
