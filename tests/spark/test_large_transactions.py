"""A transaction that is too large to be read as one: typed, exact, and by several tasks."""

import pytest

from replview.parquet import reading
from replview.parquet.reading import transactions
from tests.spark.awkward import as_rows, expected_rows, write_awkward

pytestmark = pytest.mark.slow


def test_awkward_values_of_a_large_transaction_are_exact_and_evenly_parted(
    source, record, store_dsn, monkeypatch
) -> None:
    recording = write_awkward(source, record)
    # Rows that move, and values that are not sent.
    moves = 'UPDATE "Awkward" SET id = id + 1000;' * 40
    source.run(
        f"BEGIN; {moves} SAVEPOINT s; {moves} ROLLBACK TO s;"
        """UPDATE "Awkward" SET feeling = 'sad', tags = '{a,"b,c",NULL}'; DELETE FROM "Awkward";"""
        "COMMIT"
    )
    recording.caught_up()
    monkeypatch.setattr(transactions, "GROUP_CHANGES", 5)
    with reading.connect(store_dsn) as store:
        whole = reading.resolve(store, reading.SliceRequest(slot=recording.slot.name))
        table = next(t for t in reading.tables_of(store, whole) if t.name == "public.Awkward")
        expected = expected_rows(table)
        assert as_rows(reading.read_typed(store, whole, table)) == expected
        ranges = reading.cut(store, whole, table, parts=6)
        parts = [as_rows(reading.read_typed(store, whole, table, each)) for each in ranges]
        assert [row for rows in parts for row in rows] == expected
        of_one = [each for each in ranges if each.after[0] == each.through[0]]
        assert len(of_one) >= 4
        changes = [sum(row["_change_type"] != "update_preimage" for row in rows) for rows in parts]
        assert changes == [each.rows for each in ranges]
        assert max(changes) - min(changes) <= 3
        records = [
            batch.num_rows
            for each in reading.cut(store, whole, None, rows_per_part=50)
            for batch in reading.read_untyped(store, whole, each)
        ]
        assert sum(records) == sum(b.num_rows for b in reading.read_untyped(store, whole))
