"""Read change records as stored (values as JSON), transactions, and events."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.rows import dict_row

from decoder.scalars import lsn_text
from replview.parquet.reading.batches import copied
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.masks import masked_images
from replview.parquet.reading.packed_values import (
    INT64,
    LSN,
    MOMENT,
    TEXT,
    Fixed,
    Texts,
    packing,
    unpacked,
)
from replview.parquet.reading.places import (
    everything,
    operation_codes,
    shows_size,
    wanted_operations,
)
from replview.parquet.reading.row_images import changes_of, source_of, written_once
from replview.parquet.reading.slice_tables import relation_ids, transactions_of
from replview.parquet.reading.transactions import (
    TransactionGroup,
    actors_of,
    days_of,
    groups,
    placed,
)
from replview.parquet.slice_schemas import EVENTS, PARTITION, TRANSACTIONS, UNTYPED
from replview.parquet.slices import OPERATIONS, Slice, SliceRange
from replview.store.read.rows import named

#: Code of ``change.op`` → operation.
WORDS = {code: word for word in OPERATIONS for code in operation_codes([word])}
_FIELDS: dict[str, pa.DataType] = {
    "id": pa.int64(), "seq": pa.int32(), "lsn": pa.string(), "subxid": pa.int64(),
    "op": pa.string(), "version_id": pa.int64(), "old": pa.string(), "new": pa.string(),
}  # fmt: skip
_QUERY = """
    SELECT c.transaction_id, c.seq, c.lsn, c.subxid, c.op, c.version_id,
           ({old})::text, ({new})::text
    FROM {changes} WHERE {where} ORDER BY {order}, c.seq
"""
_SHAPES = """
    SELECT v.id, v.number AS version, v.schema, v."table", r.oid AS relation_oid
    FROM relation_version v JOIN relation r ON r.id = v.relation_id
    JOIN slot_incarnation i ON i.slot_id = r.slot_id AND i.system_identifier = r.system_identifier
    WHERE i.id = %s ORDER BY v.id
"""
_SHAPE = pa.schema([("id", pa.int64()), *map(UNTYPED.field, (
    "version", "schema", "table", "relation_oid"))])  # fmt: skip
#: Transactions per query: a context may have 64 kB, and the server's memory holds all of them.
_PAGE = 4096
_TRANSACTIONS = """
    SELECT {packing} FROM (
        SELECT {columns} FROM transaction t WHERE {where} AND t.commit_seq > {after}
        ORDER BY t.commit_seq LIMIT {page}
    ) AS packed
"""


#: A table's oid → the number of each of its shapes → schema and name of the table then.
ShapeNames = dict[int, dict[int, tuple[str, str]]]


def names_by_oid(connection: StoreConnection, part: Slice) -> ShapeNames:
    """Return the names of all tables of the slice's incarnation."""
    found: ShapeNames = {}
    for _, number, schema, table, oid in connection.execute(_SHAPES, [part.incarnation_id]):
        found.setdefault(oid, {})[number] = (schema, table)
    return found


