"""Read from an archive what retention deleted from the store.

The rows are planned, counted and read like the store's own (``parquet.reading``), equal in schema
and value. Files have neither subtransactions (``subxid`` is null) nor the time of storage: a row
without a time of commit (a message outside of transactions) matches every time.
"""

import datetime as dt
import heapq
import json
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial
from itertools import chain, groupby, islice, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from decoder.scalars import lsn_text
from replview.parquet.archive import changes
from replview.parquet.pg_values import convert, pg_text
from replview.parquet.reading.connecting import StoreConnection, StoreProblem
from replview.parquet.reading.resolving import SliceRequest, resolve
from replview.parquet.reading.typed_query import is_plain
from replview.parquet.reading.untyped import WORDS, ShapeNames, names_by_oid
from replview.parquet.slice_schemas import CHANGE_FIELDS, DAY, PARTITION, UNTYPED, SliceColumn
from replview.parquet.slices import NOT_NARROWED, Slice, SliceTable
from replview.parquet.writing.chains import Chain
from replview.parquet.writing.layout import SCHEMA, range_of_name
from replview.parquet.writing.manifests import asks_the_same, deleted, manifests, path_of
from replview.parquet.writing.problems import TargetProblem, raising_problems
from replview.parquet.writing.targets import Target
from replview.store.read.days import is_deleted
from replview.text.parsing import is_chosen

#: The mark, in place of a manifest's path, of a piece that neither store nor archive has.
LOST = ""
_ROWS = 8_192
_PIECE_CHANGES = 2_000_000
_MASKED = {"$masked": True}
#: The mark as written in ``_pg_raw``.
_MASK = '{"$masked":true}'
_NEXT = """
    SELECT coalesce((SELECT min(t.commit_seq) - 1 FROM transaction t
                     WHERE t.incarnation_id = i.id AND t.commit_seq > %s), i.commit_seq)
    FROM slot_incarnation i WHERE i.id = %s
"""
_KEPT = """
    SELECT (s.value -> i.slot_id::text)::text FROM setting s, slot_incarnation i
    WHERE s.name = 'retention.slots' AND i.id = %s
"""
_HOMES = "SELECT DISTINCT home FROM archive_mark WHERE incarnation_id = %s AND home <> ''"


def resolved(connection: StoreConnection, request: SliceRequest) -> Slice:
    """Like resolve(), but extend the end over transactions that retention deleted."""
    part, through = resolve(connection, request), request.through_seq
    [(end,)] = connection.execute(_NEXT, [part.through_seq, part.incarnation_id]).fetchall()
    return replace(part, through_seq=end if through is None else min(end, through))


def pieces(
    connection: StoreConnection, part: Slice, archive: Target | None
) -> Iterator[tuple[Slice, str | None]]:
    """Yield the slice in pieces, in order, each with the place that has it.

    The place is None for the store, the path of a manifest in the archive, or ``LOST``. Deleted
    pieces that cannot have any of the requested rows are left out.
    """
    holes = deleted(connection, part)
    asked = bool(holes) and _asks_of_deleted(connection, part)
    for piece, gone in _parted(part, holes):
        if not gone:
            yield piece, None
        elif asked and archive is None:
            yield piece, LOST
        elif asked and archive is not None:
            yield from _archived(connection, piece, archive)


def _asks_of_deleted(connection: StoreConnection, part: Slice) -> bool:
    """Return whether the slice begins before the time and LSN since which everything is kept."""
    row = connection.execute(_KEPT, [part.incarnation_id]).fetchone()
    if row is None or row[0] is None:
        return True
    return all(
        is_deleted(row[0], since, lsn, part.incarnation_id)
        for since, lsn in ((part.since, None), (None, part.from_lsn))
        if (since, lsn) != (None, None)
    )


def _parted(part: Slice, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[Slice, bool]]:
    """Yield the parts of the slice between spans (False) and in them (True); none is empty."""
    at, end = part.after_seq, part.through_seq
    for span in (*spans, (end, end)):
        first, last = (min(max(edge, at), end) for edge in span)
        for after, through, within in ((at, first, False), (first, last, True)):
            if after < through:
                yield replace(part, after_seq=after, through_seq=through), within
        at = last


