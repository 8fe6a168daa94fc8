"""Segments alone: their size, and how fast they are written, searched and scanned.

Twenty segments of 64,000 changes of the eight-column table, transactions of 100, with values drawn
at random. All is one thread's CPU time, in memory: what a store or an object store adds is not
measured here.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa

from replview.segments.key_index import (
    GroupPlace,
    KeyIndexPart,
    build,
    merged,
    part_of,
    row_hash,
)
from replview.segments.layout import IMAGES, SegmentChange, table_of
from replview.segments.reading import SegmentReader
from replview.segments.selection import Selection
from replview.segments.writing import write_segment
from replview.store.read.rows import signed_hash
from tests.benchmarks.report import Result

SEGMENTS = 20
CHANGES = 64_000
ROWS_PER_TRANSACTION = 100
RELATION = 3
#: Rows that are changed again and again, about six times each in twenty segments.
_ROWS = 200_000
#: One change in so many is of a row of its own, whose key is the number of the change.
_RARE = 50
_ROUNDS = 25
_WORDS = ["ring", "twice", "please", "fragile", "leave", "at", "the", "door", "gift", "urgent"]
#: A note that no drawn one contains.
_NEEDLE = "neighbour"


def of_one_table(*, quick: bool) -> list[Result]:
    """Return the results: bytes, and the time of each use."""
    count = 4 if quick else SEGMENTS
    tables = [table_of(_changes(number)) for number in range(count)]
    written = [_timed(write_segment, 1, table) for table in tables]
    payloads = [payload for _, payload in written]
    halves = [_timed(build, _groups(payloads)[half::2]) for half in (0, 1)]
    merge_seconds, parts = _timed(_merged, [parts for _, parts in halves])
    changes = count * CHANGES
    file_bytes = sum(payload.size for payload in payloads) / changes
    index_bytes = sum(len(part.to_bytes()) for part in parts.values()) / changes
    image_bytes = sum(table[name].nbytes for table in tables for name in IMAGES) / changes
    write_us = statistics.median(seconds for seconds, _ in written) / CHANGES * 1e6
    detail = f"segment {file_bytes:.1f}, key index {index_bytes:.1f}, of images {image_bytes:.0f}"
    size = Result.at_most("bytes a change", file_bytes + index_bytes, 60, detail=detail)
    build_us, merge_us = (
        seconds / changes * 1e6 for seconds in (sum(each for each, _ in halves), merge_seconds)
    )
    detail = f"{write_us:.2f} µs a change; key index {build_us:.2f}, merged once {merge_us:.2f}"
    rate = Result.at_least("million changes/s written", 1 / write_us, 0.8, detail=detail)
    return [size, rate, *_read_results(payloads, parts)]


def _merged(halves: list[dict[int, KeyIndexPart]]) -> dict[int, KeyIndexPart]:
    return {number: merged([half[number] for half in halves]) for number in halves[0]}


def _groups(payloads: list[pa.Buffer]) -> list[tuple[GroupPlace, pa.Table]]:
    """Return the key columns of every row group."""
    return [
        (GroupPlace(number, group), reader.key_columns(group))
        for number, reader in enumerate(map(_reader, payloads))
        for group in range(reader.groups)
    ]


def _read_results(payloads: list[pa.Buffer], parts: dict[int, KeyIndexPart]) -> list[Result]:
    draw = random.Random(2)
    changes = len(payloads) * CHANGES
    numbers = [draw.randrange(changes // ROWS_PER_TRANSACTION) for _ in range(_ROUNDS)]
    transactions = [_timed(_transaction, payloads, number)[0] * 1000 for number in numbers]
    often = [draw.randrange(_ROWS) for _ in range(_ROUNDS)]
    once = [draw.randrange(changes // _RARE) * _RARE + _ROWS for _ in range(_ROUNDS)]
    scan_seconds = min(_timed(_scan, payloads)[0] for _ in range(3))
    return [
        Result.at_most(
            "a transaction of 100 changes, ms", statistics.median(transactions), 4,
            detail=f"at most {max(transactions):.1f}",
        ),
        _row_result("a row changed once", 5, payloads, parts, once),
        _row_result("a row changed often", 20, payloads, parts, often),
        Result.at_least(
            "million changes/s scanned for a text", changes / scan_seconds / 1e6, 1.5,
            detail=f"{scan_seconds:.2f} s for {changes:,}",
        ),
    ]  # fmt: skip


def _row_result(
    what: str,
    bar: float,
    payloads: list[pa.Buffer],
    parts: dict[int, KeyIndexPart],
    rows: list[int],
) -> Result:
    measured = [_timed(_row, payloads, parts, row) for row in rows]
    milliseconds = [seconds * 1000 for seconds, _ in measured]
    found = statistics.mean(number for _, number in measured)
    detail = f"at most {max(milliseconds):.1f}; {found:.1f} changes on average"
    what = f"{what}, among {len(payloads)} segments, ms"
    return Result.at_most(what, statistics.median(milliseconds), bar, detail=detail)


def _transaction(payloads: list[pa.Buffer], number: int) -> None:
    payload = payloads[number * ROWS_PER_TRANSACTION // CHANGES]
    selection = Selection(commit_seqs=range(number, number + 1))
    assert sum(map(len, _reader(payload).read(selection))) == ROWS_PER_TRANSACTION


def _row(payloads: list[pa.Buffer], parts: dict[int, KeyIndexPart], row: int) -> int:
    """Return how many changes of a row were read, by the key index."""
    key = signed_hash([str(row)])
    hashed = row_hash(RELATION, key)
    groups: dict[int, list[int]] = {}
    for place in KeyIndexPart.from_bytes(parts[part_of(hashed)].to_bytes()).lookup(hashed):
        groups.setdefault(place.segment_id, []).append(place.group)
    selection = Selection(relation_ids=[RELATION], key_hashes=[key])
    return sum(
        len(table)
        for segment, numbers in groups.items()
        for table in _reader(payloads[segment]).read(selection, numbers)
    )


def _scan(payloads: list[pa.Buffer]) -> None:
    for payload in payloads:
        assert not any(_reader(payload).read(Selection(text=_NEEDLE)))


def _reader(payload: pa.Buffer) -> SegmentReader:
    return SegmentReader(pa.BufferReader(payload))


def _changes(segment: int) -> list[SegmentChange]:
    draw = random.Random(segment)
    return [_change(draw, segment * CHANGES + number) for number in range(CHANGES)]


def _change(draw: random.Random, number: int) -> SegmentChange:
    """Return an insert, an update or, one time in ten, a delete."""
    key = str(draw.randrange(_ROWS) if number % _RARE else _ROWS + number)
    transaction, seq = divmod(number, ROWS_PER_TRANSACTION)
    op = draw.choice("IIIIIUUUUD")
    return SegmentChange(
        commit_seq=transaction,
        transaction_id=(494_400 << 32) + transaction,
        seq=seq + 1,
        lsn=0x1000000 + number * 152,
        subxid=None,
        relation_id=RELATION,
        version_id=RELATION,
        op=op,
        old_kind="K" if op == "D" else None,
        key_hash=signed_hash([key]),
        old_key_hash=None,
        old=orjson.dumps({"id": key}).decode() if op == "D" else None,
        new=None if op == "D" else orjson.dumps(_image(draw, key, number)).decode(),
    )


def _image(draw: random.Random, key: str, number: int) -> dict[str, str]:
    minute, second = divmod(number // 300, 60)
    at = f"2026-11-20 07:{minute % 60:02d}:{second:02d}.{draw.randrange(10**6):06d}+00"
    return {
        "id": key,
        "customer": str(draw.randrange(10_000)),
        "product": str(draw.randrange(500)),
        "quantity": str(draw.randrange(7)),
        "price": f"{draw.randrange(100_000) / 100:.2f}",
        "status": draw.choice(["pending", "paid", "in the warehouse", "shipped"]),
        "at": at,
        "note": " ".join(draw.choices(_WORDS, k=4)),
    }


def _timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return the CPU time that a call takes in this thread, and its result."""
    started = time.thread_time()
    result = function(*arguments)
    return time.thread_time() - started, result
