"""Select a group's changes of a table as row images: each row's JSON, and the columns beside it.

The JSON is unpacked once (``|| '{}'`` gives it back unpacked, and OFFSET 0 keeps the planner from
doing so for each column anew). An update that moved its row to another key has the row before, too,
if only its key.
"""

from collections.abc import Callable, Sequence

from psycopg import sql

from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.masks import masked_image
from replview.parquet.reading.places import (
    NOT_ABORTED,
    has_keys,
    of_actors,
    of_relations,
    operation_codes,
    wanted_operations,
)
from replview.parquet.reading.transactions import TransactionGroup
from replview.parquet.slices import LAST_SEQ, Slice, SliceTable
from replview.store.read.session import array_text

_ROWS = """
    SELECT c.transaction_id AS id, c.seq, c.lsn, c.version_id, {kind} AS kind{may_derive},
           {image} || '{{}}'::jsonb AS v
    FROM {changes} WHERE {where}
    ORDER BY {order} OFFSET 0
"""
_KIND = sql.SQL("CASE c.op WHEN 'U' THEN 2 WHEN 'D' THEN 3 WHEN 'T' THEN 4 ELSE 0 END")
# What a truncation has as its new row is no row of the table. A key so long that it is kept apart
# (TOAST) is sent with the old row alone, also if it did not change.
_IMAGE = sql.SQL("""CASE c.op WHEN 'D' THEN c.old WHEN 'T' THEN NULL ELSE
    CASE c.old_kind WHEN 'K' THEN c.old || c.new ELSE c.new END END""")
# Under FULL the server sends the whole old row, otherwise the old key where it differs: one change
# gives two rows.
_SENT = sql.SQL("c.old_kind = 'O' OR c.old_key_hash IS NOT NULL")
_IMAGES = """
    {changes} CROSS JOIN LATERAL (
        SELECT 1 AS kind, coalesce(c.old, '{{}}') AS image WHERE c.op = 'U' AND ({two})
        UNION ALL SELECT {kind}, {image}
    ) AS i
"""
_MOVED = """
    SELECT EXISTS (SELECT FROM change WHERE relation_id = %s AND old_key_hash IS NOT NULL)
"""
# With "derived", the row before is looked up for every update of a row that has a key.
_LOOKED_FOR = sql.SQL("c.old_kind = 'O' OR c.key_hash IS NOT NULL")
_MAY_DERIVE = sql.SQL("""
    , CASE WHEN i.kind <> 1 OR c.old_kind IS NOT DISTINCT FROM 'O' OR c.key_hash IS NULL THEN 0
           WHEN c.old_key_hash IS NULL THEN 1 ELSE 2 END AS derivable
""")


def may_give_before(connection: StoreConnection, part: Slice, table: SliceTable) -> bool:
    """Return whether an update may give two rows; a check for that in each update takes time."""
    if "update" not in wanted_operations(part, rows=True):
        return False
    if any(version.replica_identity == "FULL" for version in table.versions):
        return True
    if not any(version.key_columns for version in table.versions):
        return False
    if part.before != "sent":
        return True
    return connection.execute(_MOVED, [table.relation_id]).fetchone() == (True,)


def row_images(
    connection: StoreConnection, part: Slice, table: SliceTable
) -> Callable[[TransactionGroup], sql.Composed]:
    """Return a function that gives the query of one group's rows as JSON, in the order of history.

    Where rows before updates are derived, each update of a keyed row has one, and ``derivable``
    says which of them the server did not send.
    """
    before = may_give_before(connection, part, table)
    masked = part.masked_of(table.name)
    derived = part.before != "sent"
    operations = wanted_operations(part, rows=True, truncations=table.truncations)
    codes = operation_codes(operations)
    never = sql.SQL(", 0 AS derivable" if derived else "")
    parts = {
        "kind": sql.SQL("i.kind") if before else _KIND,
        "image": masked_image(sql.SQL("i.image") if before else _IMAGE, masked),
        "may_derive": _MAY_DERIVE if derived and before else never,
    }
    parts = {name: written_once(connection, each) for name, each in parts.items()}
    two = _LOOKED_FOR if derived else _SENT
    keys = written_once(connection, has_keys(table))

    def query(group: TransactionGroup) -> sql.Composed:
        changes, order = source_of(group)
        order = sql.SQL("{}, c.seq").format(order)
        if before:
            changes = sql.SQL(_IMAGES).format(changes=changes, two=two, kind=_KIND, image=_IMAGE)
            order = sql.SQL("{}, i.kind").format(order)
        where = sql.SQL("{} AND {}").format(changes_of(group, [table.relation_id], codes), keys)
        return sql.SQL(_ROWS).format(**parts, changes=changes, where=where, order=order)

    return query


def written_once(connection: StoreConnection, part: sql.Composable) -> sql.Composable:
    """Return the query's part as text, so that it is not composed anew for each group."""
    return sql.SQL(part.as_string(connection))


def source_of(group: TransactionGroup) -> tuple[sql.Composable, sql.Composable]:
    """Return the FROM item of a group's changes, and the expression that orders them."""
    if group.ascending:
        return sql.SQL("change c"), sql.SQL("c.transaction_id")
    named = sql.SQL(
        "change c JOIN unnest({}::bigint[]) WITH ORDINALITY AS g (id, place)"
        " ON g.id = c.transaction_id"
    ).format(array_text(group.ids))
    return named, sql.SQL("g.place")


def changes_of(
    group: TransactionGroup, relation_ids: Sequence[int] | None, codes: Sequence[str]
) -> sql.Composed:
    """Return the condition for the group's changes.

    Identifiers are constants, so that the planner leaves partitions out.
    """
    found = [
        _of_transactions(group),
        of_relations(relation_ids),
        sql.SQL('c.op = ANY({}::"char"[])').format(list(codes)),
    ]
    if group.after_seq:
        found.append(sql.SQL("c.seq > {}").format(group.after_seq))
    if group.through_seq < LAST_SEQ:
        found.append(sql.SQL("c.seq <= {}").format(group.through_seq))
    if group.whose:
        found.append(of_actors(group.whose))
    if group.aborted:
        found.append(sql.Composed([NOT_ABORTED]))
    return sql.SQL(" AND ").join(found)


def _of_transactions(group: TransactionGroup) -> sql.Composable:
    """Return the condition on transactions: a range where identifiers are dense, for speed."""
    ids = group.ids
    if len(ids) == 1:
        return sql.SQL("c.transaction_id = {}").format(ids[0])
    if group.among is None:
        return sql.SQL("c.transaction_id = ANY({}::bigint[])").format(array_text(ids))
    between = sql.SQL("c.transaction_id BETWEEN {} AND {}").format(ids[0], ids[-1])
    if group.among == len(ids):
        return between
    # (Without "+ 0" the planner would look up each identifier in the index all the same.)
    among = sql.SQL("{} AND c.transaction_id + 0 = ANY({}::bigint[])")
    return among.format(between, array_text(ids))
