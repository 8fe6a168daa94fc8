"""This module finds what holds a slot back, and says it in one sentence.

Neither restart_lsn nor catalog_xmin passes the beginning of the oldest transaction that is open
anywhere on the source, because a reader that reconnects needs its WAL again. Source: PostgreSQL,
snapbuild.c, ``SnapBuildProcessRunningXacts()``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.utils.dateparse import parse_datetime
from django.utils.text import capfirst

from decoder.scalars import LSN
from replview.health.open_transactions import TransactionStatement, end_of_session, ends_of_prepared
from replview.health.server_slot import ServerSlot
from replview.health.source_state import SourceState
from replview.store.models import Slot, Transaction
from replview.store.models.seen import seen_sources
from replview.text.formats import age_words, bytes_words

#: Any reader may be as far behind as this.
BEHIND_BYTES = 16 << 20
#: Share of the retained WAL from which one cause is named as the cause of all.
SHARE = 0.8
#: Servers log running transactions every 15 s: after this long restart_lsn has moved past all that
#: have ended.
_FOLLOWED_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A transaction, standby or slot on the source that keeps row versions, WAL, or both."""

    #: ``prepared``, ``running``, ``standby`` or ``slot``.
    kind: str
    #: A gid, ``pid 4711``, or a slot's or standby's name.
    name: str
    xid: int | None = None
    #: Ages in transactions, of its xid (which also holds slots) and of its snapshot.
    xid_age: int | None = None
    snapshot_age: int | None = None
    since: datetime | None = None
    pid: int | None = None
    database: str = ""
    role: str = ""
    application: str = ""
    #: The session's state in pg_stat_activity; empty: not visible to replview's role.
    state: str = ""
    #: True for another database, whose names are hidden from users who do not see every source.
    neighbour: bool = False

    @property
    def oldest(self) -> int:
        """Return the age in transactions of the oldest row version that vacuum must keep for it."""
        return max(self.xid_age or 0, self.snapshot_age or 0)

    @property
    def words(self) -> str:
        """Return ``the transaction of pid 4711``."""
        prepared = self.kind == "prepared"
        if self.neighbour:
            return f"a {'prepared ' * prepared}transaction of another database"
        return (
            f"the prepared transaction {self.name}"
            if prepared
            else f"the transaction of {self.name}"
        )

    @property
    def ends(self) -> tuple[TransactionStatement, ...]:
        """Return the statements that end the transaction, for the user to copy.

        A prepared transaction has two: commit and rollback. The result is empty for a transaction
        of another database, and for a session that cannot be identified.
        """
        if self.neighbour:
            return ()
        if self.kind == "prepared":
            return ends_of_prepared(self.name, "changes")
        began = self.since.isoformat() if self.since else ""
        end = None if self.pid is None else end_of_session(self.pid, self.xid, began)
        return () if end is None else (end,)

    @property
    def next_step(self) -> str:
        """Return how to end the transaction, as the end of a sentence."""
        kind = "prepared transaction" if self.kind == "prepared" else "transaction"
        sql = " or ".join(end.sql.removesuffix(";").replace("\n", " ") for end in self.ends)
        return f"end the {kind} that holds it: {sql}" if sql else f"end {self.words}."


def _without_unseen_names(state: SourceState, holder: Holder) -> Holder:
    """Return the holder without its names if it is of a database that the user may not see."""
    source_database = state.holders.get("database") or ""
    if seen_sources() is None or holder.database in ("", source_database):
        return holder
    return replace(
        holder, name="another database", database="", role="", application="", pid=None,
        neighbour=True,
    )  # fmt: skip


def open_on_source(state: SourceState) -> Iterator[Holder]:
    """Yield every open transaction of the source, in any of its databases."""
    return (_without_unseen_names(state, holder) for holder in _open_on_source(state))


def _open_on_source(state: SourceState) -> Iterator[Holder]:
    for row in state.prepared or ():
        yield Holder(
            kind="prepared",
            name=row["gid"],
            xid=row["xid"],
            xid_age=state.age_of(row["xid"]),
            since=parse_datetime(row["prepared_at"]),
            database=row.get("database") or "",
            role=row.get("owner") or "",
        )
    for row in state.running or ():
        started = row.get("xact_started_at")
        yield Holder(
            kind="running",
            name=f"pid {row['pid']}",
            xid=row.get("xid"),
            xid_age=state.age_of(row.get("xid")),
            snapshot_age=row.get("backend_xmin_age"),
            since=parse_datetime(started) if started else None,
            pid=row["pid"],
            database=row.get("database") or "",
            role=row.get("role") or "",
            application=row.get("application_name") or "",
            state=row.get("state") or "",
        )


def standbys(state: SourceState) -> Iterator[Holder]:
    """Yield the standbys that feed back an xmin."""
    for row in state.holders.get("standbys") or ():
        age = row.get("backend_xmin_age") or row.get("slot_xmin_age")
        if age is not None:
            name = row.get("slot_name") or row.get("application_name") or f"pid {row['pid']}"
            application = row.get("application_name") or ""
            yield Holder(kind="standby", name=name, snapshot_age=age, application=application)


def all_holders(state: SourceState) -> Iterator[Holder]:
    """Yield everything on the source that holds slots or vacuum back by an xid or a snapshot."""
    yield from open_on_source(state)
    yield from standbys(state)
    for name, row in state.slots.items():
        # The xmin of an active physical slot is that of its standby, which is listed already.
        standby = row.get("slot_type") == "physical" and row.get("active")
        if row.get("xmin_age") is not None and not standby:
            database = row.get("database") or ""
            age = row["xmin_age"]
            yield _without_unseen_names(
                state, Holder(kind="slot", name=name, snapshot_age=age, database=database)
            )


