"""A plan for a terminal: every statement with its rights and cost, then what follows of it."""

from collections.abc import Iterable

from replview.catalog.plan.new_slot import SlotPlan
from replview.catalog.plan.plan import Plan, Statement


def statement_lines(statements: Iterable[Statement]) -> list[str]:
    """Three lines a statement."""
    lines = []
    for one in statements:
        lines += [f"  {one};", f"      needs: {one.needs}", f"      costs: {one.costs}"]
    return lines


def lines_of(plan: Plan) -> list[str]:
    """Where it runs, the statements, then the consequences."""
    begin = "this will run:" if plan.statements else "nothing is changed"
    lines = [f"on {plan.on} {begin}", *statement_lines(plan.statements)]
    return lines + [f"  {sentence}" for sentence in plan.consequences]


def lines_of_slot(plan: SlotPlan) -> list[str]:
    """Of a new slot: the statements, then what else there is to know."""
    lines = statement_lines(plan.statements)
    lines += [f"  note: {note}" for note in plan.notes]
    return lines + [f"  the slot would now wait for {item}" for item in plan.waits_for]
