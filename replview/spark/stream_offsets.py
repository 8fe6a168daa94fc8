"""Offsets of a stream: how far each incarnation of the slot was read, such as ``{"1": 5043}``."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from psycopg import sql

from replview.parquet.archive.deleted import counts, pieces, resolved
from replview.parquet.reading import connect
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.places import conditions, counted, wanted_operations
from replview.parquet.slices import Slice, SliceTable
from replview.spark.options import Options, planned

Offset = dict[str, int]

#: Number of commit_seq that are counted at once, at first and at most.
_WINDOW, _WIDEST = 1_000, 100_000
_INCARNATIONS = """
    SELECT i.number, i.commit_seq
    FROM slot_incarnation i JOIN slot_incarnation mine ON mine.slot_id = i.slot_id
    WHERE mine.id = %s ORDER BY i.number
"""
_COUNTS = "SELECT t.commit_seq, {changes} FROM transaction t WHERE {where} ORDER BY t.commit_seq"
_TOTAL = "SELECT coalesce(sum(changes), 0)::bigint FROM ({counts}) AS counted (commit_seq, changes)"


def stored_offset(connection: StoreConnection, options: Options) -> Offset:
    """Return how far each incarnation, or the chosen one, is stored, but no further than upTo."""
    part = resolved(connection, options.request)
    only, most = options.request.incarnation, options.up_to
    rows = connection.execute(_INCARNATIONS, [part.incarnation_id]).fetchall()
    stored = {str(number): int(seq) for number, seq in rows if only in (None, number)}
    if most is None:
        return stored
    return {number: min(seq, most.get(number, 0)) for number, seq in stored.items()}


def end_of_batch(options: Options, start: Offset, most: int | None = None) -> Offset:
    """Return the offset at most ``most`` changes after ``start``, but at least one transaction.

    ``most`` None: everything that is stored. The start itself is returned when nothing follows.
    """
    with connect(options.dsn) as connection:
        # Keep incarnations that were removed meanwhile.
        end = dict(start)
        for incarnation, seq in stored_offset(connection, options).items():
            if seq := max(start.get(incarnation, 0), seq):
                end[incarnation] = seq
        return end if most is None else _limited(connection, options, start, end, most)


def changes_between(options: Options, start: Offset, end: Offset) -> int:
    """Return the number of changes between two offsets that the store and the archive have."""
    total = 0
    with connect(options.dsn) as connection:
        for incarnation, after, through in steps(start, end):
            part = slice_between(connection, options, incarnation, after, through)
            table = options.table(connection, part)
            for piece, manifest in pieces(connection, part, options.archive):
                if manifest and options.archive:
                    found = counts(connection, options.archive, manifest, piece, table)
                    total += sum(changes for _, changes in found)
                elif manifest is None:
                    query = sql.SQL(_TOTAL).format(counts=_stored_counts(options, table, piece))
                    total += sum(changes for (changes,) in connection.execute(query))
    return total


def steps(start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Return incarnation, start and end of each part, older incarnations first."""
    return [
        (int(incarnation), start.get(incarnation, 0), end[incarnation])
        for incarnation in sorted(end, key=int)
        if end[incarnation] > start.get(incarnation, 0)
    ]


def slice_between(
    connection: StoreConnection, options: Options, incarnation: int, after: int, through: int
) -> Slice:
    """Return the slice of an incarnation between two places."""
    request = replace(
        options.request, incarnation=incarnation, after_seq=after, through_seq=through
    )
    return options.shown(connection, resolved(connection, request))


def _limited(
    connection: StoreConnection, options: Options, start: Offset, end: Offset, most: int
) -> Offset:
    """Return the offset after at most ``most`` changes, but at least one transaction.

    Windows of doubling size are counted in turn, so the cost depends on what is taken, not on the
    backlog.
    """
    reached, taken, width = dict(start), 0, _WINDOW
    for incarnation, after, through in steps(start, end):
        whole = slice_between(connection, options, incarnation, after, through)
        table = options.table(connection, whole)
        while after < through:
            part = replace(whole, after_seq=after, through_seq=min(after + width, through))
            for seq, changes in _counts(connection, options, table, whole, part):
                if taken and taken + changes > most:
                    return reached
                taken += changes
                reached[str(incarnation)] = seq
            reached[str(incarnation)] = after = part.through_seq
            width = min(2 * width, _WIDEST)
    return reached


def _counts(
    connection: StoreConnection, options: Options, table: SliceTable | None,
    whole: Slice, part: Slice,
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """Yield each transaction of a part of the backlog with its number of changes."""
    for piece, manifest in pieces(connection, part, options.archive):
        if manifest and options.archive:
            yield from counts(connection, options.archive, manifest, piece, table)
        elif manifest is None:
            yield from connection.execute(_stored_counts(options, table, piece))
        elif options.fail_on_data_loss:
            # Planning raises the problem, with everything that is lost.
            planned(connection, whole, table, options)


def _stored_counts(options: Options, table: SliceTable | None, piece: Slice) -> sql.Composed:
    """Return the query for the stored transactions of a piece and their numbers of changes."""
    relation = None if table is None else table.relation_id
    operations = wanted_operations(piece, rows=table is not None, truncations=options.truncations)
    return sql.SQL(_COUNTS).format(
        changes=counted(operations, relation, whose=piece.whose),
        where=conditions(piece, None, None if relation is None else [relation]),
    )
