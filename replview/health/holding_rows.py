"""This module turns what holds a slot back into the rows of a table."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replview.health.holding import Holder, cause_of, open_on_source, standbys
from replview.health.server_slot import ServerSlot
from replview.health.source_state import SourceState
from replview.store.models import Slot
from replview.text.formats import count_words, plural


@dataclass(slots=True, kw_only=True)
class HoldingRow:
    """A row of the table: a name, and one value."""

    name: str
    text: str = ""
    lsn: str = ""
    since: datetime | None = None
    unknown: str = ""
    tip: str = ""


@dataclass(slots=True, kw_only=True)
class Holding:
    """The table of what holds one slot back, and the sentence under it."""

    slot: Slot
    looked_at: datetime | None
    retained_wal_bytes: int | None
    rows: list[HoldingRow] = field(default_factory=list)
    sentence: str = ""


def holding_of(slot: Slot, state: SourceState, now: datetime) -> Holding:
    """Return the table of what holds this slot back."""
    horizon = state.slots.get(slot.name)
    retained = horizon.get("retained_wal_bytes") if horizon else None
    holding = Holding(slot=slot, looked_at=state.looked_at, retained_wal_bytes=retained)
    holders = sorted(open_on_source(state), key=lambda holder: -(holder.xid_age or -1))
    holding.rows = [
        *_slot_rows(horizon),
        _prepared_row(holders, state),
        _running_row(holders, state),
        _standby_row(state),
    ]
    if horizon is not None or state.looked_at is None or not state.fresh:
        server = ServerSlot(source=slot.source, name=slot.name, facts=horizon or {})
        holding.sentence = cause_of(server, state, now, slot).sentence
    return holding


def _slot_rows(horizon: dict[str, Any] | None) -> list[HoldingRow]:
    if horizon is None:
        unknown = "not on the source at the last check"
        return [HoldingRow(name=name, unknown=unknown) for name in ("restart_lsn", "catalog_xmin")]
    lsn = horizon.get("restart_lsn") or ""
    rows = [
        HoldingRow(name="restart_lsn", lsn=lsn, unknown="" if lsn else "none: it keeps no WAL"),
        _xmin_row("catalog_xmin", horizon, "Rows of the catalogs deleted since then are kept"),
    ]
    if horizon.get("xmin_age") is not None:
        rows.append(_xmin_row("xmin", horizon, "Rows of all tables deleted since then are kept"))
    return rows


def _xmin_row(name: str, horizon: dict[str, Any], why: str) -> HoldingRow:
    age = horizon.get(f"{name}_age")
    if age is None:
        return HoldingRow(name=name, text="none")
    return HoldingRow(name=name, text=_age_text(age), tip=f"{name} {horizon[name]}. {why}")


def _prepared_row(holders: list[Holder], state: SourceState) -> HoldingRow:
    name = "Prepared transactions"
    if state.prepared is None:
        return HoldingRow(name=name, unknown="not checked yet")
    prepared = [holder for holder in holders if holder.kind == "prepared"]
    if not prepared:
        return HoldingRow(name=name, text="none")
    oldest = min(prepared, key=lambda holder: (holder.since is None, holder.since))
    plus = "+" if state.prepared_limit else ""
    return HoldingRow(
        name=f"Prepared, {count_words(len(prepared))}{plus}, oldest",
        since=oldest.since,
        tip=f"{oldest.name}, in every database of the source",
    )


def _running_row(holders: list[Holder], state: SourceState) -> HoldingRow:
    name = "Running transactions"
    if state.running is None:
        return HoldingRow(name=name, unknown="not checked yet")
    running = [holder for holder in holders if holder.kind == "running"]
    if not running:
        return HoldingRow(name=name, text="none")
    oldest = max(running, key=lambda holder: holder.oldest)
    application = oldest.application or oldest.role
    tooltip = f"{application}, {_age_text(oldest.oldest)}".lstrip(", ")
    unknown = "needs pg_read_all_stats" if oldest.since is None else ""
    name = f"Running, {oldest.name}"
    return HoldingRow(name=name, since=oldest.since, unknown=unknown, tip=tooltip)


def _standby_row(state: SourceState) -> HoldingRow:
    name = "Standby feedback"
    rows = state.holders.get("standbys")
    if rows is None:
        return HoldingRow(name=name, unknown="not checked yet")
    if not rows:
        return HoldingRow(name=name, text="no standby")
    feeding = list(standbys(state))
    if not feeding:
        tooltip = f"{plural(len(rows), 'standby', 'standbys')}, none sends hot_standby_feedback"
        return HoldingRow(name=name, text="off", tip=tooltip)
    oldest = max(feeding, key=lambda holder: holder.oldest)
    return HoldingRow(name=name, text=_age_text(oldest.oldest), tip=oldest.name)


def _age_text(age: int) -> str:
    """Return the age of an xid in words; PostgreSQL counts it in transactions."""
    return f"{plural(age, 'transaction')} back"
