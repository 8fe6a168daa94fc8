"""Compares a slot's record with its source: nothing lost, nothing doubled, order kept.

Every stored change is applied in the order of history; the result must equal the source's tables.
"""

from collections import defaultdict
from typing import Any

from tests.support.received_slots import ReceivedSlot
from tests.support.source_databases import SourceDatabase

#: Table → the columns of its key.
KEYS = {"t": ("id",), "ledger": ("writer", "n")}

Rows = dict[tuple[str, ...], dict[str, str | None]]

_CHANGES = """
SELECT i.number AS incarnation, t.commit_seq, t.xid, c.seq, c.op, c.old, c.new, r.table
FROM change c
JOIN transaction t ON t.id = c.transaction_id AND t.state = 'committed'
JOIN slot_incarnation i ON i.id = t.incarnation_id AND i.slot_id = %s
JOIN relation r ON r.id = c.relation_id
WHERE NOT EXISTS (SELECT FROM aborted_subtransaction a
                  WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
ORDER BY i.number, t.commit_seq, c.seq
"""


def assert_true_record(slot: ReceivedSlot, *, skipped: int = 0) -> int:
    """Fail unless the record equals the source; returns how many transactions it holds.

    ``skipped``: as many transactions were left out by somebody's decision.
    """
    log = slot.sentences()
    _assert_order(slot, log)
    replayed, entered = _replay(slot, log)
    with slot.source.connect() as session:
        for table, rows in replayed.items():
            _assert_equal(table, rows, _rows_of(slot.source, table), log)
        ledger = session.execute("SELECT count(*) FROM ledger").fetchone()
    assert ledger is not None
    for writer, numbers in entered.items():
        assert numbers == sorted(numbers), f"writer {writer} out of order\n{log}"
        assert len(numbers) == len(set(numbers)), f"writer {writer} doubled\n{log}"
    assert sum(map(len, entered.values())) == ledger[0] - skipped
    return sum(map(len, entered.values()))


def _assert_order(slot: ReceivedSlot, log: str) -> None:
    """commit_seq without holes in each incarnation, positions rising with it."""
    incarnations: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for transaction in slot.transactions("committed", "message", "skipped"):
        incarnations[transaction["incarnation"]].append(transaction)
    for incarnation, transactions in incarnations.items():
        places = [t["commit_seq"] for t in transactions]
        assert places == list(range(1, len(places) + 1)), (
            f"incarnation {incarnation}: {places}\n{log}"
        )
        ends = [t["end_position"] for t in transactions if t["end_position"] is not None]
        assert ends == sorted(set(ends)), f"incarnation {incarnation}: positions fall\n{log}"
    left = slot.transactions("receiving", "streaming")
    assert not left, f"left open: {left}\n{log}"


def _replay(slot: ReceivedSlot, log: str) -> tuple[dict[str, Rows], dict[str, list[int]]]:
    """The tables as the record has them, and each writer's entries in the order of history."""
    tables: dict[str, Rows] = {table: {} for table in KEYS}
    entered: dict[str, list[int]] = defaultdict(list)
    for change in slot.store.rows(_CHANGES, [slot.slot_id]):
        table, new = change["table"], change["new"]
        if table not in KEYS:
            continue
        rows = tables[table]
        key = tuple((change["old"] or new)[column] for column in KEYS[table])
        where = (
            f"{change['op']} {table} {key} at {change['incarnation']}/{change['commit_seq']}\n{log}"
        )
        if change["op"] == "I":
            assert key not in rows, f"doubled: {where}"
            rows[key] = new
            if table == "ledger":
                entered[key[0]].append(int(key[1]))
            continue
        assert key in rows, f"lost: {where}"
        before = rows.pop(key)
        if change["op"] == "U":
            rows[tuple(new[column] for column in KEYS[table])] = {**before, **new}
    return tables, entered


def _rows_of(source: SourceDatabase, table: str) -> Rows:
    with source.connect() as session:
        found = session.execute(f"SELECT to_jsonb(t) FROM {table} t").fetchall()
    rows = ({k: None if v is None else str(v) for k, v in row.items()} for (row,) in found)
    return {tuple(str(row[column]) for column in KEYS[table]): row for row in rows}


def _assert_equal(table: str, stored: Rows, real: Rows, log: str) -> None:
    lost = sorted(real.keys() - stored.keys())
    invented = sorted(stored.keys() - real.keys())
    assert not lost, f"{len(lost)} rows of {table} lost, first {lost[:3]}\n{log}"
    assert not invented, f"{len(invented)} rows of {table} too many, first {invented[:3]}\n{log}"
    differing = [key for key in real if real[key] != stored[key]]
    assert not differing, f"{len(differing)} rows of {table} differ, first {differing[:3]}\n{log}"
