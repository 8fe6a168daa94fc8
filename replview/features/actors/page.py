"""The list of all actors, and the page of one actor."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.access.visibility import reading_session
from replview.features.actors.day_bars import DayBars, day_bars
from replview.features.actors.filters import RANGES, SORT_WORDS, ActorsQuery
from replview.store.models import Slot
from replview.store.read.transactions.listing import find_transactions
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.sums.actor_sums import (
    ActorDay,
    ActorList,
    ActorSum,
    ActorTotals,
    SummedDays,
    TableSum,
    actors_of,
    span_of,
    totals_of,
)
from replview.text.addresses import find_url, transactions_url
from replview.text.formats import count_words, plural, shortened
from replview.text.parsing import table_text
from replview.ui.changes.transaction_lines import TransactionLine, transaction_lines

PAGE_ACTORS = 50
LATEST_TRANSACTIONS = 20
_TABLES_NAMED = 2
_TABLES_LISTED = 100
_VALUES_SHOWN = 3
_UNKNOWN_ACTOR = "?"


@dataclass(slots=True, kw_only=True)
class ActorRow:
    """An actor in the list."""

    sums: ActorSum
    url: str
    transactions_url: str
    bars: DayBars
    #: The most changed tables of the actor's last day, as (name, qualified name).
    tables: list[tuple[str, str]]
    #: Number of further tables of that day.
    more_tables: int


@dataclass(slots=True, kw_only=True)
class ActorsPage:
    """A page of the list of actors."""

    slot: Slot
    wanted: ActorsQuery
    found: ActorList
    rows: list[ActorRow]
    #: Transactions that are not counted yet.
    left_out: int

    @property
    def sorts(self) -> list[tuple[str, str, bool]]:
        """Return the sort orders as (label, address, chosen)."""
        return [
            (label, self.wanted.url(self.slot, sort=name), name == self.wanted.sort)
            for name, label in SORT_WORDS.items()
        ]

    @property
    def ranges(self) -> list[tuple[str, str, bool]]:
        """Return the time ranges as (label, address, chosen)."""
        return [
            (name, self.wanted.url(self.slot, range=name), name == self.wanted.range)
            for name in RANGES
        ]

    @property
    def clear_url(self) -> str:
        """Return the address without the search text."""
        return self.wanted.url(self.slot, q="")

    @property
    def all_url(self) -> str:
        """Return the address over the whole record."""
        return self.wanted.url(self.slot, range="all")

    @property
    def following_url(self) -> str:
        """Return the next page's address; empty on the last page."""
        if not self.found.more:
            return ""
        last = self.found.rows[-1]
        return self.wanted.url(self.slot, after=(last.order, last.actor))

    @property
    def title(self) -> str:
        """Return a headline such as ``2 actors changed shop/replview in the last 30 days``."""
        search_text = f" with “{self.wanted.q}”" if self.wanted.q else ""
        subject = plural(self.found.actors, "actor") if self.found.transactions else "Nobody"
        return f"{subject}{search_text} changed {self.slot} {self.wanted.words}."

    @property
    def unknown_words(self) -> str:
        """Return the sentence about transactions that name nobody.

        It is empty during a search and if there are no transactions.
        """
        if not self.found.transactions or self.wanted.q:
            return ""
        if not self.found.unknown:
            return "Every transaction names its actor."
        percent = round(100 * self.found.unknown / self.found.transactions)
        unknown = plural(self.found.unknown, "transaction")
        return f"Of {unknown} ({percent} %) the actor is unknown."


def read_actors_page(slot: Slot, query: ActorsQuery, today: dt.date) -> ActorsPage:
    """Read a page of the list in three queries."""
    span = span_of(slot.pk, query.first_day(today))
    actor_list = actors_of(
        span, text=query.q, sort=query.sort, after=query.after, limit=PAGE_ACTORS
    )
    names = [row.actor for row in actor_list.rows]
    # Read only the tables of each actor's last day: all days of so many actors cost too much.
    last_days = {actor_sum.actor: actor_sum.last_time.astimezone(dt.UTC).date()
                 for actor_sum in actor_list.rows if actor_sum.last_time}  # fmt: skip
    activity = totals_of(span, names, tables_on=last_days)
    rows = []
    for row in actor_list.rows:
        totals = activity.get(row.actor, ActorTotals(row.actor))
        tables = [
            (table.table or "unknown", _table_label(table))
            for table in totals.tables[:_TABLES_NAMED]
        ]
        rows.append(
            ActorRow(
                sums=row,
                url=query.actor_url(slot, row.actor),
                transactions_url=_transactions_address(slot, row.actor, span.first_day),
                bars=day_bars(totals.days, span.first_day, today, width=120, height=24),
                tables=tables,
                more_tables=len(totals.tables) - len(tables),
            )
        )
    return ActorsPage(slot=slot, wanted=query, found=actor_list, rows=rows, left_out=span.left_out)