def read_untyped(
    connection: StoreConnection, part: Slice, within: SliceRange | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield every change of the slice, of all tables, as ``slice_schemas.UNTYPED``."""
    yield from _records(connection, part, within, wanted_operations(part))


def _records(
    connection: StoreConnection, part: Slice, within: SliceRange | None, operations: Sequence[str],
    having: sql.Composable = sql.SQL("true"),  # noqa: B008 (a constant)
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    rows = connection.cursor(row_factory=dict_row).execute(_SHAPES, [part.incarnation_id])
    shapes = pa.RecordBatch.from_pylist(rows.fetchall(), _SHAPE)
    ids = relation_ids(connection, part)
    codes = operation_codes(operations)
    old, new = (
        written_once(connection, masked_images(connection, part, sql.SQL(side)))
        for side in ("c.old", "c.new")
    )
    for group in groups(connection, part, within or everything(part), ids, having):
        changes, order = source_of(group)
        query = sql.SQL(_QUERY).format(
            old=old, new=new, changes=changes, where=changes_of(group, ids, codes), order=order
        )
        for batch in copied(connection, query, _FIELDS):
            yield _record_batch(batch, group, shapes, part)


def _record_batch(
    batch: pa.RecordBatch, group: TransactionGroup, shapes: pa.RecordBatch, part: Slice
) -> pa.RecordBatch:
    """Convert a batch to ``UNTYPED``; ``shapes`` has every version of the slot's tables."""
    rows = group.rows
    batch, of = placed(batch, group)
    shapes = shapes.take(pc.index_in(batch.column("version_id"), value_set=shapes.column("id")))
    columns: dict[str, Any] = {
        name: each.column(name) for each in (shapes, batch) for name in each.schema.names
    }
    for name in ("commit_seq", "xid"):
        columns[name] = rows[name].combine_chunks().take(of)
    columns["actor"] = actors_of(batch, of, group)
    columns[PARTITION] = days_of(of, group)
    versions = rows["commit_version"].combine_chunks()
    lsns = list(map(lsn_text, versions.to_pylist()))
    columns["_commit_version"] = versions.take(of)
    columns["commit_lsn"] = pa.array(lsns, pa.string()).take(of)
    times = rows["commit_us"].combine_chunks().cast(pa.timestamp("us", "UTC"))
    columns["commit_time"] = times.take(of)
    columns["incarnation"] = pa.repeat(pa.scalar(part.incarnation, pa.int32()), batch.num_rows)
    words = pc.dictionary_encode(batch.column("op"))
    names = pa.array([WORDS[code] for code in words.dictionary.to_pylist()], pa.string())
    columns["op"] = names.take(words.indices)
    return pa.RecordBatch.from_arrays([columns[item.name] for item in UNTYPED], schema=UNTYPED)


def read_events(
    connection: StoreConnection, part: Slice, within: SliceRange | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield truncations and logical messages of the slice as ``slice_schemas.EVENTS``."""
    operations = [each for each in wanted_operations(part) if each in ("truncate", "message")]
    if not operations:
        return
    having = sql.SQL("(t.truncates > 0 OR t.messages > 0 OR t.state = 'message')")
    for batch in _records(connection, part, within, operations, having):
        lines = [{**line, **_event(line["new"])} for line in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(lines, EVENTS)


def _event(text: str | None) -> dict[str, Any]:
    """Return the fields that a truncation or message keeps as its new row; a mark stays JSON."""
    fields: dict[str, Any] = orjson.loads(text) if text else {}
    if isinstance(fields.get("content"), dict):
        fields["content"] = orjson.dumps(fields["content"]).decode()
    return fields


def read_transactions(
    connection: StoreConnection, part: Slice, within: SliceRange | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the slice's transactions as ``slice_schemas.TRANSACTIONS``.

    Where tables or operations are chosen, yield transactions with at least one of these changes.
    """
    where = transactions_of(connection, part, within)
    fields = {item.name: _packed_as(item) for item in TRANSACTIONS if item.name != "incarnation"}
    columns = _columns(part, fields)
    after, rows = -1, _PAGE
    while rows == _PAGE:
        query = sql.SQL(_TRANSACTIONS).format(
            packing=packing(fields), columns=columns, where=where,
            after=after, page=_PAGE,
        )  # fmt: skip
        [(rows, *values)] = connection.execute(query, binary=True).fetchall()
        if not rows:
            return
        arrays = unpacked(values, fields, rows)
        after = arrays["commit_seq"][-1].as_py()
        arrays["incarnation"] = pa.repeat(part.incarnation, rows)
        each = zip(arrays["actor"].to_pylist(), arrays["actors"].to_pylist(), strict=True)
        arrays["actors"] = pa.array(
            [
                named([actor] if several is None else orjson.loads(several))
                for actor, several in each
            ],
            pa.list_(pa.string()),
        )
        yield pa.RecordBatch.from_arrays(
            [arrays[item.name].cast(item.type) for item in TRANSACTIONS], schema=TRANSACTIONS
        )


def _packed_as(item: pa.Field) -> Fixed | Texts:
    if pa.types.is_timestamp(item.type):
        return MOMENT
    if pa.types.is_string(item.type) or item.name == "actors":
        return TEXT
    return LSN if item.name == "_commit_version" else INT64


def _columns(part: Slice, names: Iterable[str]) -> sql.Composable:
    shown = {name: _column(name, part) for name in names}
    shown["size_bytes"] = sql.SQL("CASE WHEN {} THEN t.size_bytes END").format(shows_size(part))
    return sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(column, sql.Identifier(name)) for name, column in shown.items()
    )


def _column(name: str, part: Slice) -> sql.Composable:
    if name == "context":
        # The context came in a logical message.
        return sql.SQL("t.context::text" if part.narrowed.in_messages else "NULL::text")
    if name == "_commit_version":
        return sql.SQL("t.commit_lsn")
    if name == "actors":
        return sql.SQL("jsonb_path_query_array(t.actors, '$.actor')::text")
    column = sql.SQL("t.{}").format(sql.Identifier(name))
    sent = TRANSACTIONS.field(name).type
    if pa.types.is_timestamp(sent):
        return column
    return sql.SQL("{}::text" if pa.types.is_string(sent) else "{}::bigint").format(column)
