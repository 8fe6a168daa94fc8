"""Measure the present value of each kind of rule for every subject; None is unknown.

A subject that is not measured is gone, and its alerts end.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from replview.features.alerts.measured import Measured
from replview.features.alerts.snapshot import StoreSnapshot
from replview.health import conditions
from replview.health.findings_received import recent_lapse, waits_for_worker
from replview.store.django_session import rows
from replview.store.instance_settings import read
from replview.store.models import AlertRule, Quarantine, Slot, Source, WatchedSlot
from replview.store.slot_budget import DROPPED

_K = AlertRule.Kind
#: Seconds within which a reconnecting receiver does not count as down.
_CONNECTING_SECONDS = 10.0


def of_slots(kind: str, snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield what ``health.conditions`` measures of existing slots that are not lost."""
    watched_slots = [
        watched
        for watched in snapshot.existing_slots
        if conditions.concerns(kind, watched, own_rule=True)
    ]
    for watched in watched_slots:
        observation = conditions.Observation(
            at=snapshot.now,
            facts=watched.facts if _is_fresh(snapshot, watched) else {},
            inactive_since=watched.inactive_since,
            growth=_growth(snapshot, watched) if kind == _K.TIME_TO_LOSS else None,
        )
        yield _measured_slot(
            watched,
            conditions.MEASURES[kind](watched, observation),
            detail=_slot_detail(kind, watched, observation),
            only_own_rule=not conditions.concerns(kind, watched, own_rule=False),
        )


def _growth(snapshot: StoreSnapshot, watched: WatchedSlot) -> tuple[float, float, float] | None:
    pace = snapshot.paces.get(watched.pk)
    if pace is None or pace.growth is None or pace.between is None:
        return None
    return pace.growth, *pace.between


def _slot_detail(
    kind: str, watched: WatchedSlot, observation: conditions.Observation
) -> dict[str, object]:
    retained = observation.number("retained_wal_bytes")
    if kind == _K.RETAINED_SHARE:
        return {
            "retained_wal_bytes": retained,
            "limit_bytes": conditions.share_limit_bytes(watched),
        }
    if kind == _K.TIME_TO_LOSS:
        return _loss_detail(watched, observation)
    if kind == _K.SLOT_INACTIVE:
        return {"inactive_since": watched.inactive_since and watched.inactive_since.isoformat()}
    return {}


def _loss_detail(watched: WatchedSlot, observation: conditions.Observation) -> dict[str, object]:
    """Return an alert's details of a loss: the numbers, and the limit reached first."""
    loss = conditions.time_to_loss(watched.source, observation.reading(watched), watched.slot)
    detail: dict[str, object] = {
        "retained_wal_bytes": observation.number("retained_wal_bytes"),
        "growth_bytes_per_second": observation.growth and observation.growth[0],
        "span": loss.span if loss is not None else "",
        "lost_by": loss.by if loss is not None else "",
    }
    timeout = conditions.idle_timeout(watched.source)
    return detail if timeout is None else {**detail, "idle_timeout_seconds": timeout}


