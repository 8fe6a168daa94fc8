"""One change of a piece as the replay takes it: a ``RowStep`` and a ``KeyChange`` in one."""

from dataclasses import dataclass
from typing import Any, Self

from replview.store.read.rows import RowStep

#: The table and the incarnation of all changes of a piece.
TABLE = INCARNATION = 1


@dataclass(frozen=True, slots=True)
class ReplayedChange(RowStep):
    """A change whose values are the numbers of the input rows that hold them."""

    #: The number of the input row with the row after the change; for a delete, before it.
    index: int = -1
    key_before: int = -1
    key_after: int = -1

    @classmethod
    def of(
        cls,
        index: int,
        op: str,
        place: tuple[int, int],
        version: int,
        keys: tuple[int, int],
        old: dict[str, Any] | None,
        new: dict[str, Any] | None,
        *,
        is_whole: bool = False,
    ) -> Self:
        """Return a change; ``place`` is its commit LSN and seq, ``is_whole`` is about ``old``."""
        lsn, seq = place
        kind = None if old is None else "O" if is_whole else "K"
        return cls(
            lsn, seq, lsn, None, op, kind, old, new, TABLE, version, None, None, INCARNATION,
            None, None, None, "committed", lsn, None, None, None, index, *keys,
        )  # fmt: skip

    @property
    def name(self) -> int:
        """Return the input row, which identifies the change."""
        return self.index

    @property
    def transaction(self) -> tuple[int, bool]:
        """Return the commit LSN; a baseline's rows may have the one of a commit."""
        return self.lsn, self.op == "S"

    @property
    def moves(self) -> bool:
        """Return whether the row has another key after the change."""
        return self.op == "U" and self.key_before != self.key_after

    @property
    def is_read(self) -> bool:
        """Return True, since every change was read."""
        return True

    @property
    def at(self) -> tuple[int, int, int, int]:
        """Return the place in history."""
        return self.place
