"""What regular looks at the sources found: every slot as last seen, replview's own or not, and what
the publications of its own published, which no stream tells.

A watched slot's id names its samples. Of one that replview receives it is the slot's own; another's
changes once, with all that was sampled, where replview begins to receive it (adoption).
"""

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.db import connection, transaction

from replview.store.models import PublicationLook, Slot, WatchedSlot

_NEW = """
    INSERT INTO watched_slot (id, source_id, name, slot_id, slot_type, first_seen_at, last_seen_at,
                              facts)
    SELECT coalesce(n.slot_id, nextval(pg_get_serial_sequence('slot', 'id'))), %(source)s, n.name,
           n.slot_id, 'logical', %(at)s, %(at)s, '{}'
    FROM jsonb_to_recordset(%(new)s) AS n (name text, slot_id bigint)
    ON CONFLICT DO NOTHING
"""
_UPDATE = """
    UPDATE watched_slot w
    SET slot_type = n.slot_type, plugin = n.plugin, database = n.database,
        temporary = n.temporary, last_seen_at = %(at)s, gone_at = NULL,
        inactive_since = n.inactive_since, facts = n.facts
    FROM jsonb_to_recordset(%(seen)s) AS n (
        id bigint, slot_type text, plugin text, database text, temporary boolean,
        inactive_since timestamptz, facts jsonb)
    WHERE w.id = n.id
"""
#: The tables that name a watched slot by its id, as ``slot_id``.
_NAMING = ("slot_sample", "slot_sample_minute", "slot_sample_hour", "alert_rule", "alert")


@dataclass(frozen=True, slots=True)
class Known:
    """A slot that is to be sampled."""

    id: int
    name: str
    ours: bool
    inactive_since: dt.datetime | None


def watched_of(slot: Slot) -> WatchedSlot:
    """The row of a slot of replview's; made where nobody has looked at its server since."""
    known = {"id": slot.pk, "slot": slot}
    return WatchedSlot.objects.get_or_create(source=slot.source, name=slot.name, defaults=known)[0]


def identify(source_id: int, names: set[str], at: dt.datetime) -> list[Known]:
    """Return the slots to sample: all that are on the server, and ours that are not, but none that
    is being removed. In the caller's store transaction new slots are stored, slots that are ours
    by now are adopted, and those that went are marked as gone.
    """
    slots = Slot.objects.filter(source_id=source_id).order_by()
    desired = {name: (pk, wish) for name, pk, wish in slots.values_list("name", "pk", "desired")}
    ours = {name: pk for name, (pk, _) in desired.items()}
    leaving = {name for name, (_, wish) in desired.items() if wish == Slot.Desired.REMOVING}
    wanted = (names | set(ours)) - leaving
    watched = WatchedSlot.objects.filter(source_id=source_id).order_by()
    known = {row.name: row for row in watched.only("name", "slot_id", "inactive_since")}
    stale = False
    for name, slot_id in ours.items():
        if name in known and known[name].pk != slot_id:
            adopt(known[name].pk, slot_id)
            stale = True
    new = [{"name": name, "slot_id": ours.get(name)} for name in sorted(wanted - set(known))]
    if new:
        with connection.cursor() as cursor:
            listed = orjson.dumps(new).decode()
            cursor.execute(_NEW, {"source": source_id, "at": at, "new": listed})
        stale = True
    if stale:
        known = {row.name: row for row in watched.only("name", "slot_id", "inactive_since")}
    if gone := set(known) - names:
        watched.filter(name__in=gone, gone_at=None).update(gone_at=at)
    return [
        Known(row.pk, row.name, row.slot_id is not None, row.inactive_since)
        for name, row in sorted(known.items())
        if name in wanted and (name in names or name in ours)
    ]


def update_seen(seen: list[tuple[Known, dict[str, Any]]], at: dt.datetime) -> None:
    """Store the present facts of slots that are there."""
    rows = [
        {
            **{name: facts.get(name) for name in ("plugin", "database", "temporary")},
            "id": known.id,
            "slot_type": facts.get("slot_type") or "logical",
            "inactive_since": inactive_since(facts, known.inactive_since, at),
            "facts": facts,
        }
        for known, facts in seen
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_UPDATE, {"seen": orjson.dumps(rows).decode(), "at": at})


def inactive_since(
    facts: dict[str, Any], before: dt.datetime | None, now: dt.datetime
) -> dt.datetime | None:
    """Since when nobody reads the slot: as the server says (17 and later), else as we saw."""
    if facts.get("active"):
        return None
    since = facts.get("inactive_since")
    return before or now if since is None else dt.datetime.fromisoformat(since)


def adopt(former_id: int, slot_id: int) -> None:
    """A slot that was only watched is replview's own now: all that was sampled is its."""
    with transaction.atomic(), connection.cursor() as cursor:
        for table in _NAMING:
            query = f"UPDATE {table} SET slot_id = %s WHERE slot_id = %s"  # noqa: S608 (constants)
            cursor.execute(query, [slot_id, former_id])
        own = "UPDATE watched_slot SET id = %(new)s, slot_id = %(new)s WHERE id = %(former)s"
        cursor.execute(own, {"new": slot_id, "former": former_id})


def forget_gone(before: dt.datetime, temporary_before: dt.datetime) -> int:
    """Forget slots that are not ours and gone for longer than their samples are kept."""
    gone = WatchedSlot.objects.filter(slot=None, gone_at__isnull=False)
    temporary = gone.filter(temporary=True, gone_at__lt=temporary_before)
    return (gone.filter(gone_at__lt=before) | temporary).delete()[0]


def digest_of(facts: Mapping[str, object]) -> str:
    """SHA-256 by which two looks are told to have found the same."""
    return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def store_publication_look(
    slot: Slot, facts: Mapping[str, object], at: dt.datetime, **place: int
) -> PublicationLook | None:
    """Keep what a look found: a new row where something differs, which is returned.

    ``place``: ``first_lsn``, ``last_lsn`` and ``next_xid`` of the look.
    """
    digest = digest_of(facts)
    found = latest_look(slot)
    if found is not None and found.digest == digest:
        note_same_look(slot, at, **place)
        return None
    return PublicationLook.objects.create(
        slot=slot, first_seen_at=at, last_seen_at=at, digest=digest, facts=dict(facts),
        incarnation=_number(slot), **place,
    )  # fmt: skip


def note_same_look(slot: Slot, at: dt.datetime, **place: int) -> None:
    """Note that another look found what the latest one did; ``place``: as above."""
    place.pop("first_lsn", None)
    latest = PublicationLook.objects.filter(slot=slot).order_by("-last_seen_at").values("pk")[:1]
    PublicationLook.objects.filter(pk__in=latest).update(
        last_seen_at=at, incarnation=_number(slot), **place
    )


def _number(slot: Slot) -> int:
    """The number of the slot's incarnation; 0: it has none yet."""
    return slot.incarnation.number if slot.incarnation else 0


def latest_look(slot: Slot) -> PublicationLook | None:
    """Return what the publications published when last looked at; None: nobody has looked."""
    return PublicationLook.objects.filter(slot=slot).order_by("-last_seen_at").first()
