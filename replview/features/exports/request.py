"""A request for an export: the parameters of a filter become a slice with fixed ends.

A slice contains transactions of one incarnation of a slot, restricted by all that a filter can ask
of transactions. An export cannot be restricted to single rows (by a condition on values or a key):
such a parameter is refused, or named as left out, but never ignored silently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replview.access.visibility import current_visibility, reading_session
from replview.access.withheld import is_erased_text
from replview.jobs import exports
from replview.jobs.exports import AlreadyRunning
from replview.parquet.reading import SliceRequest, StoreProblem, connect, resolve
from replview.parquet.reading.masks import with_rules
from replview.parquet.reading.resolving import ended_at_a_place
from replview.parquet.slices import STATES, BeforeOrigin, Narrowing, Slice
from replview.parquet.writing.manifests import gaps_of
from replview.spark.sessions import SparkProblem, refuse_token
from replview.store.connecting import store_conninfo
from replview.store.models import Export, Relation, Slot, SlotEvent, SlotIncarnation, Transaction
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.relation_shapes import shapes_named
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.read.visibility import NO_RIGHT, Visibility
from replview.store.write.access_record import note
from replview.targets.policy import Refused, read_policy, target_of
from replview.text.parsing import table_word

_NEW_NAME_REMEDY = "Export into another folder under another name, or without since-last"
_GAPS_SHOWN = 3
#: Parameters that set the beginning of a slice.
BEGINNINGS = ("since", "from_lsn", "transaction")
#: Parameters that cannot restrict an export: its files are counted and cut by the counters of
#: whole transactions.
_ROW_CONDITIONS = {"where": "a condition on values", "key": "a row"}


def _refuse_states(filter_: TransactionFilter) -> None:
    """Raise ``Refused`` for states that no exported transaction can have."""
    refused = sorted(filter_.wanted_states - {*STATES}) if filter_.states else ()
    if refused:
        raise Refused(
            f"no export is of transactions in the state {' or '.join(refused)}: it holds what has "
            "a place in history, and rows",
            f"Choose among the states {', '.join(STATES)}",
        )


def permitted(slot: Slot, table_names: Sequence[str]) -> tuple[list[str], bool]:
    """Return the tables to export (none: all), and whether hidden tables were left out.

    Raises ``Refused`` where a requested table, or every table, is hidden.
    """
    visibility = current_visibility()
    if not visibility.restricted:
        return list(table_names), False
    visible, hidden = _visible_and_hidden(slot, visibility)
    if hidden_name := next((name for name in table_names if name in hidden), None):
        remedy = "Ask an admin for the right, or leave it out"
        raise Refused(f"you have {NO_RIGHT} of {hidden_name}", remedy)
    # An export of all tables includes messages; one of named tables does not.
    if table_names or not (hidden or visibility.hides_messages(slot.source_id)):
        return list(table_names), False
    if not visible:
        raise Refused(f"you have {NO_RIGHT} of any table of {slot}", "Ask an admin for the right")
    return visible, True


def searchable(slot: Slot) -> tuple[tuple[str, ...] | None, bool]:
    """Return the tables in whose values a text may be searched (None: all).

    The second value says whether it may be searched in messages.
    """
    visibility = current_visibility()
    if not visibility.restricted:
        return None, True
    visible, hidden = _visible_and_hidden(slot, visibility)
    return tuple(visible) if hidden else None, not visibility.hides_messages(slot.source_id)


def _visible_and_hidden(slot: Slot, visibility: Visibility) -> tuple[list[str], set[str]]:
    """Return the visible and the hidden table names; a name is hidden if any table of it is."""
    relations = list(Relation.objects.filter(slot=slot).order_by("pk"))
    visibility.learn([relation.pk for relation in relations])
    names = {relation.pk: table_word(relation.schema, relation.table) for relation in relations}
    hidden = {name for pk, name in names.items() if visibility.hides(pk)}
    return list(dict.fromkeys(name for name in names.values() if name not in hidden)), hidden


def same_masks(last: Export, slice_: Slice) -> None:
    """Raise ``Refused`` if other columns are masked now than in the export to be continued.

    Otherwise the files of one dataset would differ.
    """
    masked = last.slice.get("masked") or {}
    for table in (last.result or {}).get("tables") or []:
        name = f"{table['schema']}.{table['table']}"
        before, now = {*masked.get(name, ())}, {*slice_.masked_of(name)}
        added, removed = ", ".join(sorted(now - before)), ", ".join(sorted(before - now))
        if before != now:
            difference = f"{added} is masked now" if added else f"{removed} is not any more"
            raise Refused(f"the masks of {name} are others than in export {last.pk}: {difference}",
                          _NEW_NAME_REMEDY)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """A slice to export, with the parameters it was made from."""

    slot: Slot
    slice: Slice
    #: The parameters that took effect, in the form of an address.
    words: dict[str, str]
    #: Descriptions of filter conditions that do not restrict the export.
    left_out: tuple[str, ...] = ()
    name: str = ""
    #: The export that this one continues.
    last: Export | None = None
    #: Sentences about gaps in the record between the end of ``last`` and that of this slice.
    gaps: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Return whether the slice has no transactions."""
        return self.slice.through_seq <= self.slice.after_seq


