"""Decide which row each change of a batch is of, where rows move from key to key.

Nothing here reads: the changes of the keys that a move touches come in the order of history.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

#: Columns that name a change's place, in the order of history.
PLACE = ("_commit_version", "_is_baseline", "_seq", "_is_after")


@dataclass(slots=True)
class _Row:
    number: int
    #: Digest of the whole row after its last change; None: unknown.
    digest: int | None


class RowChains:
    """The rows under each key, while changes are taken in the order of history."""

    def __init__(self) -> None:
        #: Only a deferrable constraint lets several rows have one key, within a transaction.
        self._rows: dict[Hashable, list[_Row]] = {}
        self._moving: _Row | None = None
        self._numbers = 0

    def number_of(self, change_type: str, key: Hashable, digest: int | None = None) -> int:
        """Take the next change; return the number of its row.

        ``digest`` tells rows of one key apart where the server sends whole rows.
        """
        if change_type == "update_preimage":
            self._moving = self._take(key, digest)
            return self._moving.number
        if change_type == "insert":
            row = self._new(digest)
        elif change_type == "update_postimage" and self._moving is not None:
            row, self._moving = self._moving, None
        else:
            row = self._take(key, digest if change_type == "delete" else None)
        if change_type != "delete":
            row.digest = digest
            self._rows.setdefault(key, []).append(row)
        return row.number

    def _new(self, digest: int | None) -> _Row:
        self._numbers += 1
        return _Row(self._numbers, digest)

    def _take(self, key: Hashable, digest: int | None) -> _Row:
        """Remove a row from its key; a key's first change is of a row that was there before."""
        rows = self._rows.get(key)
        if not rows:
            return self._new(digest)
        same = [row for row in rows if row.digest == digest is not None]
        row = (same or [row for row in rows if row.digest is None] or rows)[0]
        rows.remove(row)
        return row


def numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each change's place and the number of its row, as ``_chain``."""
    chains = RowChains()
    for batch in batches:
        keys = (tuple(key.values()) for key in batch.column("_key").to_pylist())
        # A row of a baseline may have been there before.
        kinds = pc.if_else(batch.column("_is_baseline"), "snapshot", batch.column("_change_type"))
        kinds, digests = kinds.to_pylist(), batch.column("_digest").to_pylist()
        numbers = [chains.number_of(*change) for change in zip(kinds, keys, digests, strict=True)]
        columns = [*(batch.column(name) for name in PLACE), pa.array(numbers, pa.int64())]
        yield pa.record_batch(columns, names=[*PLACE, "_chain"])
