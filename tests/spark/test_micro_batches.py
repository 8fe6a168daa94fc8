"""Planning a micro-batch costs what the batch takes, not what waits behind it."""

from itertools import pairwise

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from replview.spark.data_source import ReplviewDataSource
from tests.support.history_rows import History
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

#: Of one change each; every tenth is of our table.
_TRANSACTIONS = """
    INSERT INTO transaction (id, incarnation_id, commit_seq, xid, state, streamed, commit_lsn,
        end_lsn, commit_time, inserts, updates, deletes, truncates, messages, size_bytes, relations,
        aborted_changes, received_at)
    SELECT n, {incarnation}, n, n, 'committed', false, '0/0'::pg_lsn + n * 10,
           '0/0'::pg_lsn + n * 10 + 5, now(), 1, 0, 0, 0, 0, 9,
           jsonb_build_object(CASE WHEN n % 10 = 0 THEN '{ours}' ELSE '{other}' END,
                              '[1, 0, 0, 0]'::jsonb), 0, now()
    FROM generate_series({first}, {last}) n
"""


def rows_read(store: psycopg.Connection) -> int:
    """Of transactions, by sessions that have ended."""
    gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = %s)"
    wait_for(lambda: store.execute(gone, ["replview spark"]).fetchone()[0])
    [(rows,)] = store.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'transaction'"
    )
    return rows


@pytest.mark.parametrize("relation", ["", "public.orders"])
def test_a_batch_is_planned_at_the_cost_of_what_it_takes(store_dsn: str, relation: str) -> None:
    history = History()
    made = {
        "incarnation": history.incarnation.pk, "ours": history.orders.relation_id,
        "other": history.table("other", 16385, ["id"]).relation_id,
    }  # fmt: skip
    source = ReplviewDataSource({"dsn": store_dsn, "relation": relation})
    reader = source.streamReader(source.schema())
    costs, backlogs = [], [0, 5_000, 80_000]
    with psycopg.connect(store_dsn, autocommit=True) as store:
        for former, backlog in pairwise(backlogs):
            store.execute(_TRANSACTIONS.format(**made, first=former + 1, last=backlog))
            history.incarnation.commit_seq = backlog
            history.incarnation.save()
            store.execute("VACUUM ANALYZE transaction")
            before = rows_read(store)
            end = reader.latestOffset({}, ReadMaxRows(200))
            assert reader.partitions({}, end)
            costs.append(rows_read(store) - before)
            assert end == {"1": 2_000 if relation else 200}
    assert costs[1] <= 1.2 * costs[0]
    # Nobody is given less than one transaction, or more than there is.
    assert reader.latestOffset({"1": 79_998}, ReadMaxRows(200)) == {"1": 80_000}