def read_export_request(
    slot: Slot,
    params: Mapping[str, object],
    *,
    name: str = "",
    since_last: bool = False,
    before: BeforeOrigin | None = None,
    numeric_scale: int | None = None,
    strict: bool = True,
) -> ExportRequest:
    """Return the slice that the parameters mean now. Raises ``Refused``.

    Without ``strict``, parameters that cannot restrict an export are left out and named.
    ``before`` and ``numeric_scale`` are by default those of the export that is continued.
    """
    last = exports.last_done(slot, name) if since_last and name else None
    last_slice = None if last is None else _slice_of(last)
    if last_slice is not None:
        # A continued export begins where the last one ended, whatever beginning is given.
        params = {param: value for param, value in params.items() if param not in BEGINNINGS}
        before = before or last_slice.before
        numeric_scale = last_slice.numeric_scale if numeric_scale is None else numeric_scale
    changes = WantedChanges.from_words(slot, params)
    left_out = tuple(_ROW_CONDITIONS[key] for key in _ROW_CONDITIONS if _is_given(params, key))
    _refuse_unexportable(slot, changes, left_out if strict else ())
    tables, hides_tables = permitted(slot, _table_names(slot, changes.filter.tables))
    if hides_tables:
        left_out = (*left_out, "tables you have no right to see")
    filter_ = replace(changes.filter, tables=tuple(tables))
    request = SliceRequest(source=slot.source.name, slot=slot.name, filter=filter_,
                           before=before or "sent", numeric_scale=numeric_scale)  # fmt: skip
    request = _with_ends(request, slot, changes.transaction_id, last_slice)
    slice_ = _resolve_slice(slot, request, named=bool(name))
    used = {key: text for key, text in changes.words().items() if key not in _ROW_CONDITIONS}
    if last is not None:
        same_masks(last, slice_)
    return ExportRequest(
        slot=slot, slice=slice_, words=used, left_out=left_out, name=name, last=last,
        gaps=() if last_slice is None else _gaps(slot, last_slice, slice_),
    )  # fmt: skip


def _refuse_unexportable(slot: Slot, changes: WantedChanges, left_out: Sequence[str]) -> None:
    """Raise ``Refused`` for parameters that no export can satisfy."""
    if changes.trouble:
        raise Refused(changes.trouble, "See replview changes --help for the filters")
    if left_out:
        raise Refused(
            f"an export cannot be narrowed by {', '.join(left_out)}: it holds all that its "
            "transactions did to a table",
            "Leave it out, or write these changes with replview changes or a download",
        )
    if is_erased_text(changes.filter.text):
        raise Refused(
            "the text that narrowed such an export was erased with the rows it named",
            "Export under another name, with another text or without one",
        )
    if slot.incarnation is None:
        raise Refused(f"{slot} has no recorded transaction yet", "Wait for its first transaction")


def _resolve_slice(slot: Slot, request: SliceRequest, *, named: bool) -> Slice:
    """Return the slice of a request, with fixed ends and the mask rules in force.

    The slice of a named export ends at a place, because the export may be continued. Raises
    ``Refused``.
    """
    _refuse_states(request.filter)
    searched, in_messages = searchable(slot)
    narrowing = Narrowing.of(request.filter, searched=searched, in_messages=in_messages)
    try:
        with connect(store_conninfo()) as connection:
            slice_ = resolve(connection, request)
            slice_ = ended_at_a_place(connection, slice_) if named else slice_
            return replace(with_rules(connection, slice_), narrowed=narrowing)
    except StoreProblem as problem:
        raise Refused(problem.cause, problem.remedy) from None


def ask(
    export_request: ExportRequest,
    target: str,
    *,
    by: str,
    how: Export.How,
    anywhere: bool,
    base: Path | None = None,
    spark: str = "",
) -> Export:
    """Record the export, for a worker or the calling command to run. Raises ``Refused``."""
    policy = read_policy()
    policy.check()
    resolved_target = target_of(target, policy, anywhere=anywhere, base=base)
    try:
        refuse_token(spark)
    except SparkProblem as problem:
        raise Refused(problem.cause, problem.remedy) from None
    if export_request.empty:
        raise Refused(*nothing_words(export_request))
    export = Export(
        slot=export_request.slot, slice=export_request.slice.to_json(), words=export_request.words,
        target=resolved_target, requested_by=by, requested_how=how, name=export_request.name,
        anywhere=anywhere, spark=spark,
    )  # fmt: skip
    try:
        row = exports.request(export)
    except AlreadyRunning as error:
        raise Refused(str(error), f"Wait for export {error.export.pk}, or cancel it") from None
    note("exported", subject=f"export {row.pk}", source_id=export_request.slot.source_id,
         tables=export_request.slice.tables,
         details={"target": resolved_target, "how": str(how)})  # fmt: skip
    return row


