"""Facts that a server reports of a slot, with failover, other names and next steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.urls import reverse
from django.utils import timezone

from decoder.scalars import LSN
from replview.health.conditions import BY_IDLE, idle_timeout
from replview.health.failover_steps import Failover, failover_of
from replview.health.holding import Cause, cause_of
from replview.health.server_slot import ServerSlot
from replview.health.slot_steps import RemedyStep, steps_of
from replview.health.source_state import SourceState, stale_after
from replview.health.states import SlotReading
from replview.store.failover_readiness import read_standbys
from replview.store.models import Slot, Source, SourceLook, WatchedSlot
from replview.store.same_server import one_a_slot, server_of
from replview.text.formats import age_words, short_words


@dataclass(frozen=True, slots=True, kw_only=True)
class OnServer:
    """A slot as its server last reported it."""

    #: True when replview receives the slot.
    ours: bool
    #: None before a sample has found the slot.
    server: ServerSlot | None = None
    fresh: bool = False
    facts: tuple["Fact", ...] = ()
    failover: Failover = field(default_factory=Failover)
    #: The slot's other names; None if there are none.
    same: "SameSlot | None" = None
    steps: tuple[RemedyStep, ...] = ()


def server_side(
    server: ServerSlot | None, slot: Slot | None, reading: SlotReading, now: datetime
) -> OnServer:
    """Return the server's facts; ``slot`` is replview's row, if replview receives the slot."""
    ours = slot is not None
    if server is None:
        return OnServer(ours=ours)
    look = SourceLook.objects.filter(source=server.source).first()
    source_state = SourceState(look, now, server.stale_after)
    cause = cause_of(server, source_state, now, slot)
    failover = failover_of(server, read_standbys(server.source))
    return OnServer(
        ours=ours,
        server=server,
        fresh=server.fresh(now),
        facts=tuple(facts_of(server, slot, cause, failover)),
        failover=failover,
        same=same_slot(server.source, server.name),
        steps=tuple(steps_of(server, slot, reading, cause, now)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SameSlot:
    """A slot that is known under several names, through several sources."""

    #: ``source/slot`` and address of each other name.
    others: list[tuple[str, str]]
    #: The name that alerts use.
    alerted: str
    #: True when alerts use the name of this page.
    here: bool


def same_slot(source: Source, name: str) -> SameSlot | None:
    """Return the slot's other names; None if no other source leads to the same slot."""
    if source.system_identifier in (None, "", "unknown"):
        return None
    watched_slots = WatchedSlot.objects.filter(
        name=name, source__system_identifier=source.system_identifier, gone_at=None
    ).select_related("source", "slot")
    if len(watched_slots) < 2:
        return None
    looks = SourceLook.objects.in_bulk([watched.source_id for watched in watched_slots])
    server = server_of(source, looks)
    same_slots = [
        watched
        for watched in watched_slots
        if server is not None and server_of(watched.source, looks) == server
    ]
    if len(same_slots) < 2:
        return None
    fresh_since = timezone.now() - stale_after()
    [first], _ = one_a_slot(same_slots, looks, lambda watched: watched.last_seen_at > fresh_since)
    return SameSlot(
        others=[
            (str(watched), reverse("slot", args=[watched.source.name, watched.name]))
            for watched in same_slots
            if watched.source_id != source.pk
        ],
        alerted=str(first),
        here=first.source_id == source.pk,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A name with one value: text, LSN or time; ``unknown`` is the reason that there is none."""

    name: str
    text: str = ""
    lsn: str = ""
    at: datetime | None = None
    unknown: str = ""
    #: Remark after the value.
    note: str = ""
    mono: bool = False


def facts_of(server: ServerSlot, slot: Slot | None, cause: Cause, failover: Failover) -> list[Fact]:
    """Return the facts in the order of the page: reader, what holds it, positions, options."""
    pid, seen_at = server.text("active_pid"), server.first_seen_at
    return [
        _consumer_fact(server),
        *_replay_facts(server),
        Fact(name="Held back by", text=cause.words)
        if cause.kind != "unknown"
        else Fact(name="Held back by", unknown=f"unknown: {cause.words}"),
        _text_fact(server, "wal_status", "needs 13"),
        *_invalidation_facts(server),
        _position_fact(server, "restart_lsn"),
        _position_fact(server, "confirmed_flush_lsn"),
        _current_wal_fact(server),
        _inactive_fact(server),
        *_failover_facts(server, failover),
        *([] if server.physical else [_boolean_fact(server, "two_phase", "needs 14")]),
        _boolean_fact(server, "temporary", "not reported"),
        # The page of a received slot shows these with its options.
        *([] if slot is not None else _kind_facts(server)),
        Fact(name="active_pid", text=pid or "none", mono=bool(pid)),
        *([] if slot is not None else [Fact(name="Created by", text="not replview; monitored")]),
        Fact(name="First seen", at=seen_at, unknown="" if seen_at else "unknown"),
    ]


def _consumer_fact(server: ServerSlot) -> Fact:
    name = "Standby" if server.physical else "Consumer"
    if server.active is None:
        return Fact(name=name, unknown="unknown")
    if not server.active:
        if server.synced:
            return Fact(name=name, text="none: kept for a failover")
        if server.inactive_since is None:
            return Fact(name=name, text="none")
        return Fact(name=name, text="none since", at=server.inactive_since)
    reader = server.text("application_name") or f"pid {server.text('active_pid') or 'unknown'}"
    address = server.text("client_addr")
    started_at = server.moment("backend_start")
    notes = [f"from {address}" if address else "", "since" if started_at else ""]
    return Fact(
        name=name, text=reader, note=", ".join(note for note in notes if note), at=started_at
    )


def _replay_facts(server: ServerSlot) -> Iterator[Fact]:
    """Yield how far the standby has replayed, and whether commits wait for it."""
    if not server.physical or not server.active:
        return
    lag = server.facts.get("replay_lag_seconds")
    state = " ".join(word for word in (server.text("state"), server.text("sync_state")) if word)
    if isinstance(lag, int | float):
        yield Fact(name="Replay lag", text=short_words(lag * 1e6), note=state)
    else:
        yield Fact(name="Replay lag", unknown="unknown: nothing was replayed recently", note=state)


def _invalidation_facts(server: ServerSlot) -> Iterator[Fact]:
    if server.lost:
        yield Fact(name="invalidation_reason", text=server.lost, mono=True,
                   note="" if server.facts.get("invalidation_reason") else "as this version reports"
                   " it")  # fmt: skip
    elif server.facts.get("conflicting") is not None and server.source.in_recovery:
        yield Fact(name="conflicting", text="no")


def _text_fact(server: ServerSlot, name: str, needs: str) -> Fact:
    if text := server.text(name):
        return Fact(name=name, text=text)
    return Fact(name=name, unknown="unknown" if name in server.facts else f"unknown: {needs}")


def _position_fact(server: ServerSlot, name: str) -> Fact:
    if text := server.text(name):
        return Fact(name=name, lsn=text)
    if name == "confirmed_flush_lsn" and server.physical:
        return Fact(name=name, text="none: a physical slot")
    return Fact(name=name, unknown="unknown" if server.lost else "none yet")


def _current_wal_fact(server: ServerSlot) -> Fact:
    """Return the server's position, computed from restart_lsn if it is not known."""
    restart, retained = server.text("restart_lsn"), server.retained_wal_bytes
    if current := server.text("current_lsn"):
        return Fact(name="Current WAL", lsn=current)
    if not restart or retained is None:
        return Fact(name="Current WAL", unknown="unknown")
    return Fact(name="Current WAL", lsn=str(LSN(LSN.parse(restart) + retained)))


def _inactive_fact(server: ServerSlot) -> Fact:
    name = "inactive_since"
    if server.active:
        return Fact(name=name, text="active")
    if since := server.moment(name):
        timeout = idle_timeout(server.source) if server.idle_since else None
        note = "" if timeout is None else f"{BY_IDLE} of {age_words(timeout)} runs since"
        return Fact(name=name, at=since, note=note)
    seen_note = "" if server.inactive_since is None else "seen inactive since"
    if name not in server.facts:
        return Fact(
            name=name, unknown="unknown: needs 17", at=server.inactive_since, note=seen_note
        )
    return Fact(name=name, unknown="unknown")


def _failover_facts(server: ServerSlot, failover: Failover) -> Iterator[Fact]:
    if not server.physical:
        yield _boolean_fact(server, "failover", "needs 17")
        if server.source.in_recovery:
            yield _boolean_fact(server, "synced", "needs 17")
    unknown = f"unknown: {failover.unknown}" if failover.unknown else ""
    yield Fact(name="Failover ready", text="" if unknown else failover.words, unknown=unknown)


def _boolean_fact(server: ServerSlot, name: str, needs: str) -> Fact:
    value = server.facts.get(name, server.temporary if name == "temporary" else None)
    if isinstance(value, bool):
        return Fact(name=name, text="yes" if value else "no")
    return Fact(name=name, unknown=f"unknown: {needs}")


def _kind_facts(server: ServerSlot) -> Iterator[Fact]:
    yield Fact(name="Type", text=server.slot_type)
    if not server.physical:
        for name, text in (("Plugin", server.plugin), ("Database", server.database)):
            yield Fact(name=name, text=text or "", mono=True, unknown="" if text else "unknown")
