"""Two million changes of a day, archived every six hours and then compacted: how large files are.

A day of commits is the most that a file may have. So what is asked of each table and day that is
over is: every file but the last has 64 MB or more. Of small rows a table's day is one file, however
small; these are of some 200 bytes that hardly repeat.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

from tests.benchmarks.report import Result
from tests.benchmarks.spark.filling import add_wide

BAR_BYTES = 64 << 20
_SLICES = 4


def archiving(dsn: str, changes: int) -> list[Result]:
    """The sizes of an archive's files, before and after, and how fast that is."""
    from replview.parquet import reading
    from replview.parquet.archive.compacting import Compacted, compact
    from replview.parquet.archive.increments import write_next
    from replview.parquet.writing.manifests import path_of
    from replview.parquet.writing.targets import Target

    add_wide(dsn, changes)
    with reading.connect(dsn) as store:
        whole = reading.resolve(store, reading.SliceRequest(source="shop", slot="wide"))
    ends = [whole.through_seq * n // _SLICES for n in range(_SLICES + 1)]
    with tempfile.TemporaryDirectory() as folder:
        target = Target.of(folder)
        before = []
        for after, through in pairwise(ends):
            part = replace(whole, after_seq=after, through_seq=through)
            before += write_next(part, target, dsn=dsn).files
        started, read = time.monotonic(), 0
        while (done := compact(target, whole, most_bytes=1 << 30)) != Compacted():
            read += done.read
        seconds = time.monotonic() - started
        document = target.read_json(path_of(whole)) or {"files": []}
    last = max(str(file["commit_date"]) for file in document["files"])
    over = [file for file in document["files"] if str(file["commit_date"]) < last]
    large = [file["bytes"] for file in _but_the_last(over)]
    return [
        Result(
            "the smallest file of an archived table and day, but its last",
            f"{min(large, default=0) / 1e6:.0f} MB; {_words(before)} before, {_words(over)} after",
            f"≥ {BAR_BYTES / 1e6:.0f} MB",
            min(large, default=0) >= BAR_BYTES,
        ),
        Result("compacting", f"{read / seconds / 1e6:.0f} MB/s", "", ok=True),
    ]


def _but_the_last(files: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    def place(file: Mapping[str, Any]) -> tuple[str, str]:
        return file["dataset"], file["commit_date"]

    for _, some in groupby(sorted(files, key=place), key=place):
        yield from list(some)[:-1]


def _words(files: list[Mapping[str, Any]]) -> str:
    sizes = [file["bytes"] for file in files]
    return f"{len(sizes)} files of {statistics.median(sizes) / 1e6:.1f} MB (median)"