@dataclass(slots=True, kw_only=True)
class TableLine:
    """The changes of the actor in one table."""

    sums: TableSum
    name: str
    transactions_url: str
    find_url: str


@dataclass(frozen=True, slots=True)
class LatestLine:
    """A recent transaction, with only the actor's part of it."""

    line: TransactionLine
    #: Changes and messages of all actors of the transaction.
    of_all: int
    #: Names of the other actors.
    others: list[str]


@dataclass(frozen=True, slots=True)
class ContextLine:
    """A key of the transactions' context, with its most frequent values first."""

    key: str
    values: tuple[tuple[str, int], ...]
    more: int


@dataclass(slots=True, kw_only=True)
class ActorPage:
    """The page of one actor; an empty name stands for transactions that name nobody."""

    slot: Slot
    wanted: ActorsQuery
    actor: str
    today: dt.date
    #: None if the actor changed nothing in the time range.
    sums: ActorSum | None = None
    days: list[ActorDay] = field(default_factory=list)
    bars: DayBars | None = None
    tables: list[TableLine] = field(default_factory=list)
    more_tables: int = 0
    lines: list[LatestLine] = field(default_factory=list)
    #: The moment back to which ``lines`` were searched; None if the search was complete.
    searched_back_to: dt.datetime | None = None
    context: list[ContextLine] = field(default_factory=list)
    #: Number of recent transactions whose stamps contradict each other.
    disagreeing: int = 0
    left_out: int = 0

    @property
    def name(self) -> str:
        """Return the actor's name, or a phrase for nobody."""
        return self.actor or "Nobody named"

    @property
    def title(self) -> str:
        """Return a headline such as ``alice changed 3 rows in 1 table of shop/replview``."""
        span = f"of {self.slot} {self.wanted.words}"
        if self.sums is not None:
            tables = plural(len(self.tables) + self.more_tables, "table")
            return f"{self.name} changed {plural(self.sums.changes, 'row')} in {tables} {span}"
        if self.actor:
            return f"No stored transaction {span} names “{self.actor}”."
        return f"Every stored transaction {span} names an actor."

    @property
    def known_by(self) -> str:
        """Return the evidence for the actor's name; empty if nothing was changed."""
        sums = self.sums
        if sums is None:
            return ""
        if not self.actor:
            return f"Nothing in these {plural(sums.transactions, 'transaction')} names an actor."
        if self.disagreeing:
            return f"Stamps contradict each other in {self.disagreeing} of the latest transactions."
        if sums.claimed and sums.stamped:
            verb = "is" if sums.stamped == 1 else "are"
            claimed = plural(sums.claimed, "transaction")
            return f"{claimed} claim it, {count_words(sums.stamped)} {verb} stamped."
        return "The trigger stamped it." if sums.stamped else "The application named it (claimed)."

    @property
    def ranges(self) -> list[tuple[str, str, bool]]:
        """Return the time ranges as (label, address, chosen)."""
        return [
            (name, self.wanted.actor_url(self.slot, self.actor, range=name),
             name == self.wanted.range)
            for name in RANGES
        ]  # fmt: skip

    @property
    def all_url(self) -> str:
        """Return the page's address over the whole record."""
        return self.wanted.actor_url(self.slot, self.actor, range="all")

    @property
    def list_url(self) -> str:
        """Return the address of the list of actors."""
        return self.wanted.url(self.slot)

    @property
    def transactions_url(self) -> str:
        """Return the address of the actor's transactions in this time range."""
        return _transactions_address(self.slot, self.actor, self.wanted.first_day(self.today))

    @property
    def day_urls(self) -> list[tuple[ActorDay, str]]:
        """Return the days, the newest first, each with the address of its transactions."""
        return [(day, self.day_url(day.day)) for day in reversed(self.days)]

    @property
    def bar_urls(self) -> list[tuple[Any, str]]:
        """Return the bars, each with the address of its day's transactions."""
        return [(bar, self.day_url(bar.day)) for bar in self.bars.bars] if self.bars else []

    def day_url(self, day: dt.date) -> str:
        """Return the address of the actor's transactions of one day."""
        return _transactions_address(self.slot, self.actor, day, day)


