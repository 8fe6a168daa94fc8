"""Which slice goes to an archive next: decided by what is there, whoever wrote it.

An archive is a chain of slices of everything, each beginning where the one before it ends. What
the files tell is the only state that the JVM-less archive and the one on Spark share: a slice that
is whole is not written again, one that was begun is gone on with, with the same ends, and so with
the same names and bytes. A new one ends before a table's rows become of types that no schema reads
together with those before: what came then begins a root of its own (``writing.datasets``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from psycopg import sql

from replview.parquet.reading import connect
from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import conditions, of_relations
from replview.parquet.reading.resolving import shapes_of, touched
from replview.parquet.slices import Slice, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.datasets import reads_as_one
from replview.parquet.writing.exporting import export
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.targets import Target

# From when on changes of the slice were made under each shape.
_BEGINS = """
    SELECT c.version_id, min(t.commit_seq) FROM transaction t JOIN change c
        ON c.transaction_id = t.id
    WHERE {where} AND {relation} AND c.version_id IS NOT NULL
      AND c.transaction_id BETWEEN
          (SELECT min(t.id) FROM transaction t WHERE {where}) AND
          (SELECT max(t.id) FROM transaction t WHERE {where})
    GROUP BY 1 ORDER BY 2, 1
"""


@dataclass(frozen=True, slots=True)
class Chain:
    """The slices of everything that stand in an incarnation's folder: where each begins → where it
    ends.
    """

    whole: Mapping[int, int]
    begun: Mapping[int, int]

    @classmethod
    def of(cls, target: Target, part: Slice) -> Self:
        """As the names of the manifests tell; slices of less than everything are none of it."""
        ends: dict[str, dict[int, int]] = {".json": {}, layout.UNFINISHED: {}}
        for found in target.files(f"{layout.incarnation_folder(part)}/{layout.MANIFESTS}"):
            name = found.path.rpartition("/")[2]
            if (seqs := layout.range_of_name(name)) is not None:
                ending = name.removeprefix(layout.slice_name(everything(part, *seqs)))
                ends.get(ending, {})[seqs[0]] = seqs[1]
        return cls(ends[".json"], ends[layout.UNFINISHED])

    def reached(self) -> int:
        """Where the chain that begins with history ends."""
        after = 0
        while after in self.whole and after not in self.begun:
            after = self.whole[after]
        return after

    def next(self, wanted: Slice) -> Slice | None:
        """The slice there, or begun, that begins where the wanted one does; None: none does."""
        after = wanted.after_seq
        through = self.begun.get(after, self.whole.get(after))
        return None if through is None else replace(wanted, through_seq=through)


def next_slice(wanted: Slice, target: Target, dsn: str | None) -> Slice:
    """The slice that is there or was begun, else as much of the wanted one as one schema reads."""
    known = Chain.of(target, wanted).next(wanted)
    if known is not None:
        return known
    with connect(dsn) as connection:
        return before_retyping(connection, wanted)


def everything(part: Slice, after_seq: int, through_seq: int) -> Slice:
    """Return the slice of all changes of an incarnation between two places."""
    return Slice(source=part.source, slot=part.slot, incarnation_id=part.incarnation_id,
                 incarnation=part.incarnation, after_seq=after_seq,
                 through_seq=through_seq)  # fmt: skip


def write_next(
    wanted: Slice,
    target: Target,
    *,
    dsn: str | None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Manifest:
    """Write the slice that begins where ``wanted`` does, or find it there. Files of a run that was
    stopped stay. Raises what ``export`` raises.
    """
    chosen = next_slice(wanted, target, dsn)
    return export(chosen, target, dsn=dsn, cancelled=cancelled, keep=True)


def before_retyping(connection: Connection, part: Slice) -> Slice:
    """The slice up to the first such change in it. A transaction with rows of both is a slice of
    its own, in which the column is text.
    """
    through = part.through_seq
    for relation, shapes in shapes_of(connection, touched(connection, part)).items():
        # Of most tables every shape there ever was can be read as one: no change is looked at.
        if not reads_as_one(shapes):
            through = min(through, _through(connection, part, relation, shapes))
    return replace(part, through_seq=through)


def _through(
    connection: Connection, part: Slice, relation: int, shapes: Sequence[TableVersion]
) -> int:
    """How far the slice goes with rows of one kind of this table."""
    begins = sql.SQL(_BEGINS).format(
        where=conditions(part, None, [relation]), relation=of_relations([relation])
    )
    by_id = {shape.id: shape for shape in shapes}
    held: list[TableVersion] = []
    for version, seq in connection.execute(begins):
        held.append(by_id[version])
        if not reads_as_one(sorted(held, key=lambda shape: shape.number)):
            return max(int(seq) - 1, part.after_seq + 1)
    return part.through_seq
