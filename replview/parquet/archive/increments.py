"""Which slice goes to an archive next: decided by what is there, whoever wrote it.

An archive is a chain of slices of everything, each beginning where the one before it ends. What
the files tell is the only state that the JVM-less archive and the one on Spark share: a slice that
is whole is not written again, one that was begun is gone on with, with the same ends, and so with
the same names and bytes. A new one ends before a table's rows become of types that no schema reads
together with those before: what came then begins a root of its own (``writing.datasets``).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from psycopg import sql

from replview.parquet.reading import connect
from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import conditions, of_relations
from replview.parquet.reading.resolving import shapes_of, touched
from replview.parquet.slices import Slice, TableVersion
from replview.parquet.writing.chains import Abandoned, Chain
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


def next_slice(wanted: Slice, target: Target, dsn: str | None) -> Slice:
    """The slice that is there or was begun, else as much of the wanted one as one schema reads."""
    known = Chain.of(target, wanted).next(wanted)
    if known is not None:
        return known
    with connect(dsn) as connection:
        return before_retyping(connection, wanted)


def write_next(
    wanted: Slice,
    target: Target,
    *,
    dsn: str | None,
    cancelled: Callable[[], bool] = lambda: False,
    abandoned: Abandoned = lambda name: False,
) -> Manifest:
    """Write the slice that begins where ``wanted`` does, or find it there. Files of a run that was
    stopped stay; what an ``abandoned`` export left there does not. Raises what ``export`` raises.
    """
    chosen = next_slice(wanted, target, dsn)
    return export(chosen, target, dsn=dsn, cancelled=cancelled, keep=True,
                  abandoned=abandoned)  # fmt: skip


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
