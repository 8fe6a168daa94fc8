"""One server may be several sources; this module finds them, so that each slot is alerted of once.

A running server is identified by its system identifier and its start time: clones and standbys
share the first, but not both. If either is not reported, sources count as different servers.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from replview.store.models import Slot, Source, SourceLook, WatchedSlot
from replview.store.models.seen import only_of, seen_sources

Looks = Mapping[int, SourceLook]
Row = TypeVar("Row")


def server_of(source: Source, looks: Looks) -> Hashable:
    """Return a key that sources of one running server share; None where it is unknown."""
    started_at = reported(source, looks).get("started_at")
    is_known = source.system_identifier not in (None, "", "unknown") and started_at
    return (source.system_identifier, started_at) if is_known else None


def reported(source: Source, looks: Looks) -> Mapping[str, object]:
    """Return the facts of the last look at a source; empty if there was none."""
    look = looks.get(source.pk)
    return (look.holders or {}) if look is not None else {}


def one_a_slot(
    rows: Iterable[WatchedSlot], looks: Looks, fresh: Callable[[WatchedSlot], bool]
) -> tuple[list[WatchedSlot], dict[int, list[str]]]:
    """Return each slot once, and by its id the names that it has through other sources.

    The first of these is chosen: replview's own, one sampled lately, the one through the slot's
    database, the lowest id.
    """

    def server_and_name(row: WatchedSlot) -> Hashable:
        server = server_of(row.source, looks)
        return None if server is None or row.gone_at is not None else (server, row.name)

    def sort_key(row: WatchedSlot) -> tuple[object, ...]:
        database = reported(row.source, looks).get("database")
        elsewhere = row.database is None or database != row.database
        return row.slot_id is None, not fresh(row), elsewhere, row.pk

    chosen, other_names = [], {}
    for group in _grouped(rows, server_and_name):
        first, *others = sorted(group, key=sort_key)
        chosen.append(first)
        if others:
            other_names[first.pk] = [f"{row.source.name}/{row.name}" for row in others]
    return chosen, other_names


def one_a_server(sources: Iterable[Source], looks: Looks) -> list[Source]:
    """Return each server once: by the source whose role may read most, then the lowest id."""

    def sort_key(source: Source) -> tuple[object, ...]:
        return reported(source, looks).get("may_read_stats") is not True, source.pk

    return [
        min(group, key=sort_key)
        for group in _grouped(sources, lambda member: server_of(member, looks))
    ]


def _grouped(rows: Iterable[Row], key_of: Callable[[Row], Hashable]) -> list[list[Row]]:
    """Return rows grouped by key, in the order of their first row; rows without a key are alone."""
    groups: dict[Hashable, list[Row]] = defaultdict(list)
    for number, row in enumerate(rows):
        key = key_of(row)
        groups[("alone", number) if key is None else ("same", key)].append(row)
    return list(groups.values())


@only_of(lambda: None)
def recorded_elsewhere(source: Source) -> dict[str, Slot]:
    """Return, by name, the slots that replview receives through other sources of the same server.

    Nobody may adopt these. They may belong to sources that the account does not see (``is_seen``).
    """
    if source.system_identifier in (None, "", "unknown"):
        return {}
    others = Source.objects.filter(system_identifier=source.system_identifier)
    slots = list(
        Slot.objects.filter(source__in=others.exclude(pk=source.pk), temporary=False)
        .exclude(desired=Slot.Desired.REMOVING)
        .select_related("source")
    )
    if not slots:
        return {}
    source_ids = [source.pk, *{slot.source_id for slot in slots}]
    looks = {look.source_id: look for look in SourceLook.objects.filter(source__in=source_ids)}
    server = server_of(source, looks)
    if server is None:
        return {}
    return {slot.name: slot for slot in slots if server_of(slot.source, looks) == server}


def is_seen(slot: Slot) -> bool:
    """Return whether the current account sees the slot's source."""
    source_ids = seen_sources()
    return source_ids is None or slot.source_id in source_ids
