"""Draw a transaction from left to right: by WAL position up to its end, then by time.

pgoutput sends neither a time per change nor a start time, so neither is drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decoder.scalars import LSN
from replview.store.read.changes.of_transaction import Spot
from replview.store.read.history import OPEN_STATES
from replview.store.read.rows import TransactionRow
from replview.text.formats import age_words, bytes_words, short_words, shortened

#: Most changes that get a mark.
_MOST_MARKED = 6
#: The end of the WAL part, the least distance between two marks, and the least distance of the
#: first change from the start, whose text is on its right; in percent of the width.
_WAL_END = 78.0
_LEAST_DISTANCE = 10.0
_LEAST_START = 12.0
_NAME_CHARACTERS = 16


@dataclass(slots=True, kw_only=True)
class TimelineMark:
    """A mark on the timeline."""

    #: Position in percent of the width.
    left: float
    word: str
    detail: str
    op: str = ""
    seq: int | None = None
    #: Alignment of the text to the mark: ``start``, ``middle`` or ``end``.
    anchor: str = "middle"
    #: True to draw a ring, False for a short stroke.
    ring: bool = True
    #: True when the mark is a WAL position, False for a time.
    in_wal: bool = True


@dataclass(slots=True, kw_only=True)
class Timeline:
    """The timeline of a transaction."""

    marks: list[TimelineMark] = field(default_factory=list)
    #: End of the solid line, in percent of the width.
    wal_end: float = 100.0
    #: True while the transaction has not ended.
    open: bool = False
    ended_badly: bool = False

    @property
    def summary(self) -> str:
        """Return the marks as text."""
        return "; ".join(f"{mark.word} {mark.detail}" for mark in self.marks)


def timeline_of(
    row: TransactionRow,
    spots: Sequence[Spot],
    table_names: Mapping[int, tuple[str, str]],
    transitions: Iterable[Any],
) -> Timeline | None:
    """Return the timeline; None for a message, a baseline, a skip, or an unknown start."""
    if row.first_lsn is None or row.state in ("message", "snapshot", "skipped"):
        return None
    first = int(LSN.parse(row.first_lsn))
    prepare = next((step.lsn for step in transitions if step.state == "prepared"), None)
    end_text = prepare or row.commit_lsn
    end = int(LSN.parse(str(end_text))) if end_text else None
    open_ = row.state in ("receiving", "streaming")
    timeline = Timeline(open=open_, ended_badly=row.state in ("aborted", "rolled back"))
    timeline.wal_end = 100.0 if open_ else _WAL_END
    timeline.marks = [
        TimelineMark(left=0.0, word="first record", detail=row.first_lsn, anchor="start")
    ]
    timeline.marks += _spot_marks(spots, table_names, first, end, timeline.wal_end)
    timeline.marks += _end_marks(row)
    return timeline


def _spot_marks(
    spots: Sequence[Spot],
    table_names: Mapping[int, tuple[str, str]],
    first: int,
    end: int | None,
    wal_end: float,
) -> list[TimelineMark]:
    marked = _marked_spots(spots)
    if not marked:
        return []
    # Scale to the later of the end and the last change.
    wal_bytes = max(end or 0, marked[-1].lsn) - first
    lefts = [wal_end * (spot.lsn - first) / wal_bytes if wal_bytes > 0 else 0.0 for spot in marked]
    return [
        TimelineMark(
            left=left,
            word=_short_table_name(spot, table_names),
            detail=f"+{bytes_words(max(spot.lsn - first, 0))}",
            op=spot.op,
            seq=spot.seq,
            ring=False,
        )
        for left, spot in zip(_spread_out(lefts, wal_end - _LEAST_DISTANCE), marked, strict=True)
    ]


def _marked_spots(spots: Sequence[Spot]) -> list[Spot]:
    """Return all changes if there is room, else the first change of each table."""
    row_changes = [spot for spot in spots if spot.op != "M"]
    first_by_relation: dict[int | None, Spot] = {}
    for spot in row_changes:
        first_by_relation.setdefault(spot.relation_id, spot)
    marked = list(first_by_relation.values())[:_MOST_MARKED]
    if len(row_changes) <= _MOST_MARKED:
        marked = row_changes
    return sorted(marked, key=lambda spot: spot.seq)


def _spread_out(lefts: list[float], right: float) -> list[float]:
    """Return the positions in order, far enough apart to be read, and close to the originals."""
    placed: list[float] = []
    for left in lefts:
        placed.append(max(left, (placed[-1] + _LEAST_DISTANCE) if placed else _LEAST_START))
    limit = right
    for number in range(len(placed) - 1, -1, -1):
        placed[number] = round(min(placed[number], limit), 2)
        limit = placed[number] - _LEAST_DISTANCE
    return placed


def _short_table_name(spot: Spot, table_names: Mapping[int, tuple[str, str]]) -> str:
    _, name = table_names.get(spot.relation_id or 0, ("", "unknown"))
    return shortened(name, _NAME_CHARACTERS)


def _end_marks(row: TransactionRow) -> list[TimelineMark]:
    """Return the marks of the end and of storing, or a mark that the transaction is open."""
    marks = []
    left = _WAL_END
    if row.prepared_at is not None:
        marks.append(
            TimelineMark(left=left, word="prepared", detail=f"{row.prepared_at:%H:%M:%S} UTC")
        )
        left = 89.0
    if row.state in OPEN_STATES:
        open_mark = TimelineMark(
            left=100.0, word="open", detail="no end yet", anchor="end", in_wal=False
        )
        return [*marks, open_mark]
    end = row.commit_time or row.ended_at
    if end is None:
        return [
            *marks,
            TimelineMark(left=100.0, word=row.state, detail="time unknown", anchor="end"),
        ]
    detail = f"{end:%H:%M:%S}.{end.microsecond // 1000:03d}"
    if row.prepared_at is not None:
        detail = f"+{age_words(end - row.prepared_at)}"
    marks.append(
        TimelineMark(left=left, word=row.state, detail=detail, in_wal=row.prepared_at is None)
    )
    if row.stored_at is not None:
        after_us = (row.stored_at - end).total_seconds() * 1e6
        # The times are from two clocks; a negative difference means that they disagree.
        detail = f"+{short_words(after_us)}" if after_us >= 0 else "clocks differ"
        marks.append(
            TimelineMark(left=100.0, word="stored", detail=detail, anchor="end", in_wal=False)
        )
    return marks