def nothing_words(export_request: ExportRequest) -> tuple[str, str]:
    """Return why there is nothing to write, and the remedy."""
    if export_request.last is not None:
        return f"there is nothing new since export {export_request.last.pk}", "Export again later"
    return "no transaction matches", "Widen the time or LSN range"


def over_a_gap(export_request: ExportRequest) -> str:
    """Return a sentence about the gaps since the last export."""
    gaps, last = export_request.gaps, export_request.last
    remainder = f"; and {len(gaps) - _GAPS_SHOWN} more" if len(gaps) > _GAPS_SHOWN else ""
    since = f"since export {last.pk}" if last is not None else "there"
    return f"history has a gap {since}: {'; '.join(gaps[:_GAPS_SHOWN])}{remainder}"


def _slice_of(export: Export) -> Slice:
    """Return the slice of an export, ended at a place: earlier versions stored the record's end."""
    with connect(store_conninfo()) as connection:
        return ended_at_a_place(connection, Slice.from_json(export.slice))


def _with_ends(
    request: SliceRequest, slot: Slot, transaction_id: int | None, last_slice: Slice | None
) -> SliceRequest:
    """Return the request, limited to one transaction or to what came after the last slice."""
    if transaction_id is not None:
        transaction = Transaction.objects.filter(pk=transaction_id, incarnation__slot=slot).first()
        if transaction is None or transaction.commit_seq is None:
            cause = f"there is no committed transaction {transaction_id} in {slot}"
            raise Refused(cause, "Choose one that has committed")
        after, through = transaction.commit_seq - 1, transaction.commit_seq
        number = transaction.incarnation.number
        return replace(request, incarnation=number, after_seq=after, through_seq=through)
    for incarnation, after_seq in (
        [] if last_slice is None else _incarnations_since(slot, last_slice)
    ):
        # Finish an earlier incarnation first: a slice cannot span two incarnations.
        if _has_more(incarnation, after_seq) or incarnation.pk == slot.incarnation_id:
            return replace(request, incarnation=incarnation.number, after_seq=after_seq)
    return request


def _incarnations_since(slot: Slot, last_slice: Slice) -> list[tuple[SlotIncarnation, int]]:
    """Return the incarnations since a slice, each with the last place that the slice covers."""
    incarnations = SlotIncarnation.objects.filter(slot=slot, number__gte=last_slice.incarnation)
    return [
        (incarnation, last_slice.through_seq if incarnation.number == last_slice.incarnation else 0)
        for incarnation in incarnations.order_by("number")
    ]


def _has_more(incarnation: SlotIncarnation, after_seq: int) -> bool:
    return Transaction.objects.filter(incarnation=incarnation, commit_seq__gt=after_seq).exists()


def _gaps(slot: Slot, last_slice: Slice, slice_: Slice) -> tuple[str, ...]:
    """Return sentences about what is missing between a slice and the end of its continuation."""
    sentences: list[str] = []
    for incarnation, after_seq in _incarnations_since(slot, last_slice):
        if incarnation.number > slice_.incarnation:
            break
        through_seq = slice_.through_seq
        if incarnation.pk != slice_.incarnation_id or not _has_more(incarnation, after_seq):
            # Everything since then was deleted from this incarnation.
            through_seq = incarnation.commit_seq
        slice_between = replace(
            slice_, incarnation_id=incarnation.pk, after_seq=after_seq, through_seq=through_seq
        )
        if incarnation.number > last_slice.incarnation:
            events = SlotEvent.objects.filter(incarnation=incarnation, kind="gap").order_by("pk")
            sentences += [text.rstrip(".") for text in events.values_list("message", flat=True)]
        with connect(store_conninfo()) as connection:
            sentences += map(_gap_text, gaps_of(connection, slice_between))
    return tuple(sentences)


def _gap_text(gap: Mapping[str, Any]) -> str:
    if gap["kind"] == "skipped":
        return f"the transaction at {gap['commit_lsn'] or 'an unknown LSN'} was left out"
    if gap["kind"] == "unpublished":
        return str(gap["why"])
    first, last = gap["after_seq"] + 1, gap["through_seq"]
    return f"commit_seq {first} to {last} were deleted from the store"


def _table_names(slot: Slot, names: tuple[str, ...]) -> list[str]:
    """Return the latest names of the tables that have or had these names. Raises ``Refused``."""
    tables: list[str] = []
    for name in names:
        relation_ids = {
            shape.relation_id for shape in shapes_named(reading_session(), slot, (name,))
        }
        if not relation_ids:
            raise Refused(f"no change of a table {name} is recorded", "See the relations page")
        relations = Relation.objects.filter(pk__in=relation_ids).order_by("pk")
        tables += (table_word(relation.schema, relation.table) for relation in relations)
    return list(dict.fromkeys(tables))


def _is_given(params: Mapping[str, object], name: str) -> bool:
    if name == "key":
        return any(params[param] for param in params if param == "key" or param.startswith("key."))
    return bool(params.get(name))
