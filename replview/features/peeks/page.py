"""Build the pages of peeks: the slots of a server, the form, the progress and the result."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst

from replview.catalog.connections import reading
from replview.catalog.peekable import PeekableServer, read_place
from replview.catalog.problems import SourceProblem
from replview.catalog.slots import SlotFacts
from replview.features.peeks.form import PeekForm
from replview.features.peeks.text import (
    ChangeGroup,
    PeekResult,
    counts_words,
    groups_of,
    seen_sizes,
)
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, SlotPeek, Source
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged
from replview.text.formats import plural
from replview.ui.sentence import Sentence

DEADLINE_SECONDS = 4.0
EARLIER = 10
#: Seconds after which no worker seems to run: a free one claims a peek within two seconds.
UNCLAIMED_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSlotRow:
    """A slot of the server, as a row of the list."""

    slot: SlotFacts
    #: True when replview reads the slot.
    ours: bool
    #: The reason that the slot cannot be peeked; empty if it can.
    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSlotsPage:
    """The page of all slots of a source's server, largest retained WAL first."""

    source: Source
    sentence: Sentence
    #: None if the server could not be read; ``trouble`` has the reason.
    place: PeekableServer | None
    trouble: SourceProblem | None
    rows: tuple[ServerSlotRow, ...]
    looked_at: datetime
    #: The latest peeks into slots of this source.
    earlier: tuple[SlotPeek, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekFormPage:
    """The page with the cost of a peek into one slot, and the form that requests it."""

    source: Source
    slot_name: str
    sentence: Sentence
    #: None if the server could not be read; ``trouble`` has the reason.
    place: PeekableServer | None
    trouble: SourceProblem | None
    #: None if the server has no such slot.
    slot: SlotFacts | None = None
    #: The reason that the slot cannot be peeked; empty if it can.
    refusal: str = ""
    #: None if the server could not be read or has no such slot.
    form: PeekForm | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekProgressPage:
    """The page of a peek that waits for a worker, or runs."""

    peek: SlotPeek
    sentence: Sentence
    #: Seconds since the peek began or, while it waits, since it was requested.
    seconds: float
    #: The share of its time limit that has passed, in thousandths.
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekFailedPage:
    """The page of a peek that failed, with the reason."""

    peek: SlotPeek
    sentence: Sentence
    #: The address of the form with the same bounds.
    again: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekResultPage:
    """The page with the result of a peek that ended."""

    peek: SlotPeek
    sentence: Sentence
    #: The address of the form with the same bounds.
    again: str
    found: PeekResult
    #: Each table with the letter and the count of each operation that occurred.
    tables: tuple[tuple[dict[str, Any], list[tuple[str, int]]], ...]
    groups: tuple[ChangeGroup, ...]
    #: A sentence about the bound that ended the peek; empty if it read everything.
    bound: str


def server_slots_page(source: Source) -> ServerSlotsPage:
    """Read all slots of the source's server, whether replview reads them or not."""
    server, trouble = _read_server(source)
    own_names = set(Slot.objects.filter(source=source).values_list("name", flat=True))
    rows = tuple(
        ServerSlotRow(
            slot=slot,
            ours=slot.slot_name in own_names and slot.database == server.database,
            refusal=server.refusal(slot),
        )
        for slot in sorted(
            server.slots, key=lambda slot: (-(slot.retained_wal_bytes or -1), slot.slot_name)
        )
    ) if server else ()  # fmt: skip
    return ServerSlotsPage(
        source=source,
        sentence=_server_sentence(source, trouble, rows),
        place=server,
        trouble=trouble,
        rows=rows,
        looked_at=timezone.now(),
        earlier=tuple(SlotPeek.objects.filter(source=source).order_by("-id")[:EARLIER]),
    )


def peek_form_page(source: Source, slot_name: str) -> PeekFormPage:
    """Read what a peek into the slot would cost, with the form's initial choices."""
    server, trouble = _read_server(source)
    slot = server.slot(slot_name) if server else None
    refusal = server.refusal(slot) if server and slot else ""
    form = None
    if server is not None and slot is not None:
        own_slot = Slot.objects.filter(source=source, name=slot_name).first()
        form = PeekForm(server, slot, list(own_slot.publications) if own_slot else [])
    return PeekFormPage(
        source=source,
        slot_name=slot_name,
        sentence=_form_sentence(slot_name, slot, trouble, refusal),
        place=server,
        trouble=trouble,
        slot=slot,
        refusal=refusal,
        form=form,
    )


def progress_page(peek: SlotPeek) -> PeekProgressPage:
    """Build the page of a peek that has not ended."""
    since = peek.started_at or peek.requested_at
    seconds = max((timezone.now() - since).total_seconds(), 0)
    share = min(seconds / peek.max_seconds, 1) if peek.started_at and peek.max_seconds else 0
    return PeekProgressPage(
        peek=peek,
        sentence=_progress_sentence(peek, seconds),
        seconds=seconds,
        width=round(share * 1000),
    )


def failed_page(peek: SlotPeek) -> PeekFailedPage:
    """Build the page of a peek that failed."""
    sentence = Sentence(
        level="look",
        title=f"The peek into {peek.slot_name} failed.",
        cause=f"{capfirst(peek.problem_cause)}.",
    )
    return PeekFailedPage(peek=peek, sentence=sentence, again=_form_url(peek))


def result_page(peek: SlotPeek) -> PeekResultPage:
    """Build the page of a peek's result, without values that the account may not see."""
    result = PeekResult(seen_sizes(peek.result or {}))
    bound = result.not_looked_at(peek.max_changes, peek.max_seconds)
    return PeekResultPage(
        peek=peek,
        sentence=Sentence(
            level="look" if bound else "idle",
            title=result.title,
            cause=result.cause,
            next="raise the limits to see all." if bound else "",
        ),
        again=_form_url(peek),
        found=result,
        tables=tuple((table, counts_words(table)) for table in result.tables),
        groups=tuple(groups_of(result.result.get("first_changes") or [], peek.source_id)),
        bound=bound,
    )


def _server_sentence(
    source: Source, trouble: SourceProblem | None, rows: Iterable[ServerSlotRow]
) -> Sentence:
    refusals = [row.refusal for row in rows]
    if trouble is not None:
        title, cause = f"Cannot read the slots of {source.name}.", f"{capfirst(trouble.cause)}."
        return Sentence(level="look", title=title, cause=cause)
    if not refusals:
        return Sentence(
            level="idle",
            title="No slot on this server.",
            cause="No slot retains its WAL.",
            next="add one, or read again.",
        )
    peekable = refusals.count("")
    peekable_words = f"{peekable} can be peeked" if peekable else "none can be peeked"
    return Sentence(
        level="idle",
        title=f"{plural(len(refusals), 'slot')} on this server, {peekable_words}.",
        cause="A peek decodes the waiting changes and does not advance the slot.",
        next="choose an idle one." if peekable else "",
    )


def _form_sentence(
    slot_name: str, slot: SlotFacts | None, trouble: SourceProblem | None, refusal: str
) -> Sentence:
    if trouble is not None or refusal:
        return Sentence(
            level="look" if trouble is not None else "idle",
            title=f"Cannot peek into {slot_name}.",
            cause=f"{capfirst(refusal if trouble is None else trouble.cause)}.",
        )
    if slot is None:
        title = f"No slot {slot_name} on this server."
        return Sentence(level="idle", title=title, cause="It was dropped, or never created.")
    return Sentence(
        level="idle",
        title=f"Show the changes waiting in {slot_name}.",
        cause="Nothing is confirmed; the slot is not advanced.",
        next="check the cost, set the limits.",
    )


def _progress_sentence(peek: SlotPeek, seconds: float) -> Sentence:
    if peek.state == SlotPeek.State.RUNNING:
        return Sentence(
            level="unknown",
            title=f"Peeking into {peek.slot_name}.",
            cause="The slot is not advanced; the result appears here.",
        )
    if peek.state == SlotPeek.State.WAITING and seconds > UNCLAIMED_SECONDS:
        return Sentence(
            level="look",
            title=f"No worker has started the peek into {peek.slot_name}.",
            cause="None is running, or all are busy.",
            next="check that replview up runs.",
        )
    return Sentence(
        level="unknown",
        title=f"A worker is about to peek into {peek.slot_name}.",
        cause="It starts within seconds.",
    )


def _form_url(peek: SlotPeek) -> str:
    """Return the address of the form with the bounds of this peek."""
    address = reverse("peek-ask", args=[peek.source.name, peek.slot_name])
    bounds = {"changes": peek.max_changes, "seconds": f"{peek.max_seconds:g}"}
    return f"{address}?{urlencode(bounds)}"


def _read_server(source: Source) -> tuple[PeekableServer | None, SourceProblem | None]:
    """Return the server's slots, or the problem that prevented reading them."""
    try:
        with reading(full_conninfo(source), deadline_seconds=DEADLINE_SECONDS) as connection:
            return read_place(connection), None
    except SourceProblem as error:
        return None, error
    except (DSNError, SecretKeyChanged) as error:
        return None, SourceProblem("bad_dsn", str(error), "Fix that, or change its credentials")
