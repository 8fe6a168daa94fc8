"""A lapse is a time in which a publication did not publish a table, found by comparing two looks.

No stream reports that a table was removed from a publication. A look that finds the table gone,
narrowed, or published by another entry than before opens a lapse, from the last correct look on.
The first look that is correct again ends it.
See *How altered tables and publications are noticed* in docs/architecture.md.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replview.store.models import PublicationLapse, PublicationLook, Slot
from replview.store.read.lapses import lapse_text
from replview.store.slot_log import add_line, after_seq

#: Insert, update, delete and truncate.
_OPERATIONS = "IUDT"
#: The kind of a log line about a lapse.
LINE = "publication"
#: Most tables named in one line of the log.
_NAMES_SHOWN = 5
#: Most tables kept in the line's detail.
_MAX_TABLES = 1000
_Kind = PublicationLapse.Kind
_LookEntry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _WalPosition:
    """The position of a look: the number of the slot's incarnation, LSN and time."""

    incarnation: int
    lsn: int
    at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class _TableLapse:
    """A lapse of one table, between two looks (``is_over``) or since the latest one."""

    entry: _LookEntry
    kind: _Kind
    operations: str
    is_over: bool
    #: True when it has lasted since the record began.
    ever: bool = False
    #: True to report nothing, because the table or a partition of it was dropped.
    quiet: bool = False


def note_lapses(
    slot: Slot,
    former: PublicationLook | None,
    now: PublicationLook,
    exists: Callable[[int], bool],
) -> None:
    """Open and end the lapses that a look shows, and write them into the slot's log.

    ``former``: the look before, which found something else; None for the first look. ``exists``
    returns whether the source has a table of an oid. Call it in a store transaction.
    """
    position_before = _WalPosition(0, 0, None)
    if former is not None:
        position_before = _WalPosition(
            former.incarnation, int(former.last_lsn or 0), former.last_seen_at
        )
    end = _WalPosition(now.incarnation, int(now.first_lsn or 0), now.first_seen_at)
    texts: dict[str, list[str]] = {}
    for ended_lapse in _end_lapses(slot, former, now, position_before, end):
        texts.setdefault(_lapse_text(ended_lapse), []).append(_table_name(ended_lapse))
    for lapse in _new_lapses(former, now, exists):
        begun = _store_lapse(slot, lapse, position_before, end)
        if not lapse.ever and not lapse.quiet:
            texts.setdefault(_lapse_text(begun), []).append(_table_name(begun))
    for text, names in texts.items():
        _note_tables(slot, text, names, now.first_seen_at)


def _new_lapses(
    former: PublicationLook | None, now: PublicationLook, exists: Callable[[int], bool]
) -> Iterator[_TableLapse]:
    """Yield the lapses that begin with a look, or ended before it."""
    former_entries = None if former is None else _by_oid(former)
    for oid, entry in _by_oid(now).items():
        former_entry = entry if former_entries is None else former_entries.get(oid)
        is_new = former is not None and former_entry is None and _is_created_since(entry, former)
        missing = _missing_operations(entry)
        if is_new or former_entries is None:
            if missing:
                yield _TableLapse(entry, _Kind.OPERATIONS, missing, is_over=False, ever=True)
            continue
        if missing and missing != _missing_operations(former_entry):
            yield _TableLapse(entry, _Kind.OPERATIONS, missing, is_over=False)
        if former_entry is not None:
            yield from _lapses_between(former_entry, entry)
            yield from _partition_lapses(former_entry, entry, exists)
    for oid, entry in (former_entries or {}).items():
        if oid not in _by_oid(now):
            quiet = not exists(oid)
            yield _TableLapse(entry, _Kind.UNPUBLISHED, _OPERATIONS, is_over=False, quiet=quiet)


def _lapses_between(former_entry: _LookEntry, entry: _LookEntry) -> Iterator[_TableLapse]:
    """Yield possible lapses between two looks that both found the table published."""
    common_operations = [
        op for op in _OPERATIONS if op in former_entry["operations"] and op in entry["operations"]
    ]
    if former_entry["row_filter"] != entry["row_filter"]:
        filtered = "".join(op for op in common_operations if op != "T")
        yield _TableLapse(entry, _Kind.FILTER, filtered, is_over=True)
    elif broken := "".join(
        op for op in common_operations if not _is_unbroken(former_entry, entry, op)
    ):
        yield _TableLapse(entry, _Kind.ALTERED, broken, is_over=True)


def _partition_lapses(
    former_entry: _LookEntry, entry: _LookEntry, exists: Callable[[int], bool]
) -> Iterator[_TableLapse]:
    """Yield the lapses caused by partitions that were added, removed or dropped.

    A dropped partition takes its rows along, like a truncation that no stream reports.
    """
    if "parts" not in former_entry:
        return  # because the look is older than the field ``parts``
    former, parts = dict(former_entry["parts"]), dict(entry["parts"])
    removed_oids = {int(name.partition(":")[0]) for name in former.keys() - parts.keys()}
    attached = [name for name in parts.keys() - former.keys() if not parts[name]]
    if attached or any(map(exists, removed_oids)):
        yield _TableLapse(entry, _Kind.PARTITIONS, _OPERATIONS, is_over=True)
    elif removed_oids:
        yield _TableLapse(entry, _Kind.PARTITIONS, "T", is_over=True, quiet=True)


