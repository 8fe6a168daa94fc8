"""The headline of the in-flight page, with the SQL that ends the worst transaction."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replview.features.in_flight.page import InFlight, InFlightScope, Numbers
from replview.features.in_flight.rows import InFlightRow, OnSourceRow
from replview.health.open_transactions import (
    LONG,
    TransactionStatement,
    end_of_session,
    ends_of_prepared,
)
from replview.health.states import Level
from replview.store.models import Transaction
from replview.text.formats import bytes_words, plural


@dataclass(slots=True, kw_only=True)
class InFlightHeadline:
    """The headline of the page."""

    level: Level
    title: str
    #: The worst transaction's name.
    name: str = ""
    #: Its state, in words that go before its age.
    doing: str = ""
    since: datetime | None = None
    rest: str = ""
    next: str = ""
    action: str = ""
    statements: tuple[TransactionStatement, ...] = ()
    #: The worst transaction's id, for the page's address.
    chosen: int | None = None
    #: The place where the statements must be run.
    where: str = ""
    #: Screen readers announce the headline again only when this text changes.
    says: str = field(default="")


def sentence_of(page: InFlight) -> InFlightHeadline:
    """Return the headline: the longest prepared transaction, else the longest streaming one."""
    if not page.scope.all_slots:
        return InFlightHeadline(
            level=Level.IDLE,
            title="Nothing is recorded yet.",
            rest="No slots yet.",
            next="add a source and a slot.",
        )
    worst = _worst(page)
    if worst is None:
        title, rest = (
            "No transaction is in flight.",
            "No open transaction holds back WAL or vacuum.",
        )
        known = all(state.fresh for _, state in page.looked) and not page.filters.narrowed
        if page.on_source or not known:
            rest = "No streamed or prepared transaction: see below what else is open."
        if hidden := page.whole.open:
            title, rest = "Nothing matches.", f"{plural(hidden, 'transaction')} not shown."
        return InFlightHeadline(level=Level.IDLE, title=title, says="none", rest=rest)
    if isinstance(worst, OnSourceRow):
        made = _of_elsewhere(worst)
    elif worst.row.prepared:
        made = _of_prepared(worst)
    else:
        made = _of_streaming(worst)
    made.title = _title(page.whole, len(page.elsewhere))
    made.says = f"{made.level}|{made.name}"
    return made


def _title(numbers: Numbers, elsewhere: int) -> str:
    counts = {
        "streaming": numbers.streaming,
        "prepared": numbers.prepared,
        "still arriving": numbers.receiving,
    }
    parts = [f"{count:,} {word}" for word, count in counts.items() if count]
    if not parts and elsewhere:
        return f"{plural(elsewhere, 'prepared transaction')} not recorded here."
    if len(parts) == 1:
        return f"{parts[0]}."
    return f"{sum(counts.values()):,} open: {', '.join(parts)}."


def _worst(page: InFlight) -> InFlightRow | OnSourceRow | None:
    """Return the transaction prepared for longest, else the one streaming for longest."""
    elsewhere = page.elsewhere[0] if page.elsewhere else None
    if page.prepared:
        mine = page.prepared[0]
        if elsewhere and elsewhere.holder.since and elsewhere.holder.since < mine.row.since:
            return elsewhere
        return mine
    return elsewhere or (page.streaming[0] if page.streaming else None)


def _of_prepared(one: InFlightRow) -> InFlightHeadline:
    row = one.row
    name = one.transaction.name
    made = InFlightHeadline(
        level=Level.OK,
        title="",
        name=name,
        doing="prepared for",
        since=row.since,
        rest=_holds(one),
        chosen=one.transaction.pk,
    )
    if one.on_source.word == "gone":
        made.rest += " It is no longer prepared on the source; its end has not been received yet."
        made.level = Level.LOOK if row.long else Level.OK
        return made
    made.action = "Copy SQL: commit or roll back"
    made.statements = ends_of_prepared(name, plural(one.transaction.changes, "change"))
    made.where = _where(one)
    if row.age > LONG:
        made.level, made.next = Level.LOOK, "commit it or roll it back."
    return made


def _of_streaming(one: InFlightRow) -> InFlightHeadline:
    row = one.row
    doing = "arriving for" if one.transaction.state == "receiving" else "streaming for"
    made = InFlightHeadline(
        level=Level.OK,
        title="",
        name=one.transaction.name,
        doing=doing,
        since=row.since,
        rest=_holds(one),
        chosen=one.transaction.pk,
    )
    session = one.on_source.found or {}
    if row.age > LONG:
        made.level, made.next = Level.LOOK, "wait for its session, or end it."
        if session.get("pid"):
            made.action = "Copy SQL: end its session"
            made.statements = ends_of_session(one.transaction, session)
            made.where = f"Run it on {row.slot.source.name}."
    return made


def ends_of_session(
    transaction: Transaction, session: dict[str, Any]
) -> tuple[TransactionStatement, ...]:
    """Return the statement that ends the session; none if its xid is unknown."""
    end = end_of_session(session["pid"], transaction.xid)
    return () if end is None else (end,)


def _of_elsewhere(one: OnSourceRow) -> InFlightHeadline:
    holder = one.holder
    made = InFlightHeadline(level=Level.LOOK if one.long else Level.OK, title="", name=holder.name,
                            doing=f"prepared on {one.source.name} for", since=holder.since,
                            rest="It is not recorded here, and blocks vacuum there.")  # fmt: skip
    if holder.neighbour:
        made.next = "the owner of that database can end it."
        return made
    made.action, made.statements = "Copy SQL: commit or roll back", holder.ends
    made.where = f"Connect to database {holder.database} of {one.source.name} first."
    if one.long:
        made.next = "commit it or roll it back."
    return made


def _holds(one: InFlightRow) -> str:
    held = one.row.held_wal_bytes
    return f"It holds {bytes_words(held)} of WAL." if held else ""


def _where(one: InFlightRow) -> str:
    database, source = database_of(one), one.row.slot.source.name
    return f"Run it on {source}{f', connected to database {database}' if database else ''}."


def database_of(one: InFlightRow) -> str:
    """Return the transaction's database as reported, else the slot's database."""
    found = one.on_source.found or {}
    return str(found.get("database") or one.counters.get("database") or "")


def work_mem_words(scope: InFlightScope) -> str:
    """Return ``logical_decoding_work_mem`` in words, such as ``64 MB on this source``.

    Several sources give a range; an unknown setting gives an empty text.
    """
    states = {slot.source_id: scope.source_state(slot) for slot in scope.slots}
    found = [one.holders.get("logical_decoding_work_mem_bytes") for one in states.values()]
    known = [size for size in found if size is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    place = "this source" if len(states) == 1 else "these sources"
    return f"{bytes_words(low)}{f' to {bytes_words(high)}' if high > low else ''} on {place}"
