"""Columns of lists of changes: each names the field of the API's record that has its value."""

from types import SimpleNamespace
from typing import Any

import pytest

from replview.features.find import columns as find
from replview.features.rows import columns as rows
from replview.store.read.changes.records import as_json, table_part, transaction_part
from replview.store.read.rows import ChangeRow, TransactionRow
from replview.ui.columns import Column


def record() -> dict[str, Any]:
    transaction = TransactionRow(*[None] * (len(TransactionRow._fields) - 1))  # type: ignore[arg-type]
    change = ChangeRow(
        transaction_id=7, seq=1, lsn="0/10", subxid=None, op="I", old_kind=None, old=None,
        new={"id": "1"}, relation_id=1, key_hash=None, old_key_hash=None, schema="public",
        table="orders", version=1, replica_identity="DEFAULT",
        columns=[{"name": "id", "type": "bigint", "key": True}], key_columns=["id"],
    )  # fmt: skip
    slot: Any = SimpleNamespace(name="replview")
    return as_json(change, transaction_part(transaction, slot, 1), table_part(change, 16384))


@pytest.mark.parametrize("columns", [find.COLUMNS, rows.COLUMNS])
def test_a_column_names_the_field_of_the_api_with_its_value(
    columns: tuple[Column[Any], ...],
) -> None:
    assert {column.api_field for column in columns} <= record().keys()


def test_a_found_change_has_all_its_cells_in_or_beside_its_line() -> None:
    assert (*find.IN_LINE, *find.BESIDE_LINE) == find.COLUMNS
