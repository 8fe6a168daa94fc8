"""Measures how many changes a second the decoder alone decodes on one core.

Single-row inserts of eight text columns, about 145 bytes a message, in
transactions of 100 rows. Run as a script, or call ``measure()``.
"""

from __future__ import annotations

import struct
import time

from decoder.assembler import Assembler
from tests.support.wire import xlogdata_frame

ROWS_PER_TRANSACTION = 100
FRAMES_PER_FEED = 1000
_OID = 16384


def _relation() -> bytes:
    columns = b"".join(b"\0c%d\0" % n + struct.pack(">Ii", 25, -1) for n in range(8))
    return xlogdata_frame(
        0, b"R" + struct.pack(">I", _OID) + b"public\0orders\0d" + struct.pack(">H", 8) + columns
    )


def _insert(number: int) -> bytes:
    values = (
        f"{number}",
        f"{number * 7919 % 1_000_000}",
        f"customer {number % 5000:05d}",
        f"{number % 100_000 / 100:.2f}",
        f"2026-11-20 07:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1_000_000:06d}+00",
        "in the warehouse",
        f"{number % 7}",
        f"note {number % 977}: ring twice, please",
    )
    columns = b"".join(b"t" + struct.pack(">I", len(v)) + v.encode() for v in values)
    payload = b"I" + struct.pack(">IcH", _OID, b"N", 8) + columns
    return xlogdata_frame(0x1000000 + number * 200, payload)


def frames(transactions: int, rows: int) -> list[bytes]:
    """Begin, ``rows`` inserts, Commit; as often as asked."""
    found = []
    for number in range(transactions):
        lsn = 0x1000000 + number
        found.append(xlogdata_frame(lsn, struct.pack(">cQqI", b"B", lsn, 0, 700 + number)))
        found += [_insert(number * rows + row) for row in range(rows)]
        found.append(xlogdata_frame(lsn, struct.pack(">cBQQq", b"C", 0, lsn, lsn + 8, 0)))
    return found


def measure(rows: int = ROWS_PER_TRANSACTION, changes: int = 20_000, rounds: int = 7) -> float:
    """Changes a second, the best of ``rounds``, in CPU time of this thread."""
    stream = frames(changes // rows, rows)
    best = float("inf")
    for _ in range(rounds):
        assembler = Assembler(proto_version=1)
        assembler.feed([_relation()])
        started = time.thread_time()
        for index in range(0, len(stream), FRAMES_PER_FEED):
            assembler.feed(stream[index : index + FRAMES_PER_FEED])
        best = min(best, time.thread_time() - started)
    return changes / best


if __name__ == "__main__":
    size = sum(map(len, frames(1, 100)[1:-1])) / 100 - 25
    print(f"messages of {size:.0f} bytes, eight text columns")
    print(f"transactions of 100 rows: {measure():,.0f} changes/s")
    print(f"transactions of one row:  {measure(rows=1):,.0f} transactions/s")
