"""Build pages from the archive: a transaction that only it has, a row's older changes.

No value is derived from the record, and nothing can be undone from these pages.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from decoder.scalars import LSN, lsn_text
from replview.access.visibility import current_visibility
from replview.access.withheld import Withheld, seen_archived, withheld
from replview.store.models import ArchiveMark, Slot, SlotIncarnation
from replview.store.read.rows import ChangeRow
from replview.store.retention.archive import home_of
from replview.store.retention.archived import ArchivedCommit
from replview.text.formats import bytes_words, plural
from replview.text.parsing import whole_number
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.changes.transaction_text import flat_context
from replview.ui.params import Params, scope_to

if TYPE_CHECKING:
    from replview.parquet.archive.changes import ArchivedChange

#: Number of changes per page.
PAGE_CHANGES = 50
_NOT_UNDONE = "it is in the archive, not in the store"


@dataclass(slots=True, kw_only=True)
class ArchivedPage:
    """The page of a transaction that only the archive has."""

    place: ArchivedCommit
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Names of all its actors.
    who: str = ""
    did: str = ""
    size: str = "withheld"
    context: list[tuple[str, str]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    #: Address of the next page of changes; empty on the last.
    later_url: str = ""
    #: The reason that there is nothing to show, and the remedy.
    problem: str = ""
    remedy: str = ""


@dataclass(slots=True, kw_only=True)
class ArchivedLine:
    """A change of a row, with its transaction."""

    block: Block
    commit_time: dt.datetime | None
    actor: str | None
    xid: int | None
    lsn: str
    incarnation: int
    url: str


@dataclass(slots=True, kw_only=True)
class ArchivedRow:
    """A page of a row's changes from the archive."""

    lines: list[ArchivedLine] = field(default_factory=list)
    older_url: str = ""
    searched_back_to: dt.date | None = None
    problem: str = ""
    remedy: str = ""


def archived_transaction(request: HttpRequest, place: ArchivedCommit, url: str) -> HttpResponse:
    """Show a transaction that only the archive has; ``url`` is the page's address."""
    page = read_transaction(place, url, Params(request.GET).number("after") or 0)
    scope_to(request, f"{place.source}/{place.slot}")
    content = {"page": page, "slot": place.incarnation.slot}
    status = 503 if page.problem else 200
    return render(request, "archive/transaction.html", content, status=status)


def read_transaction(place: ArchivedCommit, url: str, after: int = 0) -> ArchivedPage:
    """Read the transaction from the archive's files; ``url`` is the page's address."""
    from replview.parquet.archive.reading import ArchivedIncarnation
    from replview.parquet.writing.problems import TargetProblem

    page = ArchivedPage(place=place, name=f"number {place.commit_seq:,}")
    try:
        incarnation = ArchivedIncarnation.of(
            place.target, place.source, place.slot, place.incarnation.number
        )
        found = incarnation.transaction(place.commit_seq, after=after, limit=PAGE_CHANGES)
    except TargetProblem as error:
        page.problem, page.remedy = error.cause, error.remedy
        return page
    if found is None:
        page.problem = "the archive's files do not contain this transaction"
        page.remedy = (
            "check whether files are missing: the archive contained it when its day was deleted "
            "from the store"
        )
        return page
    facts = page.facts = dict(found.facts)
    page.name = facts["gid"] or ("message" if facts["xid"] is None else str(facts["xid"]))
    page.who = ", ".join(facts.get("actors") or filter(None, [facts["actor"]]))
    page.did = _did(facts)
    # Show the size only to accounts that see everything: other tables may be part of it.
    if facts["size_bytes"] is not None and current_visibility().open:
        page.size = bytes_words(facts["size_bytes"])
    if not current_visibility().hides_messages_of_incarnation(place.incarnation.pk):
        # The context comes from a logical message.
        page.context = _context(facts["context"])
    of = withheld(place.incarnation.slot)
    page.blocks = [block_of(change, place.incarnation.slot, of) for change in found.changes]
    if found.more:
        page.later_url = f"{url}{'&' if '?' in url else '?'}after={found.changes[-1].seq}"
    return page


