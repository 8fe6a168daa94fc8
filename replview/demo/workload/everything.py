"""Every scenario of the shop: importing this module registers them all, in one order."""

from __future__ import annotations

from replview.demo.workload import (
    batches,
    catalogue,
    ddl,
    janitor,
    notes,
    orders,
    origins,
    two_phase,
    visitors,
)
from replview.demo.workload.scenarios import SCENARIOS, Scenario

#: The modules that register scenarios; named so that the imports are seen to be meant.
MODULES = (orders, catalogue, visitors, notes, origins, batches, two_phase, ddl, janitor)


def of_session(session: str) -> list[Scenario]:
    """The scenarios that sessions of this application_name run."""
    return [scenario for scenario in SCENARIOS if scenario.session == session]
