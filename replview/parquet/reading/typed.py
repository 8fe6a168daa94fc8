"""Read a table's changes as typed rows."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replview.parquet.pg_values import convert_array
from replview.parquet.reading import completing
from replview.parquet.reading.batches import group_batches
from replview.parquet.reading.completing import OWN_FIELDS as DERIVATION_FIELDS
from replview.parquet.reading.connecting import StoreConnection
from replview.parquet.reading.packed_values import PLAIN, TEXT
from replview.parquet.reading.places import everything, touches_keys
from replview.parquet.reading.row_images import row_images
from replview.parquet.reading.transactions import (
    TransactionGroup,
    actors_of,
    days_of,
    groups,
    placed,
)
from replview.parquet.reading.typed_query import (
    KINDS,
    MOST_COLUMNS,
    OWN_FIELDS,
    TRUNCATE,
    UNSENT_FIELDS,
    Cells,
    is_plain,
    typed_query,
)
from replview.parquet.slice_schemas import DAY, PARTITION, SliceColumn
from replview.parquet.slices import Slice, SliceRange, SliceTable


def read_typed(
    connection: StoreConnection, part: Slice, table: SliceTable, within: SliceRange | None = None,
    *, dated: bool = False,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield rows of exactly ``table.arrow_schema()``, ordered by (commit_seq, seq).

    With ``dated`` they end with the day of the commit, which an export's files do not have. An
    update that has its row before gives two. Memory holds one batch, whatever the range's size.
    """
    columns, schema = table.columns, table.arrow_schema()
    schema = schema.append(DAY) if dated else schema
    derived = part.before != "sent"
    own = {**OWN_FIELDS, **(DERIVATION_FIELDS if derived else {})}
    values = {f"x{n}": PLAIN if is_plain(c.arrow) else TEXT for n, c in enumerate(columns)}
    images = row_images(connection, part, table)
    query = typed_query(connection, part, table, columns, images)
    cells = None
    if len(columns) <= MOST_COLUMNS and not part.masked_of(table.name):
        cells = Cells.of(connection, table, own, images)
    range_, having = within or everything(part), touches_keys(table)
    found = groups(connection, part, range_, [table.relation_id], having)
    with closing(completing.SideConnection(connection)) as beside:
        rows_before = completing.Derivation(beside, part, table, columns)
        for group, batch in group_batches(
            connection, found, query, {**own, **UNSENT_FIELDS, **values}, cells
        ):
            for whole in rows_before.filled(batch) if derived else (batch,):
                for some in completing.portions(whole):
                    yield _typed(some, group, table, columns, schema, beside)


def _typed(
    batch: pa.RecordBatch,
    group: TransactionGroup,
    table: SliceTable,
    columns: Sequence[SliceColumn],
    schema: pa.Schema,
    beside: completing.SideConnection,
) -> pa.RecordBatch:
    raws: dict[int, list[tuple[str, str]]] = {}
    batch, of = placed(batch, group)
    marked = completing.marks_of(batch, KINDS, beside)
    arrays: list[Any] = []
    for number, column in enumerate(columns):
        values, marks = completing.unmarked(marked, batch.column(f"x{number}"), column.source_name)
        converted = convert_array(values, column.arrow)
        found = {**converted.raw, **marks}
        if found and is_plain(column.arrow):
            found = {place: completing.as_mark(text) for place, text in found.items()}
        for place, text in sorted(found.items()):
            raws.setdefault(place, []).append((column.source_name, text))
        arrays.append(converted.array)
    own = _own(batch, of, group, table)
    own["_not_sent"] = _name_lists(batch.column("missing"), columns)
    if table.truncations:
        truncated = pc.equal(batch.column("kind"), TRUNCATE)
        own["_not_sent"] = pc.if_else(truncated, None, own["_not_sent"])
    own["_pg_raw"] = _raw_maps(raws, batch.num_rows)
    own[PARTITION] = days_of(of, group)
    arrays += [own[name] for name in schema.names[len(columns) :]]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _own(
    batch: pa.RecordBatch, of: object, group: TransactionGroup, table: SliceTable
) -> dict[str, object]:
    """Return the columns beside the table's own."""
    rows = group.rows
    versions = pa.array([version.id for version in table.versions], pa.int64())
    numbers = pa.array([version.number for version in table.versions], pa.int32())
    times = rows["commit_us"].combine_chunks().cast(pa.timestamp("us", "UTC"))

    def of_rows(name: str) -> Any:
        return rows[name].combine_chunks().take(of)

    return {
        "_change_type": pa.array(KINDS).take(batch.column("kind")),
        "_commit_version": of_rows("commit_version"),
        "_commit_timestamp": times.take(of),
        "_lsn": batch.column("lsn"),
        "_xid": of_rows("xid"),
        "_commit_seq": of_rows("commit_seq"),
        "_seq": batch.column("seq"),
        "_actor": actors_of(batch, of, group),
        "_relation_version": numbers.take(pc.index_in(batch.column("version_id"), versions)),
        "_derived": batch.column(completing.DERIVED)
        if completing.DERIVED in batch.schema.names
        else pa.repeat(pa.scalar(False), batch.num_rows),
    }


def _name_lists(texts: pa.Array, columns: Sequence[SliceColumn]) -> pa.Array:
    """Return lists of column names from their numbers; few distinct lists occur."""
    coded = pc.dictionary_encode(texts)
    lists = [
        [columns[int(number)].source_name for number in text.rstrip(",").split(",")]
        for text in coded.dictionary.to_pylist()
    ]
    places = pc.add(pc.fill_null(coded.indices, -1), 1)
    return pa.array([[], *lists], pa.list_(pa.string())).take(places)


def _raw_maps(raws: dict[int, list[tuple[str, str]]], rows: int) -> pa.Array:
    """Return maps from a column to the text that its type could not hold."""
    if not raws:
        nothing = pa.array([], pa.string())
        offsets = pa.repeat(pa.scalar(0, pa.int32()), rows + 1)
        return pa.MapArray.from_arrays(offsets, nothing, nothing)
    maps = [raws.get(place, ()) for place in range(rows)]
    return pa.array(maps, pa.map_(pa.string(), pa.string()))
