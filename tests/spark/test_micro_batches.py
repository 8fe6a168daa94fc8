"""Batches of a stream end where they should, and planning one does not depend on the backlog."""

from itertools import pairwise

import psycopg
import pytest

from replview.parquet.reading import StoreProblem
from replview.spark import data_source
from replview.spark.data_source import ReplviewDataSource
from replview.spark.options import Options
from replview.spark.stream_offsets import changes_between, end_of_batch
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

#: Each has one change; every tenth is of our table.
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
    """Return the rows of ``transaction`` that ended sessions have read."""
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
    options = {"dsn": store_dsn, "relation": relation}
    source = ReplviewDataSource(options)
    reader = source.streamReader(source.schema())
    costs, backlogs = [], [0, 5_000, 80_000]
    with psycopg.connect(store_dsn, autocommit=True) as store:
        for former, backlog in pairwise(backlogs):
            store.execute(_TRANSACTIONS.format(**made, first=former + 1, last=backlog))
            history.incarnation.commit_seq = backlog
            history.incarnation.save()
            store.execute("VACUUM ANALYZE transaction")
            # At the beginning of the record, and behind most of it.
            for at in (0, backlog - 2_000):
                before = rows_read(store)
                end = end_of_batch(Options.parse(options), {"1": at}, 200)
                assert reader.partitions({"1": at}, end)
                costs.append(rows_read(store) - before)
                assert end == {"1": at + (2_000 if relation else 200)}
    assert 0 < max(costs) <= 1.2 * costs[0]
    # A batch has at least one transaction, and no more than there is.
    assert end_of_batch(Options.parse(options), {"1": 79_998}, 200) == {"1": 80_000}
    backlog = changes_between(Options.parse(options), {"1": 40_000}, {"1": 80_000})
    assert backlog == (4_000 if relation else 40_000)


def test_a_stream_begins_and_ends_at_offsets(store_dsn: str) -> None:
    make_partitions()
    history = History()
    for number in range(1, 6):
        history.commit(insert(number))

    def options(up_to: str) -> dict[str, str]:
        return {"dsn": store_dsn, "upTo": up_to, "relation": "public.orders"}

    assert end_of_batch(Options.parse(options('{"1": 3}')), {}) == {"1": 3}
    assert end_of_batch(Options.parse(options('{"1": 3}')), {}, 2) == {"1": 2}
    assert end_of_batch(Options.parse(options('{"1": 3}')), {"1": 4}) == {"1": 4}
    assert end_of_batch(Options.parse(options('{"1": 9}')), {"1": 4}) == {"1": 5}
    assert end_of_batch(Options.parse(options('{"2": 9}')), {}) == {}
    source = ReplviewDataSource(options('{"1": 3}'))
    reader = source.streamReader(source.schema())
    [partition] = reader.partitions({"1": 1}, {"1": 3})
    [batch] = reader.read(partition)
    assert batch.column("id").to_pylist() == ["2", "3"]
    with pytest.raises(StoreProblem, match=r"up to commit_seq 4, and is to end at 3"):
        reader.partitions({"1": 4}, {"1": 3})
    assert reader.initialOffset() == {}
    later = ReplviewDataSource({**options(""), "startingOffsets": '{"1": 3}'})
    assert later.streamReader(later.schema()).initialOffset() == {"1": 3}
    for wrong in ("3", '{"1": "x"}', "{1: 3}"):
        with pytest.raises(StoreProblem, match="upTo is no offset"):
            Options.parse(options(wrong))


def test_a_limit_that_pyspark_would_ignore_is_refused(store_dsn: str, monkeypatch) -> None:
    make_partitions()
    History().commit(insert(1))
    monkeypatch.setattr(data_source, "limits_batches", lambda: False)
    source = ReplviewDataSource({"dsn": store_dsn, "maxRowsPerTrigger": "20"})
    with pytest.raises(StoreProblem) as caught:
        source.streamReader(source.schema())
    assert "maxRowsPerTrigger" in caught.value.cause
    assert "upTo" in caught.value.remedy
    endless = ReplviewDataSource({"dsn": store_dsn})
    assert endless.streamReader(endless.schema()).latestOffset() == {"1": 1}
