"""Views that the archive answers: they are slower than the store's, and marked so."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from replview.access.page import GET, ROWS, VIEWER, page
from replview.store.models import ArchiveMark, Relation, Slot, SlotIncarnation, Transaction
from replview.store.retention.archive import home_of
from replview.store.retention.archived import place_at
from replview.targets.archived import archived_transaction, read_row
from replview.ui.params import Params
from replview.ui.row_start import read_start


@page(GET, role=VIEWER, record=ROWS)
def transaction(request: HttpRequest) -> HttpResponse:
    """Show a transaction by incarnation and commit_seq, or by its commit's LSN and time."""
    slot = _slot(request)
    params = Params(request.GET)
    # Bookmarks of earlier releases have ``life``.
    number = params.number("incarnation") or params.number("life") or 0
    incarnation = SlotIncarnation.objects.filter(slot=slot, number=number).first()
    if incarnation is None:
        raise Http404("there is no such incarnation of the slot")
    seq = params.number("seq")
    if seq is None:
        seq = _commit_seq_of(request, slot, incarnation)
    stored = Transaction.objects.filter(incarnation=incarnation, commit_seq=seq).first()
    if stored is not None:
        return redirect("transaction", stored.pk)
    position = place_at(incarnation.pk, seq) if seq is not None else None
    if position is None:
        raise Http404("the archive has no such transaction")
    query = request.GET.copy()
    query.pop("after", None)
    return archived_transaction(request, position, f"{request.path}?{query.urlencode(safe='/:')}")


@page(GET, role=VIEWER, record=ROWS)
def row(request: HttpRequest) -> HttpResponse:
    """Show a row's changes from the archive."""
    slot = _slot(request)
    start = read_start(slot, request.GET)
    if start.table is None or start.key is None:
        raise Http404("name a table and a key")
    params = request.GET.copy()
    params.pop("from", None)
    address = f"{request.path}?{params.urlencode(safe='/:')}"
    relations = Relation.objects.filter(pk__in=start.table.relation_ids)
    oids = list(relations.values_list("oid", flat=True))
    page = read_row(slot, oids, start.key, request.GET, address)
    context = {"slot": slot, "start": start, "page": page, "store_query": params.urlencode("/:")}
    # A page that shows rows is recorded in the access record, a failure is not. Reading one
    # incarnation may succeed where another fails.
    failed = page.problem and not page.lines
    return render(request, "archive/row.html", context, status=503 if failed else 200)


def _slot(request: HttpRequest) -> Slot:
    name = request.GET.get("slot", "")
    source_name, _, slot_name = name.partition("/")
    slot = (
        Slot.objects.select_related("source")
        .filter(source__name=source_name, name=slot_name)
        .first()
    )
    if slot is None:
        raise Http404(f"there is no slot {name!r}")
    return slot


def _commit_seq_of(request: HttpRequest, slot: Slot, incarnation: SlotIncarnation) -> int | None:
    """Return the commit_seq by LSN and time, from the store if it has it, else from the archive."""
    from replview.parquet.archive.reading import ArchivedIncarnation
    from replview.parquet.writing.problems import TargetProblem

    params = Params(request.GET)
    lsn, moment = params.lsn("lsn"), params.moment("time")
    if lsn is None or (moment is None and params.text("time")):
        return None
    transactions = Transaction.objects.filter(
        incarnation=incarnation, commit_time=moment, commit_lsn=lsn
    )
    if moment is not None and (match := transactions.first()) is not None:
        return match.commit_seq
    mark = ArchiveMark.objects.filter(incarnation=incarnation, through_seq__gt=0).first()
    if mark is None:
        return None
    try:
        archived = ArchivedIncarnation.of(
            mark.target, home_of(mark, slot), slot.name, incarnation.number
        )
        return archived.seq_at(int(lsn), moment)
    except TargetProblem:
        return None
