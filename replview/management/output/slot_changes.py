"""A plan in lines; ``slot_making`` carries one out, ``acts.dropping`` takes a slot back."""

from replview.acts.slot_making import make_slot, record_made
from replview.catalog.plan.plan import Plan

__all__ = ["lines_of_plan", "make_slot", "record_made"]


def lines_of_plan(plan: Plan) -> list[str]:
    """Every statement with its rights and cost, then what else there is to know."""
    lines = []
    for step in plan.steps:
        lines += [f"  {step};", f"      needs: {step.needs}", f"      costs: {step.costs}"]
    lines += [f"  note: {note}" for note in plan.notes]
    lines += [f"  the slot would now wait for {item}" for item in plan.waits_for]
    return lines
