"""Stored changes a second with two of the eight columns masked, against none, on the same WAL.

Both are receivers with every index and feature on; which of them goes first alternates. Of the
masked ones it is looked at that no value was kept, and of the others that all were.
"""

import psycopg

from tests.benchmarks.bench_servers import Bench, bench
from tests.benchmarks.pairs import Pairs, in_turn
from tests.benchmarks.processes import Failed
from tests.benchmarks.report import Result
from tests.benchmarks.stack import sampling

PAIRS = 5
MASKED = ("status", "note")
BAR = 0.9

_ADD = """
    INSERT INTO mask_rule (table_pattern, column_pattern, type_pattern, "when", note, created_by,
                           created_at)
    VALUES ('public.measured', %s, '', 'ingest', '', 'bench', now())
"""
_KEPT = """
    SELECT count(*) FILTER (WHERE jsonb_typeof(c.new->'note') = 'string'), count(*)
    FROM (SELECT t.id FROM transaction t JOIN slot s ON s.incarnation_id = t.incarnation_id
          WHERE s.name = %s LIMIT 100) t
    JOIN change c ON c.transaction_id = t.id AND c.op = 'I'
"""


def two_columns(*, quick: bool) -> list[Result]:
    """A hundred rows a transaction, inserts of eight columns."""
    rows = 200_000 if quick else 600_000
    found = []
    with bench() as servers, sampling(servers):
        for number in range(3 if quick else PAIRS):
            masked, plain = f"masked_{number}", f"plain_{number}"
            with servers.slots(masked, plain):
                end_lsn = servers.load(rows, 100)
                seconds = in_turn(
                    number,
                    lambda slot=masked, end=end_lsn: _masked_seconds(servers, slot, end),  # type: ignore[misc]
                    lambda slot=plain, end=end_lsn: _plain_seconds(servers, slot, end),  # type: ignore[misc]
                )
            found.append([rows / taken for taken in seconds])
    pairs = Pairs([pair[0] for pair in found], [pair[1] for pair in found])
    detail = f"{pairs.our_median:,.0f} of {pairs.their_median:,.0f} changes/s; pairs {pairs.each}"
    what = "stored with two columns masked / with none, 100 rows a transaction"
    return [Result.at_least(what, pairs.ratio, BAR, detail=detail)]


def _masked_seconds(servers: Bench, slot: str, end_lsn: str) -> float:
    with psycopg.connect(servers.store.dsn("replview"), autocommit=True) as store:
        for column in MASKED:
            store.execute(_ADD, [column])
        try:
            seconds = servers.stored_seconds(slot, end_lsn)
        finally:
            store.execute("DELETE FROM mask_rule")
    _check(servers, slot, masked=True)
    return seconds


def _plain_seconds(servers: Bench, slot: str, end_lsn: str) -> float:
    seconds = servers.stored_seconds(slot, end_lsn)
    _check(servers, slot, masked=False)
    return seconds


def _check(servers: Bench, slot: str, *, masked: bool) -> None:
    kept, rows = servers.store_row(_KEPT, slot) or (0, 0)
    if not rows or kept != (0 if masked else rows):
        raise Failed(f"of {rows} rows of {slot} the store holds {kept} values of a column")
