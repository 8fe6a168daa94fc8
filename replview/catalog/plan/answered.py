"""What was answered in the browser, step by step, as a wish for the plan.

Answers are plain data, as a draft keeps them; whoever carries the plan out reads them again.
"""

from collections.abc import Mapping
from typing import Any

from replview.catalog.naming import table_parts
from replview.catalog.plan.slot_request import Columns, Wish
from replview.catalog.state.wal_budget import budget_trouble, parse_budget

#: What pgoutput is asked for where nobody says otherwise; ``parallel`` falls back by itself.
PGOUTPUT = {"streaming": "parallel", "messages": "on", "origin": "any"}


def wish_of(answers: Mapping[str, Any], *, temporary: bool) -> Wish:
    """The wish. Raises ``SourceProblem`` for a budget that is none."""
    options: Mapping[str, Any] = answers.get("options") or {}
    through = answers.get("through") == "publications"
    everything = answers.get("through") == "all"
    return Wish(
        slot_name=str(answers.get("slot_name") or "replview"),
        publications=tuple(answers.get("publications") or ()) if through else (),
        tables=() if through or everything else tuple(answers.get("tables") or ()),
        all_tables=everything,
        breaking=frozenset(answers.get("breaking") or ()) if everything else frozenset(),
        exclude=_columns(answers, "drop"),
        mask=_columns(answers, "mask"),
        two_phase=bool(options.get("two_phase", True)),
        failover=bool(options.get("failover", False)),
        temporary=temporary,
        wal_budget_bytes=_budget(options),
        protect=str(options.get("protect") or ""),
        heartbeat_seconds=options.get("heartbeat_seconds"),
    )


def pgoutput_of(answers: Mapping[str, Any]) -> dict[str, str]:
    """As ``Slot.options``: only what differs from what the server's version gives anyway."""
    options: Mapping[str, Any] = answers.get("options") or {}
    return {
        name: str(options[name])
        for name, usual in PGOUTPUT.items()
        if options.get(name) not in (None, "", usual)
    }


def _columns(answers: Mapping[str, Any], rule: str) -> Columns:
    """``{"public.users": {"email": "mask"}}`` as a wish has them, those of one rule."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    for name, rules in (answers.get("columns") or {}).items():
        columns = frozenset(column for column, chosen in rules.items() if chosen == rule)
        if columns:
            found[table_parts(name)] = columns
    return found


def _budget(options: Mapping[str, Any]) -> int | None:
    text = str(options.get("wal_budget") or "").strip()
    if not text:
        return None
    try:
        return parse_budget(text)
    except ValueError as error:
        raise budget_trouble(error) from None