def slot_lost(snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield 1 for a lost slot, else 0; our own slot that is gone while it should run is lost."""
    for watched in snapshot.slots:
        if watched.gone_at is not None:
            slot = watched.slot
            if slot is not None and slot.problem_code == DROPPED:
                yield _measured_slot(watched, 1.0, detail={"reason": "dropped at its WAL budget"})
            elif slot is not None and slot.desired == Slot.Desired.RUNNING and not slot.temporary:
                yield _measured_slot(watched, 1.0, detail={"reason": "gone"})
            continue
        reason = conditions.lost_reason(watched.facts, watched.source.server_version) or None
        value = float(reason is not None) if reason or _is_fresh(snapshot, watched) else None
        detail = {"reason": reason, "wal_status": watched.facts.get("wal_status")}
        yield _measured_slot(watched, value, detail=detail)


def unsafe_failover(snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield for each failover slot 1 if its server does not wait for standbys, else 0."""
    for watched in snapshot.existing_slots:
        look = snapshot.looks.get(watched.source_id)
        if watched.facts.get("failover") is not True or watched.facts.get("synced") is True:
            continue
        fresh = look is not None and snapshot.fresh(look.looked_at)
        holders = (look.holders or {}) if look is not None and fresh else {}
        names = (holders.get("failover_settings") or {}).get("synchronized_standby_slots")
        yield _measured_slot(watched, None if names is None else float(not str(names).strip()))


def _is_fresh(snapshot: StoreSnapshot, watched: WatchedSlot) -> bool:
    return snapshot.fresh(watched.last_seen_at)


def _measured_slot(watched: WatchedSlot, value: float | None, **fields: Any) -> Measured:
    return Measured(
        subject=f"slot:{watched.pk}",
        value=value,
        name=f"{watched.source.name}/{watched.name}",
        source_id=watched.source_id,
        slot_id=watched.pk,
        **fields,
    )


def of_oldest(
    column: str, start_field: str, detail_fields: tuple[str, ...], snapshot: StoreSnapshot
) -> Iterator[Measured]:
    """Yield for each source the age in seconds of its oldest transaction, or 0.

    ``column`` is ``prepared`` or ``running``, and ``start_field`` names the start time in its rows.
    A role that may not see other sessions gets no start times for them. Then only visible
    transactions count, and if there are none, the value is unknown.
    """
    for source in snapshot.servers:
        look = snapshot.looks.get(source.pk)
        fresh = look is not None and snapshot.fresh(look.looked_at)
        rows: list[dict[str, Any]] | None = getattr(look, column) if fresh else None
        started = [
            (dt.datetime.fromisoformat(row[start_field]), row)
            for row in rows or ()
            if row.get(start_field)
        ]
        if not started:
            yield _measured_source(source, None if rows is None or rows else 0.0)
            continue
        since, oldest = min(started, key=lambda pair: pair[0])
        detail = {name: oldest.get(name) for name in detail_fields}
        if column == "prepared":
            detail["prepared"] = len(rows or ())
        yield _measured_source(
            source, max((snapshot.now - since).total_seconds(), 0.0), detail=detail
        )


def source_unreachable(snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield the seconds since each source last answered; 0 if it answers."""
    silent_ids = [source.pk for source in snapshot.sources if source.problem_code]
    reached = snapshot.reached_at(silent_ids) if silent_ids else {}
    for source in snapshot.sources:
        # Without recent samples the state is unknown.
        value = 0.0 if snapshot.fresh(source.checked_at) else None
        if source.problem_code:
            since = reached.get(source.pk, source.created_at)
            value = max((snapshot.now - since).total_seconds(), 0.0)
        yield _measured_source(source, value, detail={"problem": source.problem_code})


def _measured_source(source: Source, value: float | None, **fields: Any) -> Measured:
    return Measured(
        subject=f"source:{source.pk}", value=value, name=source.name, source_id=source.pk, **fields
    )


def receiver_down(snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield the seconds without a receiver or its heartbeat, for slots set to run."""
    for slot in snapshot.ours:
        if slot.desired == Slot.Desired.RUNNING:
            detail: dict[str, object] = {"state": slot.state, "problem": slot.problem_code}
            if waits_for_worker(slot, snapshot.now) and snapshot.full_workers:
                detail["full_workers"] = snapshot.full_workers
            yield _measured_our_slot(slot, _silent_seconds(snapshot, slot), detail=detail)


def _silent_seconds(snapshot: StoreSnapshot, slot: Slot) -> float | None:
    streams = slot.state == Slot.State.STREAMING
    since = slot.heartbeat_at if streams else slot.state_since
    if since is None:
        return None
    seconds = max((snapshot.now - since).total_seconds(), 0.0)
    if streams or slot.state == Slot.State.FAILED:
        return seconds
    return seconds if seconds >= _CONNECTING_SECONDS else None


def poison_change(snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield 1 for a slot that a change stops until a user decides about it, else 0."""
    stopped: dict[int, int] = dict(
        Quarantine.objects.filter(settled_at=None).values_list("slot_id", "pk")
    )
    for slot in snapshot.ours:
        detail = {"quarantine": stopped.get(slot.pk)}
        yield _measured_our_slot(slot, float(slot.pk in stopped), detail=detail)


def published_tables(snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield 1 for a slot whose publications recently lost or changed a table, else 0."""
    for slot in snapshot.ours:
        lapse = recent_lapse(slot, snapshot.now)
        yield _measured_our_slot(slot, float(bool(lapse)), detail={"lapse": lapse} if lapse else {})


def store_size(snapshot: StoreSnapshot) -> Iterator[Measured]:
    """Yield the store's size as a share of its budget; yield nothing without a budget."""
    budget = read("store.budget_bytes", None)
    if isinstance(budget, bool) or not isinstance(budget, int | float) or budget <= 0:
        return
    ((size,),) = rows("SELECT pg_database_size(current_database())")
    detail = {"store_bytes": size, "budget_bytes": budget}
    yield Measured(subject="store", value=size / budget, name="The store", detail=detail)


def _measured_our_slot(slot: Slot, value: float | None, **fields: Any) -> Measured:
    watched = getattr(slot, "watched", None)
    return Measured(
        subject=f"slot:{slot.pk}",
        value=value,
        name=str(slot),
        source_id=slot.source_id,
        slot_id=watched.pk if watched is not None else None,
        **fields,
    )


_MEASURES: dict[str, Callable[[StoreSnapshot], Iterator[Measured]]] = {
    **{kind: partial(of_slots, kind) for kind in conditions.MEASURES},
    _K.SLOT_LOST: slot_lost,
    _K.UNSAFE_FAILOVER: unsafe_failover,
    _K.RECEIVER_DOWN: receiver_down,
    _K.POISON_CHANGE: poison_change,
    _K.STORE_SIZE: store_size,
    _K.PUBLISHED_TABLES: published_tables,
    _K.PREPARED_AGE: partial(of_oldest, "prepared", "prepared_at", ("gid", "owner", "database")),
    _K.LONG_TRANSACTION: partial(
        of_oldest, "running", "xact_started_at",
        ("pid", "role", "application_name", "database", "state"),
    ),
    _K.SOURCE_UNREACHABLE: source_unreachable,
}  # fmt: skip


@dataclass
class Measures:
    """The measured values; each kind is measured once for all its rules."""

    snapshot: StoreSnapshot
    _by_kind: dict[str, list[Measured]] = field(default_factory=dict)

    def of(self, rule: AlertRule, overridden: set[int]) -> list[Measured]:
        """Return the values for this rule, without slots that have a rule of their own."""
        if rule.kind not in self._by_kind:
            results = _MEASURES[rule.kind](self.snapshot)
            self._by_kind[rule.kind] = [self._named_fully(measured) for measured in results]
        values = self._by_kind[rule.kind]
        if rule.slot_id is not None:
            return [measured for measured in values if measured.slot_id == rule.slot_id]
        return [
            measured
            for measured in values
            if measured.slot_id not in overridden and not measured.only_own_rule
        ]

    def _named_fully(self, measured: Measured) -> Measured:
        """Add to the details the slot's names through other sources of the same server."""
        other_names = self.snapshot.also_seen_as.get(measured.slot_id) if measured.slot_id else None
        if not other_names:
            return measured
        return replace(measured, detail={**measured.detail, "also_seen_as": ", ".join(other_names)})