def read_row(
    slot: Slot, oids: Sequence[int], key: Mapping[str, str | None], words: Mapping[str, object],
    address: str,
) -> ArchivedRow:  # fmt: skip
    """Read a row's changes, newest first, from one incarnation after the other."""
    from replview.parquet.archive.reading import ArchivedIncarnation
    from replview.parquet.writing.problems import TargetProblem

    page = ArchivedRow()
    number, _, cursor = str(words.get("from", "")).partition(":")
    incarnations, of = _incarnations(slot), withheld(slot)
    last = whole_number(number)
    known = [each for each in incarnations if last is None or each.number <= last]
    for place, incarnation in enumerate(known):
        mark = incarnations[incarnation]
        try:
            found = ArchivedIncarnation.of(
                mark.target, home_of(mark, slot), slot.name, incarnation.number
            ).row(oids, key, cursor=cursor if not place else None, limit=PAGE_CHANGES)
        except TargetProblem as error:
            page.problem, page.remedy = error.cause, error.remedy
            return page
        page.lines += [_line(change, slot, incarnation.number, of) for change in found.changes]
        former = [each.number for each in known[place + 1 :]]
        if found.older or (former and len(page.lines) >= PAGE_CHANGES):
            begins = f"{incarnation.number}:{found.older}" if found.older else f"{former[0]}:"
            page.older_url = f"{address}&from={begins}"
            page.searched_back_to = found.searched_back_to
            break
    return page


def _incarnations(slot: Slot) -> dict[SlotIncarnation, ArchiveMark]:
    """Return the archived incarnations with their marks, newest first."""
    marks = ArchiveMark.objects.filter(incarnation__slot=slot, through_seq__gt=0)
    found: dict[SlotIncarnation, ArchiveMark] = {}
    for mark in marks.select_related("incarnation").order_by("-incarnation__number", "-moved_at"):
        found.setdefault(mark.incarnation, mark)
    return found


def _line(change: "ArchivedChange", slot: Slot, incarnation: int, of: Withheld) -> ArchivedLine:
    # Identify an archived transaction by its commit.
    words = {"slot": str(slot), "incarnation": incarnation, "lsn": str(LSN(change.commit_lsn or 0))}
    if change.commit_time is not None:
        words["time"] = change.commit_time.astimezone(dt.UTC).isoformat()
    return ArchivedLine(
        block=block_of(change, slot, of),
        commit_time=change.commit_time,
        actor=change.actor,
        xid=change.xid,
        lsn=lsn_text(change.commit_lsn) or "",
        incarnation=incarnation,
        url=f"{reverse('archive-transaction')}?{urlencode(words, safe='/:')}",
    )


def block_of(change: "ArchivedChange", slot: Slot, of: Withheld) -> Block:
    """Return a change as pages show it, without values that are withheld."""
    row = ChangeRow(
        transaction_id=0, seq=change.seq, lsn=change.lsn, subxid=None, op=change.op,
        old_kind=change.old_kind, old=None if change.old is None else dict(change.old),
        new=None if change.new is None else dict(change.new), relation_id=None, key_hash=None,
        old_key_hash=None, schema=change.schema, table=change.table, version=change.version,
        replica_identity=change.replica_identity, columns=[dict(c) for c in change.columns],
        key_columns=list(change.key_columns),
    )  # fmt: skip
    row = seen_archived(row, slot.source_id, of, current_visibility())
    return blocks_of([row], before={}, not_undone=_NOT_UNDONE)[0]


def _did(facts: Mapping[str, Any]) -> str:
    words = (("inserts", "insert"), ("updates", "update"), ("deletes", "delete"),
             ("truncates", "truncate"), ("messages", "message"))  # fmt: skip
    counts = [plural(facts[name], word) for name, word in words if facts[name]]
    return ", ".join(counts) or "no published change"


def _context(text: str | None) -> list[tuple[str, str]]:
    found = orjson.loads(text) if text else None
    pairs = flat_context(found) if isinstance(found, dict) else ()
    return [(key, v if isinstance(v, str) else orjson.dumps(v).decode()) for key, v in pairs]
