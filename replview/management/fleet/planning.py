"""The whole file compared with the store and with forty servers, eight at a time."""

import contextvars
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connections

from replview.catalog.problems import Trouble
from replview.management.fleet.declared import DeclaredSource, Fleet
from replview.management.fleet.grant_planning import plan_grants
from replview.management.fleet.mask_planning import plan_masks
from replview.management.fleet.plans import Item, Plan, Verdict
from replview.management.fleet.source_planning import plan_further_source, plan_source
from replview.store.models import Source

#: Servers that are asked, or changed, at the same time.
WORKERS = 8
_Task = TypeVar("_Task")


def plan_fleet(fleet: Fleet, *, prune: bool, stop: threading.Event) -> Plan:
    """What would be done; nothing is changed, here or there."""

    def look(declared: DeclaredSource) -> list[Item]:
        try:
            return plan_source(declared, file=fleet.name, prune=prune, stop=stop)
        except Exception as error:
            # One of forty must not hide the rest; its text might hold what nobody should read.
            trouble = Trouble("failed", f"looking at it failed ({type(error).__name__})",
                              "Look at it with 'replview doctor'")  # fmt: skip
            item = Item(kind="source", name=declared.name)
            item.refuse(trouble, Verdict.UNREACHABLE)
            return [item]

    groups = side_by_side(look, fleet.sources, stop)
    named = {declared.name for declared in fleet.sources}
    further = Source.objects.filter(ephemeral=False, removing_at=None).exclude(name__in=named)
    groups += [plan_further_source(source, file=fleet.name, prune=prune) for source in further]
    groups += [[item] for item in plan_masks(fleet, prune=prune)]
    groups += [[item] for item in plan_grants(fleet, prune=prune)]
    return Plan(groups)


def side_by_side(
    work: Callable[[_Task], Any], tasks: Iterable[_Task], stop: threading.Event
) -> list[Any]:
    """The results in the tasks' order. Each thread gives its connection to the store back. With
    Ctrl-C ``stop`` is set, what has not begun is not begun, and what has is waited for.
    """
    todo: Sequence[_Task] = list(tasks)
    if not todo:
        return []

    def run(context: contextvars.Context, task: _Task) -> Any:
        try:
            return context.run(work, task)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(min(WORKERS, len(todo)), thread_name_prefix="fleet") as pool:
        futures = [pool.submit(run, contextvars.copy_context(), task) for task in todo]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
