"""What holds a slot back, in a few rows and one plain sentence that says only what is known.

restart_lsn cannot pass the beginning of the oldest transaction that is open anywhere on the source,
nor can catalog_xmin: the reader would need its records again. Source: PostgreSQL, snapbuild.c,
``SnapBuildProcessRunningXacts()``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from replview.health.source_state import SourceState
from replview.store.fields import LSNField
from replview.store.models import Slot, Transaction
from replview.text.formats import age_words, bytes_words, count_words, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Something open on the source that keeps row versions, WAL, or both."""

    #: ``prepared``, ``running``, ``standby`` or ``slot``.
    kind: str
    name: str
    #: In transactions: how old its xid is (it pins slots too), and its snapshot.
    xid_age: int | None = None
    snapshot_age: int | None = None
    since: datetime | None = None
    detail: str = ""

    @property
    def oldest(self) -> int:
        """How far back vacuum must stop for it."""
        return max(self.xid_age or 0, self.snapshot_age or 0)


def open_on_source(state: SourceState) -> Iterator[Holder]:
    """Everything open on the source, in any of its databases."""
    for row in state.prepared or ():
        yield Holder(
            kind="prepared",
            name=row["gid"],
            xid_age=state.age_of(row["xid"]),
            since=parse_datetime(row["prepared_at"]),
            detail=row.get("database") or "",
        )
    for row in state.running or ():
        started = row.get("xact_started_at")
        yield Holder(
            kind="running",
            name=f"pid {row['pid']}",
            xid_age=state.age_of(row.get("xid")),
            snapshot_age=row.get("backend_xmin_age"),
            since=parse_datetime(started) if started else None,
            detail=row.get("application_name") or row.get("role") or "",
        )


def standbys(state: SourceState) -> Iterator[Holder]:
    """Standbys that feed back what they still read."""
    for row in state.holders.get("standbys") or ():
        age = row.get("backend_xmin_age") or row.get("slot_xmin_age")
        if age is not None:
            name = row.get("slot_name") or row.get("application_name") or f"pid {row['pid']}"
            yield Holder(kind="standby", name=name, snapshot_age=age)


def vacuum_holder(state: SourceState) -> Holder | None:
    """Who makes vacuum stop furthest back; None where nobody is known to."""
    slots = (
        Holder(kind="slot", name=name, snapshot_age=row["xmin_age"])
        for name, row in state.slots.items()
        if row.get("xmin_age") is not None and row.get("slot_type") != "physical"
    )
    holders = (*open_on_source(state), *standbys(state), *slots)
    known = [holder for holder in holders if holder.oldest]
    return max(known, key=lambda holder: holder.oldest, default=None)


#: Unread WAL below this is what any reader is behind.
_BEHIND_BYTES = 16 << 20
#: The oldest transaction is the reason when at least this share of what is kept is due to it.
_SHARE = 0.8


@dataclass(slots=True, kw_only=True)
class HoldingRow:
    """A line of the block: a name, and one value."""

    name: str
    text: str = ""
    lsn: str = ""
    since: datetime | None = None
    unknown: str = ""
    tip: str = ""


@dataclass(slots=True, kw_only=True)
class Holding:
    """The block of one slot."""

    slot: Slot
    looked_at: datetime | None
    retained_wal_bytes: int | None
    rows: list[HoldingRow] = field(default_factory=list)
    sentence: str = ""


def holding_of(slot: Slot, state: SourceState, now: datetime, first: Transaction | None) -> Holding:
    """What holds this slot back; ``first`` is the recorded one with the oldest first record."""
    horizon = state.slots.get(slot.name)
    retained = horizon.get("retained_wal_bytes") if horizon else None
    made = Holding(slot=slot, looked_at=state.looked_at, retained_wal_bytes=retained)
    holders = sorted(open_on_source(state), key=lambda holder: -(holder.xid_age or -1))
    made.rows = [
        *_slot_rows(horizon),
        _prepared_row(holders, state),
        _running_row(holders, state),
        _standby_row(state),
    ]
    made.sentence = _sentence(horizon, holders, state, now, first)
    return made


def _slot_rows(horizon: dict[str, Any] | None) -> list[HoldingRow]:
    if horizon is None:
        unknown = "not on the source when last looked at"
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
    return HoldingRow(name=name, text=_back(age), tip=f"{name} {horizon[name]}. {why}")


def _prepared_row(holders: list[Holder], state: SourceState) -> HoldingRow:
    name = "Prepared transactions"
    if state.prepared is None:
        return HoldingRow(name=name, unknown="not looked at yet")
    prepared = [holder for holder in holders if holder.kind == "prepared"]
    if not prepared:
        return HoldingRow(name=name, text="none")
    oldest = min(prepared, key=lambda holder: (holder.since is None, holder.since))
    more = "+" if state.prepared_limit else ""
    return HoldingRow(
        name=f"Prepared, {count_words(len(prepared))}{more}, oldest",
        since=oldest.since,
        tip=f"{oldest.name}, in every database of the source",
    )