def vacuum_holder(state: SourceState) -> Holder | None:
    """Return the holder with the oldest row versions that vacuum must keep; None: none is known."""
    holders = [holder for holder in all_holders(state) if holder.oldest]
    return max(holders, key=lambda holder: holder.oldest, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The reason why the restart_lsn of a slot does not move."""

    #: ``lost``, ``primary``, ``nobody``, ``reader``, ``transaction``, ``nothing`` or ``unknown``.
    kind: str
    #: Words that follow "held back by"; for ``unknown`` the reason.
    words: str
    sentence: str = ""
    #: The oldest open transaction, for ``transaction``.
    holder: Holder | None = None

    @property
    def next_step(self) -> str:
        """Return how to end the transaction that holds the slot; empty where none does."""
        return self.holder.next_step if self.holder is not None else ""

    def held_for(self, now: datetime) -> timedelta:
        """Return how long the transaction that holds the slot has been open; 0 where unknown."""
        since = self.holder.since if self.holder is not None else None
        return timedelta(0) if since is None else now - since


def cause_of(
    server: ServerSlot, state: SourceState, now: datetime, slot: Slot | None = None
) -> Cause:
    """Return what holds a slot back; ``slot`` is given where replview receives it."""
    retained, unconfirmed = server.retained_wal_bytes or 0, server.behind_bytes or 0
    if server.lost:
        return Cause(kind="lost", words="nothing: it is lost")
    if server.synced:
        return Cause(kind="primary", words="the primary's slot, which it follows")
    if not _is_read(server, slot) and retained:
        text = f"the missing {'standby' if server.physical else 'consumer'}"
        note = (
            ""
            if unconfirmed <= BEHIND_BYTES
            else f" {bytes_words(unconfirmed)} of WAL are not confirmed."
        )
        sentence = f"It has no consumer, and restart_lsn advances only while it is read.{note}"
        return Cause(kind="nobody", words=text, sentence=sentence)
    if unconfirmed > BEHIND_BYTES and unconfirmed > retained * SHARE:
        sentence = (
            f"Its consumer holds it: {bytes_words(unconfirmed)} of WAL are not confirmed yet."
        )
        text = f"its consumer, with {bytes_words(unconfirmed)} to go"
        return Cause(kind="reader", words=text, sentence=sentence)
    if server.physical or server.reserves_none:
        return Cause(kind="nothing", words="nothing")
    return _open_transaction_cause(server, state, now, slot)


def _is_read(server: ServerSlot, slot: Slot | None) -> bool:
    """Return whether somebody reads the slot.

    A slot that is read with SQL functions is active only during a call, so our own counts as read
    while its state is streaming.
    """
    if server.active is not False or slot is None:
        return server.active is not False
    return slot.interface == Slot.Interface.SQL and slot.state == Slot.State.STREAMING


def _open_transaction_cause(
    server: ServerSlot, state: SourceState, now: datetime, slot: Slot | None
) -> Cause:
    """Return the oldest open transaction as the cause, for a slot that is read.

    A transaction that is younger than the oldest row that the slot keeps is not the cause.
    """
    if state.looked_at is None:
        why = "The source has not been checked yet."
        return Cause(kind="unknown", words="not checked yet", sentence=why)
    if not state.fresh:
        since = f"last seen {age_words(now - state.looked_at)} ago"
        return Cause(kind="unknown", words=since,
                     sentence=f"As {since}; what holds it now is unknown.")  # fmt: skip
    with_xid = [
        transaction for transaction in open_on_source(state) if transaction.xid_age is not None
    ]
    with_xid.sort(key=lambda transaction: -(transaction.xid_age or 0))
    advance = "restart_lsn follows as the slot is read."
    if not with_xid:
        return Cause(kind="nothing", words="nothing",
                     sentence=f"Nothing open on the source holds it: {advance}")  # fmt: skip
    holder, catalog_age = with_xid[0], server.number("catalog_xmin_age")
    since = _recorded_since(holder, server, slot)
    subject = capfirst(holder.words)
    is_young = holder.since is None or now - holder.since < _FOLLOWED_AFTER
    if (
        is_young
        and not since
        and catalog_age is not None
        and (holder.xid_age or 0) < catalog_age * SHARE
    ):
        sentence = (
            f"{subject} is the oldest still open, but younger than what the slot keeps: {advance}"
        )
        return Cause(kind="nothing", words="nothing", sentence=sentence)
    pins = f"{subject} pins restart_lsn{since} and catalog_xmin"
    sentence = f"{pins}: neither advances past its beginning while it is open."
    return Cause(kind="transaction", words=holder.words, sentence=sentence, holder=holder)


def _recorded_since(holder: Holder, server: ServerSlot, slot: Slot | None) -> str:
    """Return how much of the retained WAL was written since the holder's first record.

    The result is empty where that record is not stored, or is not the cause of most of the WAL.
    """
    retained, restart = server.retained_wal_bytes or 0, server.text("restart_lsn")
    if slot is None or slot.incarnation_id is None or not restart:
        return ""
    transactions = Transaction.objects.filter(incarnation_id=slot.incarnation_id, xid=holder.xid)
    transactions = transactions.filter(state__in=("streaming", "prepared"), first_lsn__isnull=False)
    if (first := transactions.order_by("first_lsn").first()) is None:
        return ""
    since = int(LSN.parse(restart)) + retained - int(first.first_lsn or 0)
    if not retained * SHARE <= since <= retained:
        return ""
    return f" ({bytes_words(since)} of the {bytes_words(retained)} kept are since its first record)"
