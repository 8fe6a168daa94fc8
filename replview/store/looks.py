"""Store what regular looks at the sources found: slots, and what publications published.

The slots are all of a source's, replview's own or not. A watched slot's id is used in its samples.
For a slot that replview receives it equals the slot's own id. For another slot it changes once,
together with all its samples, when replview begins to receive that slot (adoption).
"""

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.db import connection, transaction
from psycopg import sql

from replview.store.models import PublicationLook, Slot, WatchedSlot

_INSERT = """
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
#: Tables that refer to a watched slot by ``slot_id``.
_TABLES_WITH_SLOT = ("slot_sample", "slot_sample_minute", "slot_sample_hour", "alert_rule", "alert")


@dataclass(frozen=True, slots=True)
class KnownSlot:
    """A slot that must be sampled."""

    id: int
    name: str
    ours: bool
    inactive_since: dt.datetime | None


def watched_of(slot: Slot) -> WatchedSlot:
    """Return the row of a slot that replview receives; create it if no look has done so yet."""
    values = {"id": slot.pk, "slot": slot}
    return WatchedSlot.objects.get_or_create(source=slot.source, name=slot.name, defaults=values)[0]


def identify(source_id: int, names: set[str], at: dt.datetime) -> list[KnownSlot]:
    """Return the slots to sample, and store which slots are new, adopted or gone.

    These are all slots on the server, and replview's own that are missing there, except slots being
    removed. It runs in the caller's store transaction.
    """
    slots = Slot.objects.filter(source_id=source_id).order_by()
    desired = {name: (pk, state) for name, pk, state in slots.values_list("name", "pk", "desired")}
    own_ids = {name: pk for name, (pk, _) in desired.items()}
    removing = {name for name, (_, state) in desired.items() if state == Slot.Desired.REMOVING}
    to_sample = (names | set(own_ids)) - removing
    watched = WatchedSlot.objects.filter(source_id=source_id).order_by()
    watched_by_name = {row.name: row for row in watched.only("name", "slot_id", "inactive_since")}
    stale = False
    for name, slot_id in own_ids.items():
        if name in watched_by_name and watched_by_name[name].pk != slot_id:
            adopt(watched_by_name[name].pk, slot_id)
            stale = True
    new = [
        {"name": name, "slot_id": own_ids.get(name)}
        for name in sorted(to_sample - set(watched_by_name))
    ]
    if new:
        with connection.cursor() as cursor:
            document = orjson.dumps(new).decode()
            cursor.execute(_INSERT, {"source": source_id, "at": at, "new": document})
        stale = True
    if stale:
        watched_by_name = {
            row.name: row for row in watched.only("name", "slot_id", "inactive_since")
        }
    if gone := set(watched_by_name) - names:
        watched.filter(name__in=gone, gone_at=None).update(gone_at=at)
    return [
        KnownSlot(row.pk, row.name, row.slot_id is not None, row.inactive_since)
        for name, row in sorted(watched_by_name.items())
        if name in to_sample and (name in names or name in own_ids)
    ]


def update_seen(slots: list[tuple[KnownSlot, dict[str, Any]]], at: dt.datetime) -> None:
    """Store the present facts of slots that exist."""
    rows = [
        {
            **{name: facts.get(name) for name in ("plugin", "database", "temporary")},
            "id": slot.id,
            "slot_type": facts.get("slot_type") or "logical",
            "inactive_since": inactive_since(facts, slot.inactive_since, at),
            "facts": facts,
        }
        for slot, facts in slots
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_UPDATE, {"seen": orjson.dumps(rows).decode(), "at": at})


def inactive_since(
    facts: dict[str, Any], before: dt.datetime | None, now: dt.datetime
) -> dt.datetime | None:
    """Return since when no session reads the slot, from the server (17 and later) or from looks."""
    if facts.get("active"):
        return None
    since = facts.get("inactive_since")
    return before or now if since is None else dt.datetime.fromisoformat(since)


def adopt(former_id: int, slot_id: int) -> None:
    """Make a watched slot replview's own, with all its samples."""
    slots = {"new": slot_id, "former": former_id}
    with transaction.atomic(), connection.cursor() as cursor:
        for table in _TABLES_WITH_SLOT:
            query = sql.SQL("UPDATE {table} SET slot_id = %(new)s WHERE slot_id = %(former)s")
            cursor.execute(query.format(table=sql.Identifier(table)), slots)
        update = "UPDATE watched_slot SET id = %(new)s, slot_id = %(new)s WHERE id = %(former)s"
        cursor.execute(update, slots)


def forget_gone(before: dt.datetime, temporary_before: dt.datetime) -> int:
    """Delete slots that are not replview's and are gone for longer than their samples are kept."""
    gone = WatchedSlot.objects.filter(slot=None, gone_at__isnull=False)
    temporary = gone.filter(temporary=True, gone_at__lt=temporary_before)
    return (gone.filter(gone_at__lt=before) | temporary).delete()[0]


def digest_of(facts: Mapping[str, object]) -> str:
    """Return the SHA-256 that two looks with the same result share."""
    return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def store_publication_look(
    slot: Slot, facts: Mapping[str, object], at: dt.datetime, **place: int
) -> PublicationLook | None:
    """Store the result of a look; return the new row if it differs from the latest one, else None.

    ``place`` has ``first_lsn``, ``last_lsn`` and ``next_xid`` of the look.
    """
    digest = digest_of(facts)
    latest = latest_look(slot)
    if latest is not None and latest.digest == digest:
        note_same_look(slot, at, **place)
        return None
    return PublicationLook.objects.create(
        slot=slot, first_seen_at=at, last_seen_at=at, digest=digest, facts=dict(facts),
        incarnation=_incarnation_number(slot), **place,
    )  # fmt: skip


def note_same_look(slot: Slot, at: dt.datetime, **place: int) -> None:
    """Record that another look found the same as the latest one; ``place`` has its positions."""
    place.pop("first_lsn", None)
    latest = PublicationLook.objects.filter(slot=slot).order_by("-last_seen_at").values("pk")[:1]
    PublicationLook.objects.filter(pk__in=latest).update(
        last_seen_at=at, incarnation=_incarnation_number(slot), **place
    )


def _incarnation_number(slot: Slot) -> int:
    """Return the number of the slot's incarnation; 0: it has none yet."""
    return slot.incarnation.number if slot.incarnation else 0


def latest_look(slot: Slot) -> PublicationLook | None:
    """Return the latest look at what the publications publish; None: there was none."""
    return PublicationLook.objects.filter(slot=slot).order_by("-last_seen_at").first()
