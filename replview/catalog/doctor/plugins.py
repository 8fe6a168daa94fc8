"""Which output plugins the server lets anybody use.

Minor releases since 2026 (18.6, 17.11, 16.15 and their like) have a list of them: a slot of any
other plugin can neither be made nor read, whoever asks.
Source: PostgreSQL, documentation of ``output_plugin_libraries``.
"""

from collections.abc import Iterator, Sequence

from replview.catalog.doctor.findings import Finding, problem, some_of, warning
from replview.catalog.naming import literal
from replview.catalog.server import ServerFacts
from replview.catalog.slots import SlotFacts

#: What every slot that replview makes speaks.
_OURS = "pgoutput"


def check_plugins(server: ServerFacts, slots: Sequence[SlotFacts]) -> Iterator[Finding]:
    """Ours must be in the list, and those of slots that somebody made before there was one."""
    allowed = server.output_plugins
    if allowed is None:
        return
    if _OURS not in allowed:
        yield problem(
            "plugin_refused",
            f"the server does not allow the output plugin {_OURS}, which every slot of replview's "
            "needs",
            _add(allowed, [_OURS]),
        )
    refused = [s for s in slots if s.plugin and s.plugin != _OURS and s.plugin not in allowed]
    if refused:
        names = some_of([f"{slot.slot_name} ({slot.plugin})" for slot in refused])
        yield warning(
            "slots_refused",
            f"slots of plugins that the server does not allow cannot be read: {names}",
            _add(allowed, sorted({str(slot.plugin) for slot in refused})),
        )


def _add(allowed: Sequence[str], more: Sequence[str]) -> str:
    names = ", ".join(literal(name) for name in (*allowed, *more))
    return (
        f"ALTER SYSTEM SET output_plugin_libraries = {names}; then SELECT pg_reload_conf() "
        "(whoever may replicate can load a plugin that is in the list)"
    )
