"""Each key has the right row after a batch in which rows move from key to key."""

import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from replview.spark.lake.moved_rows import MovedRows

_COLUMNS = {"id": "id", "a": "a", "big": "Big"}
_SCHEMA = pa.schema(
    [
        ("_key", pa.struct([("id", pa.int64())])),
        ("_change_type", pa.string()),
        ("_absent", pa.list_(pa.string())),
        ("_is_whole", pa.bool_()),
        ("_commit_seq", pa.int64()),
        ("id", pa.int64()),
        ("a", pa.string()),
        ("big", pa.string()),
        ("_pg_raw", pa.map_(pa.string(), pa.string())),
    ]
)


@dataclass
class Lines:
    """The lines of a batch; ``full``: the server sends whole rows before changes."""

    full: bool = False
    lines: list[dict[str, Any]] = field(default_factory=list)
    transaction: int = 0

    def add(self, kind: str, key: int, a: str | None = None, big: str | None = None, **more: Any):
        """Add a line; without ``big`` it was not sent."""
        absent = [] if big is not None else ["big"]
        line = {"_key": {"id": key}, "id": key, "a": a, "big": big, "_change_type": kind,
                "_absent": absent, "_is_whole": True, "_commit_seq": self.transaction,
                "_pg_raw": []}  # fmt: skip
        self.lines.append({**line, **more})

    def before(self, kind: str, key: int, a: str, big: str) -> None:
        """Add a line with the row before a change: as a whole, or its key."""
        if self.full:
            self.add(kind, key, a, big)
        else:
            self.add(kind, key, _is_whole=False)

    def rows(self) -> dict[int, tuple[str, str | None] | None]:
        """Return the row of each key; None: no row. An unknown ``big`` is ``?``."""
        table = pa.Table.from_pylist(self.lines, _SCHEMA)
        found: dict[int, tuple[str, str | None] | None] = {}
        for row in MovedRows(table, _COLUMNS, ["big"]).rows().to_pylist():
            assert row["id"] == row["_key"]["id"]
            big = "?" if row["_absent"] else row["big"]
            found[row["id"]] = None if row["_change_type"] == "delete" else (row["a"], big)
        return found


def test_a_row_takes_its_unsent_value_to_its_next_key() -> None:
    batch = Lines()
    batch.add("current", 1, "a", "x")
    batch.add("update_preimage", 1, _is_whole=False)
    batch.add("update_postimage", 2, "moved")
    assert batch.rows() == {1: None, 2: ("moved", "x")}


def test_a_row_that_was_there_before_the_record_has_an_unknown_value() -> None:
    batch = Lines()
    batch.add("update_preimage", 1, _is_whole=False)
    batch.add("update_postimage", 2, "moved")
    assert batch.rows() == {1: None, 2: ("moved", "?")}


def test_the_value_of_a_deleted_row_is_not_that_of_the_next_one() -> None:
    batch = Lines()
    batch.add("current", 1, "a", "x")
    batch.add("current", 2, "b", "y")
    batch.add("delete", 1, _is_whole=False)
    batch.add("update_preimage", 2, _is_whole=False)
    batch.add("update_postimage", 1, "b")
    batch.add("update_postimage", 1, "c")
    assert batch.rows() == {1: ("c", "y"), 2: None}


def test_a_statement_swaps_two_rows_under_a_deferrable_key() -> None:
    batch = Lines(full=True)
    batch.add("current", 1, "a", "x")
    batch.add("current", 2, "b", "y")
    batch.transaction = 1
    for old, new, a, big in ((1, 2, "a", "x"), (2, 1, "b", "y")):
        batch.before("update_preimage", old, a, big)
        batch.add("update_postimage", new, a)
    assert batch.rows() == {1: ("b", "y"), 2: ("a", "x")}


def test_a_baselines_row_replaces_what_was_known() -> None:
    batch = Lines()
    batch.add("update_preimage", 1, _is_whole=False)
    batch.add("update_postimage", 2, "moved")
    batch.transaction = 1
    batch.add("snapshot", 2, "moved", "read")
    batch.transaction = 2
    batch.add("update_postimage", 2, "again")
    assert batch.rows() == {1: None, 2: ("again", "read")}


def test_the_text_of_a_value_that_its_type_cannot_hold_goes_with_the_value() -> None:
    batch = Lines()
    batch.add("current", 1, "a", "", _pg_raw=[("Big", "-infinity"), ("a", "old")])
    batch.add("update_preimage", 1, _is_whole=False)
    batch.add("update_postimage", 2, "b")
    table = pa.Table.from_pylist(batch.lines, _SCHEMA)
    rows = {row["id"]: row for row in MovedRows(table, _COLUMNS, ["big"]).rows().to_pylist()}
    assert rows[2]["_pg_raw"] == [("Big", "-infinity")]


def test_a_row_that_no_change_touched_keeps_its_unknown_columns() -> None:
    batch = Lines(full=True)
    batch.add("current", 1, None, "x", _absent=["a"])
    batch.add("insert", 2, "b", "y")
    batch.transaction = 1
    batch.before("update_preimage", 2, "b", "y")
    batch.add("update_postimage", 1, "b", "y")
    batch.before("delete", 1, "b", "y")
    table = pa.Table.from_pylist(batch.lines, _SCHEMA)
    rows = {row["id"]: row for row in MovedRows(table, _COLUMNS, []).rows().to_pylist()}
    assert (rows[1]["_change_type"], rows[1]["_absent"]) == ("update_postimage", ["a"])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seed", range(200))
def test_random_batches_give_the_table(seed: int, full: bool) -> None:
    """Keys are deferrable under FULL: any row may have any key until its transaction ends."""
    dice = random.Random(seed)
    batch = Lines(full)
    table = [[key, f"a{key}", f"x{key}"] for key in dice.sample(range(5), 3)]
    for key, a, big in table:
        batch.add("current", key, a, big)
    for transaction in range(1, 6):
        batch.transaction = transaction
        _play(dice, batch, table)
    expected = {key: (a, big) for key, a, big in table}
    found = batch.rows()
    assert {key: row for key, row in found.items() if row} == expected
    assert expected.keys() <= found.keys()


def _play(dice: random.Random, batch: Lines, table: list[list[Any]]) -> None:
    """One transaction; at its end every key is one row's."""
    steps = dice.randrange(1, 6)
    for number in range(1000):
        row = dice.choice(table) if table else None
        keys = [each[0] for each in table]
        if number >= steps and len({*keys}) == len(keys):
            return
        free = [key for key in range(5) if batch.full or key not in keys]
        value = f"{batch.transaction}/{number}"
        what = dice.random()
        if row is None or (what < 0.2 and free and len(table) < 4):
            if free:
                table.append([dice.choice(free), value, f"x{value}"])
                batch.add("insert", *table[-1])
        elif what < 0.4:
            table.remove(row)
            batch.before("delete", *row)
        else:
            key = dice.choice(free) if free and what < 0.8 else row[0]
            if batch.full or key != row[0]:
                batch.before("update_preimage", *row)
            row[:] = [key, value, f"x{value}" if what > 0.7 else row[2]]
            batch.add("update_postimage", key, value, row[2] if what > 0.7 else None)
