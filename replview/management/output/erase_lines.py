"""What ``replview erase`` says: what would be touched, what was, what was erased before."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from replview.management.output.instance import table_of
from replview.store.models import Erasure
from replview.text.formats import count_words, plural


def found_lines(row: Erasure, others: Sequence[str]) -> list[str]:
    """What a look has found."""
    lines = [_sums(row.found)]
    tables: Mapping[str, int] = row.found.get("tables") or {}
    lines += [f"  {name}: {plural(number, 'change')}" for name, number in tables.items()]
    days = row.found.get("days") or []
    if days:
        lines.append(f"of {plural(len(days), 'day')}: {days[0]} to {days[-1]}")
    beside: Mapping[str, int] = row.found.get("beside") or {}
    lines += [f"beside the record: {count_words(n)} {name}" for name, n in beside.items()]
    lines += [_root_line(told) for told in row.roots]
    if others:
        lines.append(f"recorded by {', '.join(others)} as well: erase there, too")
    lines.append("what the source sends later of these rows is recorded again: see replview mask")
    lines.append("downloads, streams and copies that others made are not known here")
    return lines


def state_lines(row: Erasure) -> list[str]:
    """How an act ended."""
    words = {"done": "erased", "unfinished": "erased so far"}.get(row.state, row.state)
    return [f"erasure {row.pk}: {words}: {_sums(row.erased)}", *map(_root_line, row.roots)]


def _sums(told: Mapping[str, Any]) -> str:
    changes, transactions = int(told.get("changes") or 0), int(told.get("transactions") or 0)
    words = f"{plural(changes, 'change')} in {plural(transactions, 'transaction')}"
    if large := int(told.get("large_values") or 0):
        words += f", {plural(large, 'large value')}"
    return words


def _root_line(told: Mapping[str, Any]) -> str:
    name = f"{told['what']} ({told['root']})"
    if told.get("left_out_by"):
        return f"{name}: left out by {told['left_out_by']}"
    if told.get("problem"):
        return f"{name}: not reached: {told['problem']}. {told.get('remedy', '')}".rstrip()
    files, rows = int(told.get("files") or 0), int(told.get("rows") or 0)
    return f"{name}: {plural(files, 'file')} with {plural(rows, 'change')}"


def listed(rows: Iterable[Erasure]) -> str:
    """A table of acts, the newest first."""
    lines = [
        [
            str(row.pk),
            f"{row.requested_at:%Y-%m-%d %H:%M}",
            row.confirmed_by or row.requested_by,
            row.slot_name,
            ", ".join(row.tables),
            str(row.keys),
            row.state,
            str((row.erased or row.found).get("changes", "")),
            row.reason,
            row.problem_cause,
        ]
        for row in rows
    ]
    if not lines:
        return "nothing was erased yet: replview erase SOURCE/SLOT TABLE KEY"
    head = ["ID", "ASKED (UTC)", "BY", "SLOT", "TABLES", "KEYS", "STATE", "CHANGES", "WHY",
            "PROBLEM"]  # fmt: skip
    return table_of([head, *lines])