def _is_unbroken(former_entry: _LookEntry, entry: _LookEntry, op: str) -> bool:
    """Return whether the same rows of the catalog published an operation in both looks."""
    if "paths" not in former_entry or "paths" not in entry:
        return True  # because the look is older than the field ``paths``
    former, now = (
        {
            (name, row_filter)
            for name, operations, row_filter in look_entry["paths"]
            if op in operations
        }
        for look_entry in (former_entry, entry)
    )
    return former == now or any(row_filter is None for _, row_filter in former & now)


def _is_created_since(entry: _LookEntry, former: PublicationLook) -> bool:
    """Return whether a table was created after a look, and published from then on."""
    created, rows = entry.get("created"), former.facts.get("rows", ())
    if created is None or former.next_xid is None:
        return False
    if not any(set(row_names) <= set(rows) for row_names in entry["since_created"]):
        return False
    # A transaction id of 32 bits wraps, so compare modulo 2**32.
    return bool((created - former.next_xid) % (1 << 32) < 1 << 31)


def _is_published_alike(entry: _LookEntry, former: PublicationLook) -> bool:
    """Return whether publications that did not change since a look publish all the operations."""
    rows = set(former.facts.get("rows", ()))
    unchanged_operations = {
        operation
        for name, operations, _ in entry.get("paths", ())
        if name.partition("/")[0] in rows
        for operation in operations
    }
    return set(entry["operations"]) <= unchanged_operations


def _end_lapses(
    slot: Slot,
    former: PublicationLook | None,
    now: PublicationLook,
    position_before: _WalPosition,
    end: _WalPosition,
) -> Iterator[PublicationLapse]:
    """Yield the lapses that end with this look; make one for a table never published before."""
    if former is None:
        return
    former_entries = _by_oid(former)
    open_lapses: dict[int, list[PublicationLapse]] = {}
    for lapse in PublicationLapse.objects.filter(slot=slot, to_lsn=None):
        open_lapses.setdefault(lapse.relation_oid, []).append(lapse)
    for oid, entry in _by_oid(now).items():
        former_entry = former_entries.get(oid)
        if _missing_operations(former_entry) == _missing_operations(entry) or (
            former_entry is None and _is_created_since(entry, former)
        ):
            continue
        table_lapses = open_lapses.get(oid, [])
        if former_entry is None and not table_lapses:
            table_lapses = [
                _new_lapse(slot, entry, _Kind.UNPUBLISHED, _OPERATIONS, _WalPosition(0, 0, None))
            ]
        for lapse in table_lapses:
            lapse.to_incarnation, lapse.to_lsn, lapse.to_at = (end.incarnation, end.lsn, end.at)
            if former_entry is None and _is_published_alike(entry, former):
                # Changes of the table prove that it was published by then, with all operations.
                lapse.over_incarnation, lapse.over_lsn = (
                    position_before.incarnation,
                    position_before.lsn,
                )
            lapse.save()
            if lapse.from_at is not None:
                yield lapse


def _store_lapse(
    slot: Slot, lapse: _TableLapse, position_before: _WalPosition, end: _WalPosition
) -> PublicationLapse:
    begin = _WalPosition(0, 0, None) if lapse.ever else position_before
    row = _new_lapse(slot, lapse.entry, lapse.kind, lapse.operations, begin)
    if lapse.is_over:
        row.to_incarnation, row.to_lsn, row.to_at = (end.incarnation, end.lsn, end.at)
    row.save()
    return row


def _new_lapse(
    slot: Slot, entry: _LookEntry, kind: _Kind, operations: str, begin: _WalPosition
) -> PublicationLapse:
    return PublicationLapse(
        slot=slot, relation_oid=entry["oid"], schema=entry["schema"], table=entry["table"],
        kind=kind, operations=operations, from_incarnation=begin.incarnation, from_lsn=begin.lsn,
        from_at=begin.at,
    )  # fmt: skip


def _by_oid(look: PublicationLook) -> dict[int, _LookEntry]:
    """Return the tables' entries in a look, by oid."""
    return {entry["oid"]: entry for entry in look.facts["tables"]}


def _missing_operations(entry: _LookEntry | None) -> str:
    """Return the letters of the operations that are not published."""
    published = "" if entry is None else entry["operations"]
    return "".join(op for op in _OPERATIONS if op not in published)


def _table_name(lapse: PublicationLapse) -> str:
    return f"{lapse.schema}.{lapse.table}"


def _lapse_text(lapse: PublicationLapse) -> str:
    return lapse_text(lapse.kind, lapse.operations, lapse.from_at, lapse.to_at)


def _note_tables(slot: Slot, text: str, names: list[str], noted_at: dt.datetime) -> None:
    """Report tables with the same text, in the slot's log and its health."""
    listed = ", ".join(sorted(names)[:_NAMES_SHOWN])
    rest = f" and {len(names) - _NAMES_SHOWN} more tables" if len(names) > _NAMES_SHOWN else ""
    verb = "were" if len(names) > 1 else "was"
    message = f"{listed}{rest} {verb} {text}. Changes of that time are not in the record."
    Slot.objects.filter(pk=slot.pk).update(lapse_text=message, lapse_noted_at=noted_at)
    add_line(
        slot, LINE, message, lsn=slot.checkpoint_lsn, after_commit_seq=after_seq(slot),
        detail={"tables": sorted(names)[:_MAX_TABLES]},
    )  # fmt: skip
