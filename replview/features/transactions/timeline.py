"""Draw a transaction from left to right: by WAL position up to its end, then by time.

pgoutput sends neither a time per change nor a start time, so neither is drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.store.fields import LSN
from replview.store.read.changes.of_transaction import Spot
from replview.store.read.rows import TransactionRow
from replview.text.formats import age_words, bytes_words, short_words

#: Most changes that get a mark.
_MOST_SPOTS = 6
#: The end of the WAL part, the least distance between two marks, and the least distance of the
#: first change from the start, whose text is on its right; in percent of the width.
_WAL_END = 78.0
_LEAST = 10.0
_BEGIN = 12.0
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
    names: Mapping[int, tuple[str, str]],
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
    made = Timeline(open=open_, ended_badly=row.state in ("aborted", "rolled back"))
    made.wal_end = 100.0 if open_ else _WAL_END
    made.marks = [TimelineMark(left=0.0, word="first record", detail=row.first_lsn, anchor="start")]
    made.marks += _spot_marks(spots, names, first, end, made.wal_end)
    made.marks += _end_marks(row)
    return made


def _spot_marks(
    spots: Sequence[Spot],
    names: Mapping[int, tuple[str, str]],
    first: int,
    end: int | None,
    wal_end: float,
) -> list[TimelineMark]:
    chosen = _chosen(spots)
    if not chosen:
        return []
    # Scale to the later of the end and the last change.
    reach = max(end or 0, chosen[-1].lsn) - first
    lefts = [wal_end * (spot.lsn - first) / reach if reach > 0 else 0.0 for spot in chosen]
    return [
        TimelineMark(
            left=left,
            word=_name(spot, names),
            detail=f"+{bytes_words(max(spot.lsn - first, 0))}",
            op=spot.op,
            seq=spot.seq,
            ring=False,
        )
        for left, spot in zip(_spread(lefts, wal_end - _LEAST), chosen, strict=True)
    ]


def _chosen(spots: Sequence[Spot]) -> list[Spot]:
    """Return all changes if there is room, else the first change of each table."""
    rows = [spot for spot in spots if spot.op != "M"]
    first_of: dict[int | None, Spot] = {}
    for spot in rows:
        first_of.setdefault(spot.relation_id, spot)
    chosen = list(first_of.values())[:_MOST_SPOTS]
    if len(rows) <= _MOST_SPOTS:
        chosen = rows
    return sorted(chosen, key=lambda spot: spot.seq)


def _spread(lefts: list[float], right: float) -> list[float]:
    """Return the positions in order, far enough apart to be read, and close to the originals."""
    placed: list[float] = []
    for left in lefts:
        placed.append(max(left, (placed[-1] + _LEAST) if placed else _BEGIN))
    limit = right
    for number in range(len(placed) - 1, -1, -1):
        placed[number] = round(min(placed[number], limit), 2)
        limit = placed[number] - _LEAST
    return placed


def _name(spot: Spot, names: Mapping[int, tuple[str, str]]) -> str:
    _, name = names.get(spot.relation_id or 0, ("", "unknown"))
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def _end_marks(row: TransactionRow) -> list[TimelineMark]:
    """Return the marks of the end and of storing, or a mark that the transaction is open."""
    marks = []
    left = _WAL_END
    if row.prepared_at is not None:
        marks.append(
            TimelineMark(left=left, word="prepared", detail=f"{row.prepared_at:%H:%M:%S} UTC")
        )
        left = 89.0
    if row.state in ("receiving", "streaming", "prepared"):
        open_ = TimelineMark(
            left=100.0, word="open", detail="no end yet", anchor="end", in_wal=False
        )
        return [*marks, open_]
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
