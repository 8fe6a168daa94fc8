"""Which slice goes to an archive next: decided by what is there, whoever wrote it.

An archive is a chain of slices of everything, each beginning where the one before it ends. What
the files tell is the only state that the JVM-less archive and the one on Spark share: a slice that
is whole is not written again, one that was begun is gone on with, with the same ends, and so with
the same names and bytes. A new one ends before a table's rows become of types that no schema reads
together with those before: what came then begins a root of its own (``writing.dataset_roots``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from replview.parquet.archive.retyping import before_retyping
from replview.parquet.reading import connect
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.layout import (
    MANIFESTS,
    UNFINISHED,
    life_folder,
    range_of_name,
    slice_name,
)
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.targets import Target


@dataclass(frozen=True, slots=True)
class Chain:
    """The slices of everything that stand in a life's folder: where each begins → where it ends."""

    whole: Mapping[int, int]
    begun: Mapping[int, int]

    @classmethod
    def of(cls, target: Target, part: Slice) -> Self:
        """As the names of the manifests tell; slices of less than everything are none of it."""
        whole: dict[int, int] = {}
        begun: dict[int, int] = {}
        for found in target.files(f"{life_folder(part)}/{MANIFESTS}"):
            name = found.path.rpartition("/")[2]
            seqs = range_of_name(name)
            if seqs is None:
                continue
            ours = slice_name(everything(part, *seqs))
            if name == f"{ours}.json":
                whole[seqs[0]] = seqs[1]
            elif name == f"{ours}{UNFINISHED}":
                begun[seqs[0]] = seqs[1]
        return cls(whole, begun)

    def reached(self, after: int = 0) -> int:
        """Where the chain that begins there ends."""
        while after in self.whole and after not in self.begun:
            after = self.whole[after]
        return after

    def next(self, wish: Slice) -> Slice | None:
        """The slice that begins where the wish does and is there, or was begun; None: none is."""
        after = wish.after_seq
        through = self.begun.get(after, self.whole.get(after))
        return None if through is None else replace(wish, through_seq=through)


def next_slice(wish: Slice, target: Target, dsn: str | None) -> Slice:
    """The slice that is there or was begun, else as much of the wish as one schema reads."""
    known = Chain.of(target, wish).next(wish)
    if known is not None:
        return known
    with connect(dsn) as connection:
        return before_retyping(connection, wish)


def everything(part: Slice, after_seq: int, through_seq: int) -> Slice:
    """All of a life between two places."""
    return Slice(
        source=part.source, slot=part.slot, incarnation_id=part.incarnation_id,
        incarnation=part.incarnation, after_seq=after_seq, through_seq=through_seq,
    )  # fmt: skip


def write_next(
    wish: Slice,
    target: Target,
    *,
    dsn: str | None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Manifest:
    """Write the slice that begins where ``wish`` does, or find it there. Files of a run that was
    stopped stay. Raises what ``export`` raises.
    """
    chosen = next_slice(wish, target, dsn)
    return export(chosen, target, dsn=dsn, cancelled=cancelled, keep=True)
