"""This module checks which output plugins a server allows.

Minor releases since 2026 (such as 18.6, 17.11, 16.15) have a list of plugins. A slot of any other
plugin can neither be created nor read, by any role. Source: PostgreSQL, documentation of
``output_plugin_libraries``.
"""

from collections.abc import Iterator, Sequence

import psycopg

from replview.catalog.connections import Connection, Query
from replview.catalog.doctor_checks import Finding, problem, warning
from replview.catalog.naming import literal, quoted
from replview.catalog.server import ServerFacts
from replview.catalog.slots import SlotFacts
from replview.text.formats import some_of

PLUGINS = Query(
    name="plugins",
    about="The list, NULL where there is none; refused to a role without pg_read_all_settings.",
    sql="SELECT current_setting('output_plugin_libraries', true) AS names",
)
#: The plugin of every slot that replview creates.
_PGOUTPUT = "pgoutput"


def check_hidden_plugins(connection: Connection, server: ServerFacts) -> Iterator[Finding]:
    """Yield a warning if the role may not read the list, which then looks as if it were absent."""
    try:
        PLUGINS.row(connection)
    except psycopg.errors.InsufficientPrivilege:
        yield warning(
            "plugins_unknown",
            f"whether the server allows the output plugin {_PGOUTPUT} is unknown: role "
            f"{server.role} may not read output_plugin_libraries",
            f"GRANT pg_read_all_settings TO {quoted(server.role)}",
        )


def check_plugins(server: ServerFacts, slots: Sequence[SlotFacts]) -> Iterator[Finding]:
    """Yield findings if the list lacks our plugin, or the plugins of existing slots."""
    allowed = server.output_plugins
    if allowed is None:
        return
    if _PGOUTPUT not in allowed:
        yield problem(
            "plugin_refused",
            f"the server does not allow the output plugin {_PGOUTPUT}, which every slot of "
            "replview needs",
            _allow_statement(allowed, [_PGOUTPUT]),
        )
    refused = [s for s in slots if s.plugin and s.plugin != _PGOUTPUT and s.plugin not in allowed]
    if refused:
        names = some_of([f"{slot.slot_name} ({slot.plugin})" for slot in refused])
        message = f"slots of plugins that the server does not allow cannot be read: {names}"
        remedy = _allow_statement(allowed, sorted({str(slot.plugin) for slot in refused}))
        yield warning("slots_refused", message, remedy)


def _allow_statement(allowed: Sequence[str], missing: Sequence[str]) -> str:
    names = ", ".join(literal(name) for name in (*allowed, *missing))
    return (
        f"ALTER SYSTEM SET output_plugin_libraries = {names}; then SELECT pg_reload_conf() "
        "(every role that may replicate can then load these plugins)"
    )
