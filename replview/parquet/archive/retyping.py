"""Where a slice of everything ends early: before a table's rows become of another kind of types.

Within one file a column has one type; of rows from before and after such a change it could only be
text. Ending a slice there keeps the types of both.
"""

from collections.abc import Sequence
from dataclasses import replace

from psycopg import sql

from replview.parquet.reading.connecting import Connection
from replview.parquet.reading.places import conditions, of_relations
from replview.parquet.reading.tables import shapes_of
from replview.parquet.slices import Slice, TableVersion
from replview.parquet.writing.dataset_schemas import reads_as_one

_TOUCHED = """
    SELECT DISTINCT k::bigint FROM transaction t, jsonb_object_keys(t.relations) k WHERE {}
"""
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


def before_retyping(connection: Connection, part: Slice) -> Slice:
    """The slice up to the first such change in it. A transaction with rows of both is a slice of
    its own, in which the column is text.
    """
    touched = sql.SQL(_TOUCHED).format(conditions(part))
    ids = [row[0] for row in connection.execute(touched)]
    through = part.through_seq
    for relation, shapes in shapes_of(connection, ids).items():
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
