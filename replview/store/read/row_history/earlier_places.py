"""Where the earlier changes of many rows stand.

To look for each row by itself is a look into every partition for every row. Asked for all of them
together, the index of each partition is walked through once, for the keys in their order.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from decoder.scalars import LSN
from replview.store.read.row_history.steps import STEP_COLUMNS, STEP_WIDTH, step_of
from replview.store.read.rows import QUICKLY_NOT_ABORTED, Step
from replview.store.read.session import ReadSession, array_text

#: From so many rows on it is the shorter way.
MANY = 100
#: Places read for a row, on average: where rows have more (changed thousands of times), the newest
#: few of each are found sooner one by one.
_PLACES_A_ROW = 20
_PLACES_MORE = 1000

_PLACES = """
    SELECT c.relation_id, c.key_hash, (c.lsn - '0/0')::bigint, c.seq, c.transaction_id
    FROM change c
    WHERE c.relation_id = ANY(%s::bigint[]) AND c.key_hash = ANY(%s::bigint[])
      AND c.lsn <= %s::pg_lsn
    LIMIT %s::bigint
"""
_STEPS = f"""
    SELECT w.number, {STEP_COLUMNS}
    FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[])
         AS w (number, mine, life, transaction_id, seq)
    JOIN change c ON c.transaction_id = w.transaction_id AND c.seq = w.seq
    JOIN transaction t ON t.id = w.transaction_id
    WHERE t.incarnation_id = w.life
      AND (t.state IN ('committed', 'snapshot') OR t.id = w.mine)
      AND {QUICKLY_NOT_ABORTED}
"""  # noqa: S608 (nothing but the store's own columns)

#: A row as far as the index knows it: table and key's hash.
Row = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Look:
    """Whose earlier changes are wanted: of a row, before an LSN and seq, as a transaction sees
    them.
    """

    row: Row
    until: tuple[int, int]
    transaction_id: int
    life: int


@dataclass(slots=True)
class EarlierPlaces:
    """The places of some rows' changes."""

    _session: ReadSession
    #: ``(LSN, seq, transaction)``, the oldest first.
    _known: dict[Row, list[tuple[int, int, int]]] = field(default_factory=dict)

    def steps(
        self, looks: Sequence[Look], limit: int
    ) -> list[tuple[list[Step], tuple[int, int]]] | None:
        """Of each look the newest changes that count, ``limit`` of them or all there are, and down
        to where was looked; None where the rows have too many changes for this way.
        """
        if not self._learn(looks):
            return None
        found: list[list[Step]] = [[] for _ in looks]
        ends = [bisect_left(self._known[look.row], look.until) for look in looks]
        untils = [look.until for look in looks]
        open_ = list(range(len(looks)))
        while open_:
            picked: list[tuple[int, int, int]] = []
            for number in open_:
                places, end = self._known[looks[number].row], ends[number]
                first = _first(places, end, limit - len(found[number]))
                picked += ((number, at[2], at[1]) for at in places[first:end])
                ends[number] = first
                if first < end:
                    untils[number] = places[first][:2]
            for number, step in _read_steps(self._session, looks, picked):
                found[number].append(step)
            open_ = [n for n in open_ if ends[n] and len(found[n]) < limit]
        return list(zip(found, untils, strict=True))

    def _learn(self, looks: Iterable[Look]) -> bool:
        """Know all places of these rows; False where there are too many."""
        missing = {look.row for look in looks} - self._known.keys()
        if not missing:
            return True
        most = _PLACES_A_ROW * len(missing) + _PLACES_MORE
        relation_ids, hashes = ({row[part] for row in missing} for part in (0, 1))
        last = str(LSN(max(look.until[0] for look in looks)))
        read = self._session.prepared_rows(
            _PLACES, [array_text(sorted(relation_ids)), array_text(sorted(hashes)), last, most]
        )
        if len(read) >= most:
            return False
        self._known |= {row: [] for row in missing}
        for relation_id, key_hash, *place in read:
            if (relation_id, key_hash) in missing:
                self._known[relation_id, key_hash].append(tuple(place))
        for row in missing:
            self._known[row].sort()
        return True


def _first(places: Sequence[tuple[int, int, int]], end: int, number: int) -> int:
    """Where the last ``number`` before ``end`` begin; what stands at one place (in two lives) is
    not parted.
    """
    first = max(end - number, 0)
    while first > 0 and places[first - 1][:2] == places[first][:2]:
        first -= 1
    return first


def _read_steps(
    session: ReadSession, looks: Sequence[Look], picked: Sequence[tuple[int, int, int]]
) -> Iterable[tuple[int, Step]]:
    """Those of the picked ``(number of the look, transaction, seq)`` that count."""
    if not picked:
        return
    found = session.prepared_rows(
        _STEPS,
        [
            array_text(number for number, _, _ in picked),
            array_text(looks[number].transaction_id for number, _, _ in picked),
            array_text(looks[number].life for number, _, _ in picked),
            array_text(transaction_id for _, transaction_id, _ in picked),
            array_text(seq for _, _, seq in picked),
        ],
    )
    for row in found:
        yield row[0], step_of(row[1 : STEP_WIDTH + 1], session.visibility)
