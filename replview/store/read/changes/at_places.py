"""Changes at places that are known already: a row's, found by its key."""

from collections.abc import Iterator, Sequence

from replview.store.read.changes.batches import CHANGE_COLUMNS, Shapes
from replview.store.read.changes.scan import Found
from replview.store.read.history import transactions_by_id
from replview.store.read.session import ReadSession

_AT_ONCE = 500

_AT = f"""
    SELECT {CHANGE_COLUMNS}
    FROM unnest(%s::bigint[], %s::int[]) AS w (transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq
"""  # noqa: S608 (our own columns)


def found_at(session: ReadSession, places: Sequence[tuple[int, int]]) -> Iterator[Found]:
    """The changes of these (transaction, seq), in this order; what is gone is left out."""
    shapes = Shapes(session)
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        ids, seqs = zip(*part, strict=True)
        read = session.rows(_AT, [list(ids), list(seqs)])
        shapes.learn({row[11] for row in read if row[11] is not None})
        changes = {(row[0], row[1]): shapes.row(row) for row in read}
        rows = {row.id: row for row in transactions_by_id(session, set(ids))}
        for place in part:
            if place in changes and place[0] in rows:
                yield rows[place[0]], changes[place]
