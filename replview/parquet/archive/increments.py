"""Choose and write the slice that goes to an archive next, whichever process wrote the last one.

An archive is a chain of slices of everything, each beginning where the one before it ends. Its
files are all its state: a slice that is whole is not written again, and one that was begun is
continued with the same ends, and so with the same names and bytes. Where a table's rows change to
types that no schema reads together with earlier ones, its files end there, and later rows go to a
root of its own (``writing.datasets``); the slice and all other tables continue.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from psycopg import sql

from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.places import (
    conditions,
    of_relations,
    operation_codes,
    wanted_operations,
)
from replview.parquet.slices import Slice, SliceTable
from replview.parquet.writing.chains import Abandoned, Chain
from replview.parquet.writing.datasets import reads_as_one
from replview.parquet.writing.exporting import export
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.targets import Target

# The shapes under which each transaction changed a table: one row for each run of transactions with
# the same shapes.
_RUNS = """
    SELECT relation_id, versions, min(commit_seq) FROM (
        SELECT *, sum(fresh) OVER (PARTITION BY relation_id ORDER BY commit_seq) AS run FROM (
            SELECT *, (versions IS DISTINCT FROM
                       lag(versions) OVER (PARTITION BY relation_id ORDER BY commit_seq))::int
                   AS fresh
            FROM (SELECT c.relation_id, t.commit_seq,
                         array_agg(DISTINCT c.version_id ORDER BY c.version_id) AS versions
                  FROM transaction t JOIN change c ON c.transaction_id = t.id
                  WHERE {where} AND {relations} AND c.op::text = ANY({codes})
                    AND c.transaction_id BETWEEN
                        (SELECT min(t.id) FROM transaction t WHERE {where}) AND
                        (SELECT max(t.id) FROM transaction t WHERE {where})
                  GROUP BY 1, 2) AS seen) AS marked) AS placed
    GROUP BY relation_id, versions, run ORDER BY relation_id, 3
"""


def write_next(
    wanted: Slice,
    target: Target,
    *,
    dsn: str | None,
    cancelled: Callable[[], bool] = lambda: False,
    abandoned: Abandoned = lambda name: False,
) -> Manifest:
    """Write the slice that begins where ``wanted`` does, or return the one that exists.

    Files of a run that was stopped stay; files of an ``abandoned`` export are deleted. Raises what
    ``export`` raises.
    """
    chosen = Chain.of(target, wanted).next(wanted) or wanted
    return export(chosen, target, dsn=dsn, cancelled=cancelled, keep=True, abandoned=abandoned,
                  stretches_of=stretches_of)  # fmt: skip


def stretches_of(
    connection: StoreConnection, part: Slice, tables: Sequence[SliceTable]
) -> dict[int, list[tuple[Slice, SliceTable]]]:
    """Return the stretches of each table that no single schema reads (``planning.StretchesOf``).

    A transaction with rows of both schemas is a stretch of its own, in which the column is text.
    """
    # One schema reads most tables in all their shapes; their changes need not be read.
    retyped = {each.relation_id: each for each in tables if not reads_as_one(each.versions)}
    if not retyped:
        return {}
    query = sql.SQL(_RUNS).format(
        where=conditions(part, None, [*retyped]), relations=of_relations([*retyped]),
        codes=operation_codes(wanted_operations(part, rows=True)),
    )  # fmt: skip
    begins: dict[int, list[tuple[int, set[int]]]] = {}
    for relation, versions, seq in connection.execute(query):
        known = begins.setdefault(relation, [])
        if known and _reads_as_one(retyped[relation], known[-1][1].union(versions)):
            known[-1][1].update(versions)
        else:
            known.append((int(seq) if known else part.after_seq + 1, {*versions}))
    return {
        relation: [
            (replace(part, after_seq=first - 1, through_seq=end - 1), _narrowed(table, ids))
            for (first, ids), (end, _) in pairwise(
                [*begins[relation], (part.through_seq + 1, set())]
            )
        ]
        for relation, table in retyped.items()
    }


def _narrowed(table: SliceTable, ids: Collection[int]) -> SliceTable:
    return replace(table, versions=tuple(each for each in table.versions if each.id in ids))


def _reads_as_one(table: SliceTable, ids: Collection[int]) -> bool:
    return reads_as_one(_narrowed(table, ids).versions)
