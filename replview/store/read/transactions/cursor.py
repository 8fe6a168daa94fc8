"""A place in a list of transactions: between two rows, in every life's history at once."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Self

from decoder.scalars import LSN
from replview.store.read.history_places import first_seqs_from_lsn, last_seqs_at_time, lives_of
from replview.store.read.session import ReadSession
from replview.store.read.transactions.streams import Moment

_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_END = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
#: A date no transaction reaches, in microseconds since 1970; and the longest cursor that is read.
_END_US = 250_000_000_000_000_000
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class Cursor:
    """What is older than it: of each life the transactions before a commit_seq, and of those
    without a place the ones before a moment. What it does not name is all of it older.

    ``str`` and ``parse`` carry it in an address; what it looks like is nobody's business.
    """

    #: IncarnationPlaces → commit_seq.
    seqs: dict[int, int] = field(default_factory=dict)
    #: IncarnationPlaces → (stored_at, id), for those that ended without a place.
    ended: dict[int, Moment] = field(default_factory=dict)
    #: For those that are open.
    open: Moment | None = None

    def __str__(self) -> str:
        parts = [f"c{life}.{seq}" for life, seq in sorted(self.seqs.items())]
        parts += [f"e{life}.{_moment(at)}" for life, at in sorted(self.ended.items())]
        parts += [] if self.open is None else [f"o{_moment(self.open)}"]
        return "_".join(parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ``ValueError`` for anything that ``str`` did not write."""
        seqs: dict[int, int] = {}
        ended: dict[int, Moment] = {}
        open_: Moment | None = None
        if len(text) > _LONGEST or not text.isascii():
            raise ValueError("not a cursor")
        for part in text.split("_"):
            kind, numbers = part[:1], [int(number) for number in part[1:].split(".")]
            if min(numbers) < 0 or max(numbers) >= 1 << 63 or len(numbers) > 3:
                raise ValueError("not a cursor")
            match kind, numbers:
                case "c", [life, seq]:
                    seqs[life] = seq
                case "e", [life, us, identifier] if us < _END_US:
                    ended[life] = (_EPOCH + us * _MICROSECOND, identifier)
                case "o", [us, identifier] if us < _END_US:
                    open_ = (_EPOCH + us * _MICROSECOND, identifier)
                case _:
                    raise ValueError("not a cursor")
        return cls(seqs, ended, open_)


def cursor_at_time(session: ReadSession, moment: dt.datetime, slot: str = "") -> Cursor:
    """The list that begins with the last transaction at or before a moment."""
    found = last_seqs_at_time(session, slot, moment)
    place = (min(max(moment, _EPOCH), _END) + _MICROSECOND, 0)
    return Cursor(
        seqs={life: seq + 1 for life, seq in found.items()},
        ended=dict.fromkeys(found, place),
        open=place,
    )


def cursor_at_lsn(session: ReadSession, lsn: LSN, slot: str = "") -> Cursor:
    """The list that begins, in each life that reaches so far, with the commit an LSN falls into.

    Lives of several clusters have nothing in common: there the LSN says little.
    """
    found = first_seqs_from_lsn(session, slot, lsn)
    return Cursor(seqs={life: seq + 1 for life, seq in found.items()})


def cursor_at_beginning(session: ReadSession, slot: str = "") -> Cursor:
    """Before all there is: read backwards from here, the oldest come."""
    lives = [life.id for life in lives_of(session, slot)]
    place = (_EPOCH, 0)
    return Cursor(seqs=dict.fromkeys(lives, 1), ended=dict.fromkeys(lives, place), open=place)


def _moment(at: Moment) -> str:
    return f"{(at[0] - _EPOCH) // _MICROSECOND}.{at[1]}"
