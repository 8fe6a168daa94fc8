"""A plan as lines for a terminal, and as JSON for programs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from replview.management.fleet.plans import Item, Plan, Verdict

_SIGNS = {
    Verdict.ADDED: "+",
    Verdict.CHANGED: "~",
    Verdict.REMOVED: "-",
    Verdict.REFUSED: "!",
    Verdict.UNREACHABLE: "!",
}
_WORDS = {
    Verdict.ADDED: "to add",
    Verdict.CHANGED: "to change",
    Verdict.REMOVED: "to remove",
    Verdict.UNCHANGED: "unchanged",
    Verdict.LEFT: "not in the file (left alone; --prune removes them)",
    Verdict.REFUSED: "refused",
    Verdict.UNREACHABLE: "unreachable",
}

#: Options of ``slot add``, which the catalog's sentences name → the keys that a file has for them.
_KEYS = {
    "--adopt": "adopt = true",
    "--all-tables": "all_tables = true",
    "--exclude-column": "exclude_columns",
    "--failover": "failover = true",
    "--heartbeat": "heartbeat",
    "--interface sql": 'interface = "sql"',
    "--mask-column": "mask_columns",
    "--no-two-phase": "two_phase = false",
    "--protect record": 'protect = "record"',
    "--publication": "publications",
    "--schema": "tables",
    "--tables": "tables",
    "--wal-budget": "wal_budget",
}
_OPTION = re.compile(rf"(?:{'|'.join(_KEYS)})(?![\w-])")


def in_a_file(text: str) -> str:
    """A sentence of the catalog for whoever writes a file: keys instead of options."""
    return _OPTION.sub(lambda found: _KEYS[found[0]], text)


def lines_of(plan: Plan) -> Iterator[str]:
    """What differs, with every statement in order; then how many of each there are."""
    for group in plan.groups:
        yield from (line for item in group for line in _lines(item))
    counts = [f"{count} {_WORDS[verdict]}" for verdict in _WORDS if (count := plan.count(verdict))]
    yield "; ".join(counts) or "the file declares nothing"


def done_lines(plan: Plan) -> Iterator[str]:
    """After it was carried out: what was not done, and why."""
    for item in plan.troubled:
        yield f"! {item.kind} {item.name}: {in_a_file(str(item.trouble))}"
    done = sum(item.changes_something and item.trouble is None for item in plan.items)
    failed = len(plan.troubled)
    yield f"{done} done" + (f", {failed} not done" if failed else "")


def json_of(plan: Plan, path: Path, *, applied: bool) -> dict[str, Any]:
    """For programs; the same facts."""
    return {
        "file": str(path),
        "applied": applied,
        "changes": plan.changes_something,
        "counts": {str(verdict): plan.count(verdict) for verdict in Verdict},
        "items": [_facts(item) for item in plan.items],
    }


def _lines(item: Item) -> Iterator[str]:
    sign = _SIGNS.get(item.verdict)
    if sign is None:
        return
    yield f"{sign} {item.kind} {item.name}: {item.verdict}"
    if item.trouble is not None:
        yield f"      {in_a_file(str(item.trouble))}"
        return
    for change in item.changes:
        yield f"      {change.what}: {change.was} → {change.now}"
    for statement in item.statements:
        yield f"    {statement.sql};"
        yield f"        needs: {statement.needs}"
        yield f"        costs: {statement.costs}"
    for sentence in item.notes:
        yield f"      note: {in_a_file(sentence)}"


def _facts(item: Item) -> dict[str, Any]:
    trouble = item.trouble
    return {
        "kind": item.kind,
        "name": item.name,
        "verdict": str(item.verdict),
        "changes": [{"what": c.what, "was": c.was, "now": c.now} for c in item.changes],
        "statements": [
            {"sql": one.sql, "needs": one.needs, "costs": one.costs} for one in item.statements
        ],
        "notes": [in_a_file(sentence) for sentence in item.notes],
        "problem": None
        if trouble is None
        else {
            "code": trouble.code,
            "cause": in_a_file(trouble.cause),
            "remedy": in_a_file(trouble.remedy),
        },
    }
