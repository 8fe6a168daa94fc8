"""Build the page of one slot that replview receives or only watches."""

from dataclasses import dataclass, replace
from shlex import quote

from django.http import Http404, QueryDict
from django.utils import timezone

from replview.catalog.peekable import PLUGINS
from replview.features.slots.budget import Budget, budget_of
from replview.features.slots.facts import OnServer, server_side
from replview.features.slots.quarantine_text import Quarantined
from replview.features.slots.retained import Retained, SlotCharts, charts_of, retained_of
from replview.health.fleet import SlotView
from replview.health.watched import OtherView
from replview.store.models import Quarantine, Slot, SlotEvent, SlotIncarnation
from replview.store.quarantine import settled_quarantines
from replview.store.slot_log import line_of, read_log
from replview.text.addresses import stream_url
from replview.text.parsing import clean_text
from replview.ui.params import Params
from replview.ui.sentence import Sentence
from replview.ui.slot_log import LogLine, choices_of, lines_of, query_of

LOG_LINES = 50
#: Most incarnations that are shown at first; earlier ones are folded.
INCARNATIONS_SHOWN = 4
_INCARNATIONS_READ = 50
_MOST_KINDS = 30

REASONS = {
    "created": "created by replview",
    "adopted": "adopted as it was found",
    "recreated": "the slot was created again",
    "temporary": "the connection was lost, and with it the temporary slot",
    "re-pointed": "the source is another cluster",
    "timeline": "the source went to another timeline",
    "advanced": "the slot was ahead of the stored history",
    "failover": "the source failed over to a promoted standby",
    "rewound": "the server's WAL ended before the stored history",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IncarnationRow:
    """An incarnation of the slot, as a row of the page."""

    incarnation: SlotIncarnation
    #: The reason that the incarnation began, in words.
    reason: str
    present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLog:
    """A page of the slot's log."""

    lines: list[LogLine]
    #: Kinds of lines that are shown; empty for all.
    kinds: list[str]
    #: Choices of the menu of kinds.
    choices: list[dict[str, object]]
    #: First line of the page; None for the newest.
    start: SlotEvent | None
    #: Query strings of this page, of the newest lines, and of older ones (empty if none).
    here: str
    newest: str
    older: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPage:
    """The page of a slot that replview receives."""

    view: SlotView
    sentence: Sentence
    on_server: OnServer
    #: The message that stops the slot; None if none does.
    quarantined: Quarantined | None
    settled: list[Quarantine]
    retained: Retained
    charts: SlotCharts
    #: None for a temporary slot.
    budget: Budget | None
    log_command: str
    #: Address of the slot's live page; empty while a decision is needed.
    live_url: str
    incarnations: list[IncarnationRow]
    #: Earlier incarnations, which are folded.
    earlier: list[IncarnationRow]
    #: The current incarnation; None before the first connection.
    present: SlotIncarnation | None
    log: SlotLog

    @property
    def slot(self) -> Slot:
        """Return the slot."""
        return self.view.slot


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedSlotPage:
    """The page of a slot that replview does not receive: no incarnations and no log."""

    view: OtherView
    on_server: OnServer
    retained: Retained
    charts: SlotCharts
    #: Command that adopts the slot; empty if it cannot be adopted.
    adopt_command: str


def slot_page(
    view: SlotView,
    query: QueryDict,
    quarantined: Quarantined | None = None,
    budget: Budget | None = None,
) -> SlotPage:
    """Build the page of a slot that replview receives; ``budget`` holds a form that was refused.

    Raises ``Http404`` if the query names a line that the slot's log does not have.
    """
    slot = view.slot
    rows = list(SlotIncarnation.objects.filter(slot=slot).order_by("-number")[:_INCARNATIONS_READ])
    incarnations = [
        IncarnationRow(
            incarnation=row,
            reason=REASONS.get(row.reason, row.reason),
            present=row.pk == slot.incarnation_id,
        )
        for row in rows
    ]
    return SlotPage(
        view=view,
        sentence=_sentence(view, quarantined),
        on_server=server_side(view.server, slot, view.reading, timezone.now()),
        quarantined=quarantined,
        settled=list(settled_quarantines(slot)),
        retained=retained_of(view),
        charts=charts_of(view.full_name, slot.source_id),
        budget=None if slot.temporary else budget or budget_of(slot),
        log_command=f"replview slot log {quote(slot.source.name)} {slot.name} --follow",
        live_url="" if quarantined and quarantined.undecided else stream_url(slot),
        incarnations=incarnations[:INCARNATIONS_SHOWN],
        earlier=incarnations[INCARNATIONS_SHOWN:],
        present=next((row for row in rows if row.pk == slot.incarnation_id), None),
        log=_slot_log(query, slot),
    )


def watched_slot_page(view: OtherView, own: Slot | None = None) -> WatchedSlotPage:
    """Build the page of a slot that replview only watches.

    ``own`` is replview's slot when it receives the same slot through another source that this
    account does not see. The page then offers no statements, since the slot is in use.
    """
    source = view.server.source
    readable = view.server.plugin in PLUGINS and not view.server.physical
    adoptable = readable and own is None and not view.lost and not view.server.gone_at
    on_server = server_side(view.server, None, view.reading, timezone.now())
    return WatchedSlotPage(
        view=view,
        on_server=on_server if own is None else replace(on_server, steps=()),
        retained=retained_of(view),
        charts=charts_of(view.full_name, source.pk),
        adopt_command=f"replview slot add {quote(source.name)} {quote(view.name)} --adopt"
        if adoptable
        else "",
    )


def _sentence(view: SlotView, quarantined: Quarantined | None) -> Sentence:
    """Return the slot's health or, while a message stops it, the decision to make or made."""
    health = view.health
    if quarantined and quarantined.undecided:
        return Sentence(
            level=view.level,
            title=health.title,
            cause="Nothing after it is received; the source retains WAL for the slot.",
            next="fix the cause and try again, or skip the transaction.",
        )
    if quarantined and view.slot.state != Slot.State.STREAMING:
        return Sentence(level=view.level, title=health.title, cause=quarantined.decided)
    return Sentence(
        level=view.level, title=health.title, cause=health.cause, next=health.next_step, ready=True
    )


def _slot_log(query: QueryDict, slot: Slot) -> SlotLog:
    kinds = list(dict.fromkeys(kind for kind in query.getlist("kind") if kind))
    kinds = [clean_text(kind, 60, strip=False) for kind in kinds[:_MOST_KINDS]]
    start = None
    if query.get("from", ""):
        start = line_of(slot, Params(query).number("from") or 0)
        if start is None:
            raise Http404("the slot's log has no such event")
    page = read_log(slot, kinds=kinds, start=start, limit=LOG_LINES)
    return SlotLog(
        lines=lines_of(page.lines, kinds),
        kinds=kinds,
        choices=choices_of(kinds),
        start=start,
        here=query_of(kinds, start.pk if start else None),
        newest=query_of(kinds),
        older=query_of(kinds, page.older.pk) if page.older else "",
    )
