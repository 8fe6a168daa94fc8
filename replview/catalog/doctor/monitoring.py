"""Whether the role may see what monitoring reads: other sessions, senders, the size of the WAL."""

from collections.abc import Iterator

from replview.catalog.connections import Connection
from replview.catalog.doctor.findings import Finding, ok, warning
from replview.catalog.naming import quoted
from replview.catalog.queries import Query

MAY_MONITOR = Query(
    name="may_monitor",
    about="Whether the role is in pg_monitor (or a superuser); anyone may read it.",
    sql="SELECT current_user::text AS role, pg_has_role('pg_monitor', 'USAGE') AS may_monitor",
)


def check_monitoring(connection: Connection) -> Iterator[Finding]:
    """pg_monitor, with the statement that grants it."""
    row = MAY_MONITOR.row(connection)
    if row["may_monitor"]:
        yield ok("monitoring", f"role {row['role']} may read statistics (pg_monitor)")
    else:
        yield warning(
            "no_pg_monitor",
            f"role {row['role']} is not in pg_monitor: who reads a slot, what holds it back and "
            "the size of the WAL stay unknown",
            f"GRANT pg_monitor TO {quoted(row['role'])}",
        )
