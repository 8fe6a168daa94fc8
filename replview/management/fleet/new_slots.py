"""A declared slot that replview does not have yet: planned as ``replview slot add`` plans it."""

from replview.acts.act import Statement
from replview.catalog.connections import Connection
from replview.catalog.plan.plan import Plan, make_plan
from replview.catalog.plan.slot_request import Wish
from replview.catalog.state.wal_budget import RECORD
from replview.catalog.tables import TableFacts, leaves_of
from replview.management.fleet.declared import DeclaredSlot
from replview.management.fleet.matching import columns_matching, matches_table, tables_matching


def plan_new(connection: Connection, declared: DeclaredSlot, tables: list[TableFacts]) -> Plan:
    """What making it takes. Raises ``SourceTrouble`` to refuse."""
    return make_plan(connection, wish_of(declared, tables))


def wish_of(declared: DeclaredSlot, tables: list[TableFacts]) -> Wish:
    """Its patterns as names of this database. Raises ``SourceTrouble``."""
    get = declared.get
    # A budget that is said to be none is none: one is chosen where something is to be protected.
    none = declared.says("wal_budget") and get("wal_budget") is None
    return Wish(
        slot_name=declared.name,
        publications=get("publications", ()),
        tables=chosen_names(declared, tables),
        all_tables=get("all_tables", False),
        exclude=columns_matching(get("exclude_columns", ()), tables),
        mask=columns_matching(get("mask_columns", ()), tables),
        two_phase=get("two_phase", True),
        adopt=get("adopt", False),
        failover=get("failover", False),
        wal_budget_bytes=get("wal_budget"),
        protect="" if none and get("protect") == RECORD else get("protect", ""),
        heartbeat_seconds=get("heartbeat"),
    )


def chosen_names(declared: DeclaredSlot, tables: list[TableFacts]) -> tuple[str, ...]:
    """``schema.table`` of the tables its patterns choose; empty: all, without exception."""
    patterns, excepted = declared.get("tables", ("*",)), declared.get("except_tables", ())
    if patterns == ("*",) and not excepted:
        return ()
    found = tables_matching(patterns, tables)
    out = {table.oid for table in found if any(matches_table(p, table) for p in excepted)}
    # A partitioned table that is left out takes its partitions along.
    out |= {leaf.oid for table in found if table.oid in out for leaf in leaves_of(table, tables)}
    chosen = tuple(table.text for table in found if table.oid not in out)
    # Names that are no table's choose nothing; no name at all would choose everything.
    return chosen or tuple(patterns)


def statements_of(plan: Plan) -> list[Statement]:
    """Its steps as they are shown."""
    return [Statement(sql=str(step), needs=step.needs, costs=step.costs) for step in plan.steps]
