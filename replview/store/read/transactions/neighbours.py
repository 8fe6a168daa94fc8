"""The transaction before and after one, in commit order, among those that touched the same table.

Through the sums of a thousand places each (``models.sums``); what is not summed up yet is read
itself, up to a bound.
"""

from dataclasses import dataclass

import orjson

from replview.store.read.session import ReadSession

#: Places read where nothing is summed up yet.
_MOST_READ = 20_000
_BLOCK = 1_000

_MARKS = f"""
    SELECT r.seq,
           (SELECT max(block) FROM relation_activity WHERE relation_id = %(relation)s
            AND incarnation_id = %(incarnation)s
            AND block < CASE WHEN %(seq)s > r.seq THEN r.seq / {_BLOCK} + 1
                             ELSE %(seq)s / {_BLOCK} END),
           (SELECT min(block) FROM relation_activity WHERE relation_id = %(relation)s
            AND incarnation_id = %(incarnation)s AND block > %(seq)s / {_BLOCK}),
           (SELECT commit_seq FROM slot_incarnation WHERE id = %(incarnation)s)
    FROM (SELECT coalesce((SELECT rolled_seq FROM activity_mark
                           WHERE incarnation_id = %(incarnation)s), 0) AS seq) r
"""  # noqa: S608 (of constants)
# A search takes its first step that finds something; those after it are not taken.
_FOUND = """(SELECT jsonb_build_array(id, xid, gid, state, commit_seq) FROM transaction
     WHERE incarnation_id = %s AND commit_seq BETWEEN %s AND %s AND relations ? %s
     ORDER BY commit_seq {order} LIMIT 1)"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    id: int
    #: Its gid, else its xid, else its place in history.
    name: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The transactions before and after; unknown where the search ended at its bound."""

    previous: Neighbour | None = None
    next: Neighbour | None = None
    previous_unknown: bool = False
    next_unknown: bool = False


def neighbours_of(
    session: ReadSession, incarnation_id: int, commit_seq: int, relation_id: int
) -> Neighbours:
    """The nearest transactions that touched the table, in the same incarnation of the slot."""
    wanted = {"incarnation": incarnation_id, "seq": commit_seq, "relation": relation_id}
    [(rolled, earlier, later, last)] = session.rows(_MARKS, wanted)
    block = commit_seq // _BLOCK
    # What is nearest, then the block that knows the table; what is not summed up is read.
    low = block * _BLOCK if commit_seq <= rolled else max(rolled + 1, commit_seq - _MOST_READ)
    before, after = [(low, commit_seq - 1)], list[tuple[int, int]]()
    cut_before = commit_seq > rolled and low > rolled + 1
    if earlier is not None and not cut_before:
        before.append(_places(earlier))
    if commit_seq < rolled:
        after.append((commit_seq + 1, block * _BLOCK + _BLOCK - 1))
        if later is not None:
            after.append(_places(later))
    tail = max(commit_seq, rolled)
    after.append((tail + 1, tail + _MOST_READ))
    sides: list[str] = []
    values: list[int | str] = []
    for ranges, order in ((before, "DESC"), (after, "ASC")):
        sides.append(f"coalesce({', '.join([_FOUND.format(order=order)] * len(ranges))})")
        for first, end in ranges:
            values += [incarnation_id, first, end, str(relation_id)]
    [(previous, following)] = session.rows(f"SELECT {', '.join(sides)}", values)
    no_next = following is None and last > tail + _MOST_READ
    no_previous = previous is None and cut_before
    return Neighbours(_neighbour(previous), _neighbour(following), no_previous, no_next)


def _places(block: int) -> tuple[int, int]:
    return block * _BLOCK, block * _BLOCK + _BLOCK - 1


def _neighbour(text: str | None) -> Neighbour | None:
    if text is None:
        return None
    identifier, xid, gid, state, commit_seq = orjson.loads(text)
    name = gid or (str(xid) if xid is not None else f"{state} {commit_seq:,}")
    return Neighbour(identifier, name)