def _archived(
    connection: StoreConnection, part: Slice, target: Target
) -> Iterator[tuple[Slice, str | None]]:
    # A source may have been renamed since it was first archived.
    homes = [*(row[0] for row in connection.execute(_HOMES, [part.incarnation_id])), part.source]
    alike = [Slice(source=home, slot=part.slot, incarnation_id=0, incarnation=part.incarnation,
                   after_seq=0, through_seq=0) for home in homes]  # fmt: skip
    found = [(Chain.of(target, each), each) for each in alike]
    slices, everything = max(found, key=lambda one: len(one[0].whole))
    known = {a: b for a, b in sorted(slices.whole.items()) if a not in slices.begun}
    for piece, there in _parted(part, known.items()):
        if not there:
            yield piece, LOST
            continue
        after = max(each for each in known if each <= piece.after_seq)
        path = path_of(replace(everything, after_seq=after, through_seq=known[after]))
        document = _manifest(target, path)
        gaps = (gap for gap in document["gaps"] if gap["kind"] == "deleted")
        for some, gone in _parted(piece, ((g["after_seq"], g["through_seq"]) for g in gaps)):
            yield from [(some, LOST)] if gone else ((each, path) for each in _even(some, document))


def _even(part: Slice, document: Mapping[str, Any]) -> Iterator[Slice]:
    """Yield pieces of about as many changes each, estimated by the number of transactions.

    A compacted slice may have a month's changes.
    """
    seqs, places = document["commit_seq"], part.through_seq - part.after_seq
    share = places / (seqs["through"] - seqs["after"])
    number = min(places, 1 + int(document["changes"] * share / _PIECE_CHANGES))
    edges = [part.after_seq + places * n // number for n in range(number + 1)]
    for after, through in pairwise(edges):
        yield replace(part, after_seq=after, through_seq=through)


def _manifest(target: Target, path: str) -> dict[str, Any]:
    """Return the manifest of a slice, or of the slice that replaced it in a compaction."""
    document = target.read_json(path)
    if document is None:
        folder, _, name = path.removesuffix(".json").rpartition("/")
        after, through = range_of_name(name) or (0, 0)
        for each in manifests(target, folder.rpartition("/")[0]):
            first, last = range_of_name(each) or (0, 0)
            found = first <= after and through <= last and target.read_json(f"{folder}/{each}.json")
            if found and asks_the_same(found, name):
                return found
        raise TargetProblem("a slice of the archive is not there any more", "run the query again")
    return document


def refuse_narrowed(part: Slice, table: SliceTable | None) -> None:
    """Raise ``StoreProblem`` for conditions that only the store's record can answer."""
    if table is not None and table.truncations:
        raise StoreProblem(
            f"commit_seq {part.after_seq + 1} to {part.through_seq} is in the archive alone, which "
            "has no truncations among a table's rows",
            "leave the option relation out to read them as records",
        )
    filter_ = replace(part.narrowed.filter, actor="")
    if filter_.id.isdecimal():
        filter_ = replace(filter_, id="")
    asked = replace(part.narrowed, filter=filter_, searched=None)
    if asked != NOT_NARROWED or part.before != "sent" or part.numeric_scale is not None:
        raise StoreProblem(
            f"commit_seq {part.after_seq + 1} to {part.through_seq} is in the archive alone, which "
            "is not asked for a text, sizes, states, an origin, a gid, a scale of numeric or rows "
            "before updates",
            "leave these options out, or begin with what the store has",
        )


def counts(
    connection: StoreConnection, target: Target, path: str, part: Slice, table: SliceTable | None
) -> Iterator[tuple[int, int]]:
    """Yield the part's transactions with rows in a manifest's files, and how many, in order."""
    places = [
        (seq for batch in _scanned(target, file, where, [place]) for seq in batch[0].to_pylist())
        for file, _, where, place in _files(connection, target, path, part, table)
    ]
    for seq, rows in groupby(heapq.merge(*places)):
        yield seq, sum(1 for _ in rows)


def read_archived(
    connection: StoreConnection, target: Target, path: str, part: Slice, table: SliceTable | None
) -> Iterator[pa.RecordBatch]:
    """Yield the part's dated rows in a manifest's files, like ``read_typed`` or ``read_untyped``.

    Raises ``TargetProblem``.
    """
    names, typed, told = {} if table else names_by_oid(connection, part), [], []
    for file, oid, where, _ in _files(connection, target, path, part, table):
        schema, columns = target.dataset(file["path"]).schema, None
        day = changes.day_of(file)
        if table is not None:
            own = changes.file_columns(schema)
            columns = [own[c.source_name] for c in table.columns if c.source_name in own]
            columns += [each.name for each in CHANGE_FIELDS]
            typed.append(_typed(_scanned(target, file, where, columns), own, part, table, day))
            continue
        found: Iterator[changes.ArchivedChange]
        rows = chain.from_iterable(
            batch.to_pylist(maps_as_pydicts="strict")
            for batch in _scanned(target, file, where, columns)
        )
        if file["kind"] == "events":
            found = filter(partial(_is_within, part), map(changes.event_of, rows))
        else:
            shapes = changes.ArchivedShapes(target.read_json(f"{file['dataset']}/{SCHEMA}") or {})
            found = changes.changes_in(rows, schema, shapes)
        told.append(map(partial(_record, part, names, oid, day), found))
    yield from _in_order(typed)
    records = heapq.merge(*told, key=operator.itemgetter("commit_seq", "seq"))
    while some := list(islice(records, _ROWS)):
        yield pa.RecordBatch.from_pylist(some, UNTYPED)


def _files(
    connection: StoreConnection, target: Target, path: str, part: Slice, table: SliceTable | None
) -> Iterator[tuple[Mapping[str, Any], int | None, pc.Expression, str]]:
    """Yield the files that may have some of the part's rows.

    Each comes with its table's oid, the filter for its rows, and the name of its commit_seq column.
    """
    document, named = _manifest(target, path), names_by_oid(connection, part)
    oids = [table.oid] if table else [oid for oid, shapes in named.items()
                                      if is_chosen(part.tables, *shapes[max(shapes)])]  # fmt: skip
    for file in document["files"]:
        oid, events = changes.oid_of(document, file), file["kind"] == "events"
        where = _where(part, events=events)
        if file["kind"] == "transactions" or (events and table):
            continue
        if not changes.may_have(file, part.after_seq + 1, part.through_seq):
            continue
        if part.tables and events:
            where &= pc.field("relation_oid").isin(pa.array(oids, pa.int64()))
        elif part.tables and oid not in oids:
            continue
        yield file, oid, where, "commit_seq" if events else "_commit_seq"


def _where(part: Slice, *, events: bool) -> pc.Expression:
    """Return the filter for a file's rows, equal to ``reading.places.conditions`` for the store."""
    own = "" if events else "_"
    place, actor, xid = (pc.field(f"{own}{name}") for name in ("commit_seq", "actor", "xid"))
    time = pc.field("commit_time" if events else "_commit_timestamp")
    lsn, since, until = pc.field("_commit_version"), part.since, part.until
    where = (place > part.after_seq) & (place <= part.through_seq)
    for field, holds, bound in (
        (lsn, operator.ge, part.from_lsn), (lsn, operator.le, part.to_lsn),
        (time, operator.ge, since and since.astimezone(UTC)),
        (time, operator.lt, until and until.astimezone(UTC)),
    ):  # fmt: skip
        if bound is not None:
            where &= holds(field, bound) | field.is_null()
    if part.whose:
        where &= actor.is_null() if part.narrowed.no_actor else actor.isin(list(part.actors))
    if part.narrowed.filter.id:
        where &= xid == int(part.narrowed.filter.id)
    if part.operations:
        # (The first six letters of ``_change_type`` are the operation.)
        of_table = pc.utf8_slice_codeunits(pc.field("_change_type"), 0, 6)
        op = pc.field("op") if events else pc.if_else(xid.is_null(), "snapshot", of_table)
        where &= op.isin(list(part.operations))
    return where


def _scanned(
    target: Target, file: Mapping[str, Any], where: pc.Expression, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    dataset = target.dataset(file["path"])
    with raising_problems():
        found = dataset.scanner(columns=columns, filter=where, batch_size=_ROWS, use_threads=False)
        yield from (batch for batch in found.to_batches() if batch.num_rows)


def _typed(
    batches: Iterable[pa.RecordBatch], own: Mapping[str, str], part: Slice, table: SliceTable,
    day: dt.date | None,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield rows with the table's present columns; ``own``: name on the source → file's column."""
    names, masked = [c.source_name for c in table.columns], part.masked_of(table.name)
    for batch in batches:
        raws, arrays = batch["_pg_raw"].to_pylist(maps_as_pydicts="strict"), []
        for column in table.columns:
            name = column.source_name
            values = batch[own[name]] if name in own else pa.nulls(batch.num_rows, column.arrow)
            if name in masked:
                for raw, unsent in zip(raws, batch["_not_sent"].to_pylist(), strict=True):
                    if name in own and name not in (unsent or ()):
                        raw[name] = _MASK
                values = pa.nulls(batch.num_rows, column.arrow)
            elif values.type != column.arrow and not is_plain(column.arrow):
                values = _retyped(values, column, raws)
            arrays.append(values.cast(column.arrow))
        absent = batch["_not_sent"].to_pylist()
        lists = {
            "_not_sent": [[name for name in names if name in each] for each in absent],
            "_pg_raw": [[(name, raw[name]) for name in names if name in raw] for raw in raws],
        }
        arrays += [pa.array(lists[f.name], f.type) if f.name in lists else batch[f.name]
                   for f in CHANGE_FIELDS]  # fmt: skip
        arrays.append(pa.repeat(pa.scalar(day, DAY.type), batch.num_rows))
        yield pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema().append(DAY))


def _retyped(values: pa.Array, column: SliceColumn, raws: Sequence[dict[str, str]]) -> pa.Array:
    """Convert a column that has become text, with values that its former type could not hold.

    Such values are in ``raws``, from which they are removed; marks stay there.
    """
    texts = [pg_text(value, values.type) for value in values.to_pylist()]
    for place, raw in enumerate(raws if pa.types.is_string(column.arrow) else ()):
        if not raw.get(column.source_name, '{"$').startswith('{"$'):
            texts[place] = raw.pop(column.source_name)
    return convert(texts, column.arrow).array


def _is_within(part: Slice, change: changes.ArchivedChange) -> bool:
    """Return whether the change is within the LSNs; a message without a commit has its record's."""
    lsn = change.commit_lsn or changes.lsn_of(change.lsn)
    return (part.from_lsn or 0) <= lsn and (part.to_lsn is None or lsn <= part.to_lsn)


def _record(
    part: Slice, names: ShapeNames, oid: int | None, day: dt.date | None,
    change: changes.ArchivedChange,
) -> dict[str, Any]:  # fmt: skip
    oid = change.oid or oid
    named = names.get(oid or 0, {})
    schema, table = named.get(change.version or 0, (change.schema, change.table))
    masked = {column for name in named.values() for column in part.masked_of(".".join(name))}
    return {
        **{name: getattr(change, name, None) for name in UNTYPED.names},
        "incarnation": part.incarnation, "_commit_version": change.commit_lsn,
        "commit_lsn": lsn_text(change.commit_lsn),
        "op": WORDS[change.op], "schema": schema, "table": table, "relation_oid": oid,
        "old": _json(change.old, masked), "new": _json(change.new, masked), PARTITION: day,
    }  # fmt: skip


def _json(image: Mapping[str, Any] | None, masked: Collection[str]) -> str | None:
    """Return an image as PostgreSQL writes ``jsonb``: shorter names first."""
    if image is None:
        return None
    names = sorted(image, key=lambda name: (len(name.encode()), name.encode()))
    shown = {n: _MASKED if n in masked else image[n] for n in names}
    return json.dumps(shown, ensure_ascii=False)


def _in_order(sources: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge sources that are each in order."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, int, pa.RecordBatch]]:
        for batch in batches:
            places = (batch[name].to_pylist() for name in ("_commit_seq", "_seq"))
            yield from ((at, n, batch) for n, at in enumerate(zip(*places, strict=True)))

    merged = heapq.merge(*map(rows, sources), key=operator.itemgetter(0))
    for _, run in groupby(merged, key=lambda row: id(row[2])):
        [(_, first, batch), *more] = run
        yield batch.slice(first, 1 + len(more))