def _running_row(holders: list[Holder], state: SourceState) -> HoldingRow:
    name = "Running transactions"
    if state.running is None:
        return HoldingRow(name=name, unknown="not looked at yet")
    running = [holder for holder in holders if holder.kind == "running"]
    if not running:
        return HoldingRow(name=name, text="none")
    oldest = max(running, key=lambda holder: holder.oldest)
    tip = f"{oldest.detail}, {_back(oldest.oldest)}".lstrip(", ")
    unknown = "needs pg_read_all_stats" if oldest.since is None else ""
    name = f"Running, {oldest.name}"
    return HoldingRow(name=name, since=oldest.since, unknown=unknown, tip=tip)


def _standby_row(state: SourceState) -> HoldingRow:
    name = "Standby feedback"
    known = state.holders.get("standbys")
    if known is None:
        return HoldingRow(name=name, unknown="not looked at yet")
    if not known:
        return HoldingRow(name=name, text="no standby")
    feeding = list(standbys(state))
    if not feeding:
        tip = f"{plural(len(known), 'standby', 'standbys')}, none sends hot_standby_feedback"
        return HoldingRow(name=name, text="off", tip=tip)
    oldest = max(feeding, key=lambda holder: holder.oldest)
    return HoldingRow(name=name, text=_back(oldest.oldest), tip=oldest.name)


def _sentence(
    horizon: dict[str, Any] | None,
    holders: list[Holder],
    state: SourceState,
    now: datetime,
    first: Transaction | None,
) -> str:
    """Which of them pins the slot."""
    if state.looked_at is None:
        return "The source has not been looked at yet."
    if not state.fresh:
        return f"As last seen {age_words(now - state.looked_at)} ago; what holds it now is unknown."
    if horizon is None or not horizon.get("restart_lsn"):
        return ""
    retained = horizon.get("retained_wal_bytes") or 0
    unread = horizon.get("unconfirmed_wal_bytes") or 0
    if unread > _BEHIND_BYTES and unread > retained * _SHARE:
        reader = "" if horizon.get("active") else ", and nobody reads it"
        return f"Its reader holds it: {bytes_words(unread)} of WAL are not confirmed yet{reader}."
    if first is not None and (words := _blame_recorded(first, horizon)):
        return words
    with_xid = [holder for holder in holders if holder.xid_age is not None]
    if not with_xid:
        return "Nothing open on the source holds it: restart_lsn follows as the slot is read."
    return _blame(with_xid[0], with_xid[1:], horizon)


def _blame_recorded(first: Transaction, horizon: dict[str, Any]) -> str:
    """Of one we recorded we know where it begins: how much of what is kept is since then."""
    retained = horizon.get("retained_wal_bytes") or 0
    position = int(LSNField().to_python(horizon["restart_lsn"]) or 0) + retained
    since = position - int(first.first_lsn or 0)
    if first.first_lsn is None or not retained * _SHARE <= since <= retained:
        return ""
    kind = "prepared" if first.state == Transaction.State.PREPARED else "streaming"
    return (
        f"The {kind} transaction {first.gid or first.xid} pins restart_lsn: {bytes_words(since)} "
        f"of the {bytes_words(retained)} kept are since its first record. Neither restart_lsn nor "
        "catalog_xmin passes its beginning while it is open."
    )


def _blame(oldest: Holder, younger: list[Holder], horizon: dict[str, Any]) -> str:
    age, kept = oldest.xid_age or 0, horizon.get("catalog_xmin_age")
    who = _who(oldest)
    if kept is None:
        return f"{who} is the oldest still open: restart_lsn cannot pass its beginning."
    if age < kept * _SHARE:
        return (
            f"{who} is the oldest still open, but younger than what the slot keeps: "
            "restart_lsn follows as the slot is read."
        )
    session = next((holder for holder in younger if holder.kind != oldest.kind), None)
    more = f" {_who(session)} is younger and holds nothing more." if session else ""
    return (
        f"{who} pins restart_lsn and catalog_xmin: neither passes its beginning while it is "
        f"open.{more}"
    )


def _who(holder: Holder) -> str:
    if holder.kind == "prepared":
        return f"The prepared transaction {holder.name}"
    return f"The running session {holder.name}"


def _back(age: int) -> str:
    """How old an xid is: PostgreSQL counts it in transactions."""
    return f"{plural(age, 'transaction')} back"
