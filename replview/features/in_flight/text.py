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
        complete = all(state.fresh for _, state in page.looked) and not page.filters.narrowed
        if page.on_source or not complete:
            rest = "No streamed or prepared transaction: see below what else is open."
        if hidden := page.whole.open:
            title, rest = "Nothing matches.", f"{plural(hidden, 'transaction')} not shown."
        return InFlightHeadline(level=Level.IDLE, title=title, says="none", rest=rest)
    if isinstance(worst, OnSourceRow):
        headline = _elsewhere_headline(worst)
    elif worst.row.prepared:
        headline = _prepared_headline(worst)
    else:
        headline = _streaming_headline(worst)
    headline.title = _title(page.whole, len(page.elsewhere))
    headline.says = f"{headline.level}|{headline.name}"
    return headline


def _title(numbers: Numbers, elsewhere: int) -> str:
    counts = {
        "streaming": numbers.streaming,
        "prepared": numbers.prepared,
        "still arriving": numbers.receiving,
    }
    parts = [f"{count:,} {state}" for state, count in counts.items() if count]
    if not parts and elsewhere:
        return f"{plural(elsewhere, 'prepared transaction')} not recorded here."
    if len(parts) == 1:
        return f"{parts[0]}."
    return f"{sum(counts.values()):,} open: {', '.join(parts)}."


def _worst(page: InFlight) -> InFlightRow | OnSourceRow | None:
    """Return the transaction prepared for longest, else the one streaming for longest."""
    elsewhere = page.elsewhere[0] if page.elsewhere else None
    if page.prepared:
        prepared = page.prepared[0]
        if elsewhere and elsewhere.holder.since and elsewhere.holder.since < prepared.row.since:
            return elsewhere
        return prepared
    return elsewhere or (page.streaming[0] if page.streaming else None)


def _prepared_headline(row: InFlightRow) -> InFlightHeadline:
    open_row = row.row
    name = row.transaction.name
    headline = InFlightHeadline(
        level=Level.OK,
        title="",
        name=name,
        doing="prepared for",
        since=open_row.since,
        rest=_held_text(row),
        chosen=row.transaction.pk,
    )
    if row.on_source.word == "gone":
        headline.rest += (
            " It is no longer prepared on the source; its end has not been received yet."
        )
        headline.level = Level.LOOK if open_row.long else Level.OK
        return headline
    headline.action = "Copy SQL: commit or roll back"
    headline.statements = ends_of_prepared(name, plural(row.transaction.changes, "change"))
    headline.where = _place_text(row)
    if open_row.age > LONG:
        headline.level, headline.next = Level.LOOK, "commit it or roll it back."
    return headline


def _streaming_headline(row: InFlightRow) -> InFlightHeadline:
    open_row = row.row
    doing = "arriving for" if row.transaction.state == "receiving" else "streaming for"
    headline = InFlightHeadline(
        level=Level.OK,
        title="",
        name=row.transaction.name,
        doing=doing,
        since=open_row.since,
        rest=_held_text(row),
        chosen=row.transaction.pk,
    )
    session = row.on_source.found or {}
    if open_row.age > LONG:
        headline.level, headline.next = Level.LOOK, "wait for its session, or end it."
        if session.get("pid"):
            headline.action = "Copy SQL: end its session"
            headline.statements = ends_of_session(row.transaction, session)
            headline.where = f"Run it on {open_row.slot.source.name}."
    return headline


def ends_of_session(
    transaction: Transaction, session: dict[str, Any]
) -> tuple[TransactionStatement, ...]:
    """Return the statement that ends the session; none if its xid is unknown."""
    end = end_of_session(session["pid"], transaction.xid)
    return () if end is None else (end,)


def _elsewhere_headline(row: OnSourceRow) -> InFlightHeadline:
    holder = row.holder
    headline = InFlightHeadline(
        level=Level.LOOK if row.long else Level.OK,
        title="",
        name=holder.name,
        doing=f"prepared on {row.source.name} for",
        since=holder.since,
        rest="It is not recorded here, and blocks vacuum there.",
    )
    if holder.neighbour:
        headline.next = "the owner of that database can end it."
        return headline
    headline.action, headline.statements = "Copy SQL: commit or roll back", holder.ends
    headline.where = f"Connect to database {holder.database} of {row.source.name} first."
    if row.long:
        headline.next = "commit it or roll it back."
    return headline


def _held_text(row: InFlightRow) -> str:
    held_bytes = row.row.held_wal_bytes
    return f"It holds {bytes_words(held_bytes)} of WAL." if held_bytes else ""


def _place_text(row: InFlightRow) -> str:
    database, source = database_of(row), row.row.slot.source.name
    return f"Run it on {source}{f', connected to database {database}' if database else ''}."


def database_of(row: InFlightRow) -> str:
    """Return the transaction's database as reported, else the slot's database."""
    session = row.on_source.found or {}
    return str(session.get("database") or row.counters.get("database") or "")


def work_mem_words(scope: InFlightScope) -> str:
    """Return ``logical_decoding_work_mem`` in words, such as ``64 MB on this source``.

    Several sources give a range; an unknown setting gives an empty text.
    """
    states = {slot.source_id: scope.source_state(slot) for slot in scope.slots}
    settings = [state.holders.get("logical_decoding_work_mem_bytes") for state in states.values()]
    sizes = [size for size in settings if size is not None]
    if not sizes:
        return ""
    low, high = min(sizes), max(sizes)
    place = "this source" if len(states) == 1 else "these sources"
    return f"{bytes_words(low)}{f' to {bytes_words(high)}' if high > low else ''} on {place}"
