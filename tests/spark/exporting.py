"""Exports and archives that tests of engines read."""

from dataclasses import replace
from pathlib import Path

from replview.parquet import reading
from replview.parquet.archive.increments import write_next
from replview.parquet.slices import Slice
from replview.parquet.writing.chains import Chain
from replview.parquet.writing.exporting import export
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.targets import Target


def exported(store_dsn, recording, root, *, after: int = 0, through: int | None = None) -> int:
    """Write what is recorded below a root; gives the last transaction's place."""
    with reading.connect(store_dsn) as store:
        part = reading.resolve(
            store,
            reading.SliceRequest(slot=recording.slot.name, after_seq=after, through_seq=through),
        )
    export(part, Target.of(str(root)), dsn=store_dsn)
    return part.through_seq


def archived(whole: Slice, root: Path, dsn: str) -> list[Manifest]:
    """Slice after slice, as the archive writes them."""
    target, found = Target.of(str(root)), []
    while (reached := Chain.of(target, whole).reached()) < whole.through_seq:
        found.append(write_next(replace(whole, after_seq=reached), target, dsn=dsn))
    return found
