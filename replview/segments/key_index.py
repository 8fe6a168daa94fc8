"""Find the row groups that hold changes of one row, among all segments of some time.

An entry is the hash of a row (its table and key) and the place of a row group with one of its
changes, once for each row and row group. The entries of a day, or of several days merged, are
divided by the first bits of the hash into parts, so that a lookup reads one part. Only 40 bits of
a hash are compared: among a hundred million entries, one lookup in ten thousand finds a row group
too many, never one too few.
"""

import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: Number of parts: by the first eight bits of a hash.
PARTS = 256
_PART_SHIFT = 56
#: Bits at the end of a hash that are not compared.
_CUT_BITS = 24
#: Bits of a place that number its row group.
_GROUP_BITS = 16
#: Mixes a table into a hash, so that equal keys of two tables differ (2^64 over the golden ratio).
_TABLE_FACTOR = 0x9E3779B97F4A7C15
#: Number of places, and of entries.
_HEAD = struct.Struct("<II")
#: The stored forms of a place, of the compared bits of a hash, and of the index of a place.
_PLACE, _COMPARED, _INDEX = np.dtype("<i8"), np.dtype("<u4"), np.dtype("<u2")

RowHashes = npt.NDArray[np.uint64]


class GroupPlace(NamedTuple):
    """The place of a row group."""

    segment_id: int
    group: int


@dataclass(frozen=True, slots=True, eq=False)
class KeyIndexPart:
    """The entries of one part, ordered by hash."""

    #: Places of row groups as numbers, ascending.
    places: npt.NDArray[np.int64]
    #: The compared bits of each entry's hash.
    hashes: npt.NDArray[np.uint32]
    #: For each entry, the index of its place.
    place_indexes: npt.NDArray[np.uint16]

    @classmethod
    def of(cls, hashes: npt.NDArray[np.uint32], places: npt.NDArray[np.int64]) -> "KeyIndexPart":
        """Return a part with these entries, in any order, without repetitions.

        Raises ``ValueError`` for more than 65,536 row groups: they need a part of their own.
        """
        distinct, indexes = np.unique(places, return_inverse=True)
        if len(distinct) > 1 << 16:
            raise ValueError(f"{len(distinct)} row groups are too many for one part of a key index")
        entries = np.unique(hashes.astype(np.uint64) << 16 | indexes.astype(np.uint64))
        hash_bits, place_indexes = entries >> 16, entries & 0xFFFF
        return cls(
            distinct.astype(_PLACE), hash_bits.astype(_COMPARED), place_indexes.astype(_INDEX)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "KeyIndexPart":
        """Return the part that ``to_bytes`` gave."""
        places, entries = _HEAD.unpack_from(data)
        hashes = _HEAD.size + 8 * places
        return cls(
            np.frombuffer(data, _PLACE, places, _HEAD.size),
            np.frombuffer(data, _COMPARED, entries, hashes),
            np.frombuffer(data, _INDEX, entries, hashes + 4 * entries),
        )

    def to_bytes(self) -> bytes:
        """Return the part as stored: six bytes an entry, eight a row group."""
        head = _HEAD.pack(len(self.places), len(self.hashes))
        return head + b"".join(
            [self.places.tobytes(), self.hashes.tobytes(), self.place_indexes.tobytes()]
        )

    def lookup(self, row_hash: int) -> list[GroupPlace]:
        """Return the row groups that may hold changes of a row, in the order of segments."""
        compared = np.uint32(row_hash >> _CUT_BITS & 0xFFFFFFFF)
        first, end = (np.searchsorted(self.hashes, compared, side) for side in ("left", "right"))
        return [
            GroupPlace(place >> _GROUP_BITS, place & (1 << _GROUP_BITS) - 1)
            for place in self.places[self.place_indexes[first:end]].tolist()
        ]

    def without(self, segment_ids: Collection[int]) -> "KeyIndexPart":
        """Return the part without the entries of deleted segments."""
        places = self.places[self.place_indexes]
        kept = ~np.isin(places >> _GROUP_BITS, np.fromiter(segment_ids, np.int64))
        return KeyIndexPart.of(self.hashes[kept], places[kept])


def merged(parts: Collection[KeyIndexPart]) -> KeyIndexPart:
    """Return one part with the entries of several, all of the same hashes' first bits.

    Raises ``ValueError`` like ``KeyIndexPart.of``.
    """
    return KeyIndexPart.of(
        np.concatenate([part.hashes for part in parts]),
        np.concatenate([part.places[part.place_indexes] for part in parts]),
    )


def row_hash(relation_id: int, key_hash: int) -> int:
    """Return the hash of a row by its table and the signed hash of its key."""
    return int(_row_hashes(np.array([relation_id]), np.array([key_hash]))[0])


def part_of(row_hash: int) -> int:
    """Return the number of the part that a row's entries are in."""
    return row_hash >> _PART_SHIFT


def build(groups: Iterable[tuple[GroupPlace, pa.Table]]) -> dict[int, KeyIndexPart]:
    """Return the parts, by number, for row groups with their key columns."""
    hashes, places = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for place, columns in groups:
        of_group = np.unique(np.concatenate(list(_hashes_in(columns))))
        hashes.append(of_group)
        places.append(np.full(len(of_group), place.segment_id << _GROUP_BITS | place.group))
    all_hashes, all_places = np.concatenate(hashes), np.concatenate(places)
    order = np.argsort(all_hashes, kind="stable")
    all_hashes, all_places = all_hashes[order], all_places[order]
    bounds = np.searchsorted(all_hashes >> _PART_SHIFT, np.arange(PARTS + 1, dtype=np.uint64))
    compared = (all_hashes >> _CUT_BITS & 0xFFFFFFFF).astype(_COMPARED)
    return {
        number: KeyIndexPart.of(compared[first:end], all_places[first:end])
        for number, (first, end) in enumerate(pairwise(bounds))
        if first < end
    }


def _hashes_in(columns: pa.Table) -> Iterator[RowHashes]:
    """Yield the hashes of all rows whose key a change had, before or after it."""
    for name in ("key_hash", "old_key_hash"):
        known = columns.filter(pc.is_valid(columns[name]))
        yield _row_hashes(known["relation_id"].to_numpy(), known[name].to_numpy())


def _row_hashes(relation_ids: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> RowHashes:
    return keys.astype(np.uint64) ^ relation_ids.astype(np.uint64) * _TABLE_FACTOR