def read_actor_page(
    slot: Slot, actor: str, query: ActorsQuery, today: dt.date, recorded_since: dt.date | None
) -> ActorPage:
    """Read the page of one actor."""
    span = span_of(slot.pk, query.first_day(today))
    totals = totals_of(span, [actor]).get(actor)
    page = ActorPage(slot=slot, wanted=query, actor=actor, today=today, left_out=span.left_out)
    if totals is None:
        return page
    page.sums, page.days = totals.whole, totals.days
    page.bars = day_bars(
        totals.days, span.first_day, today, width=720, height=72, recorded_since=recorded_since
    )
    page.tables = [_table_line(page, span, table) for table in totals.tables[:_TABLES_LISTED]]
    page.more_tables = max(len(totals.tables) - _TABLES_LISTED, 0)
    names = {
        table_sum.relation_id: (table_sum.schema, table_sum.table)
        for table_sum in totals.tables
        if table_sum.table
    }
    _read_latest(page, span, names)
    return page


def _table_line(page: ActorPage, span: SummedDays, table: TableSum) -> TableLine:
    since = str(span.first_day or "")
    name, params = _table_label(table), {"actor": page.actor or _UNKNOWN_ACTOR, "since": since}
    return TableLine(
        sums=table,
        name=name,
        transactions_url=transactions_url(page.slot, **_without_empty({"tables": name, **params})),
        find_url=find_url(page.slot, **_without_empty({"table": name, **params})),
    )


def _read_latest(page: ActorPage, span: SummedDays, names: dict[int, tuple[str, str]]) -> None:
    filter_ = TransactionFilter.from_words({
        "slot": str(page.slot), "actor": page.actor or _UNKNOWN_ACTOR,
        "states": "committed,message", "since": str(span.first_day or ""),
    })  # fmt: skip
    result = find_transactions(reading_session(), filter_, limit=LATEST_TRANSACTIONS,
                               budget_seconds=0.1)  # fmt: skip
    actor = page.actor or None
    rows = [row for row in result.rows if actor in row.names]
    lines = transaction_lines([row.share_of(actor) for row in rows], result.slots, names)
    page.lines = [
        LatestLine(line, row.changes, row.others(actor))
        for line, row in zip(lines, rows, strict=True)
    ]
    page.searched_back_to = result.searched_back_to
    contexts = [row.context for row in result.rows if row.context]
    page.context = context_lines(contexts)
    page.disagreeing = sum("other_stamps" in context for context in contexts)


def context_lines(contexts: Iterable[Mapping[str, Any]]) -> list[ContextLine]:
    """Return the keys of the contexts and their most frequent values.

    Keys of a stamp are written like ``stamp.application_name``.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for context in contexts:
        for key, value in _flatten(context):
            counts[key][value] += 1
    lines = []
    for key, values in sorted(counts.items()):
        ranked = sorted(values.items(), key=lambda item: (-item[1], item[0]))
        shown = tuple(ranked[:_VALUES_SHOWN])
        lines.append(ContextLine(key, shown, len(ranked) - len(shown)))
    return lines


def _flatten(context: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for key, value in context.items():
        # Skip replview's own keys, which begin with $, and contradicting stamps, shown elsewhere.
        if key[:1] == "$" or key == "other_stamps":
            continue
        if isinstance(value, Mapping):
            for inner_key, inner_value in value.items():
                yield f"{key}.{inner_key}"[:80], _short_text(inner_value)
        else:
            yield key[:80], _short_text(value)


def _short_text(value: object) -> str:
    return shortened("null" if value is None else str(value), 120)


def _table_label(table: TableSum) -> str:
    return table_text(table.schema, table.table) if table.table else "a deleted table"


def _transactions_address(
    slot: Slot, actor: str, first: dt.date | None, last: dt.date | None = None
) -> str:
    until = f"{last + dt.timedelta(days=1)}" if last else ""
    params = {"actor": actor or _UNKNOWN_ACTOR, "since": str(first or ""), "until": until}
    return transactions_url(slot, **_without_empty(params))


def _without_empty(params: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}
