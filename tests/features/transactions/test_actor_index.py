"""Transactions of an actor who is seldom named, and never last, are found by an index."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from replview.access.visibility import reading_session
from replview.store.read.changes.scan import ChangeScan
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.transactions.listing import find_transactions
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert

_MANY = 60_000
_FILL = """
    INSERT INTO transaction (id, incarnation_id, commit_seq, xid, state, streamed, inserts, updates,
        deletes, truncates, messages, size_bytes, aborted_changes, relations, received_at,
        commit_lsn, commit_time, actor, actor_grade, actors)
    SELECT -n, %s, n + 10, n, 'committed', false, 1, 0, 0, 0, 0, 100, 0, '{}', now(),
           '0/0'::pg_lsn + n, now(), 'app ' || n %% 20, 'claimed',
           CASE WHEN n %% 10 = 0 THEN jsonb_build_array(
               jsonb_build_object('seq', 0, 'actor', CASE n WHEN 7770 THEN 'rare' ELSE 'job' END),
               jsonb_build_object('seq', 2, 'actor', 'app ' || n %% 20)) END
    FROM generate_series(1, %s) n
"""


@pytest.fixture
def history(db) -> History:
    make_partitions()
    history = History()
    history.commit(insert(1), actor="app 1", actor_grade="claimed")
    with connection.cursor() as cursor:
        cursor.execute(_FILL, [history.incarnation.pk, _MANY])
        cursor.execute("ANALYZE transaction")
    history.incarnation.commit_seq = _MANY + 10
    history.incarnation.save()
    return history


def plans_for(history: History, actor: str) -> tuple[list[int], list[str]]:
    """The places of the newest transactions of an actor, and how the server found them."""
    words = {"actor": actor, "slot": str(history.slot)}
    with CaptureQueriesContext(connection) as asked:
        found = find_transactions(reading_session(), TransactionFilter.from_words(words))
        wanted = WantedChanges.from_words(history.slot, words)
        scan = ChangeScan(reading_session(), wanted, forwards=False)
        assert next(scan.transactions())[: len(found.rows)] == found.rows
    statements = [one["sql"] for one in asked if "actors @>" in one["sql"]]
    assert len(statements) >= 2
    plans = []
    for statement in statements:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) " + statement)
            plans.append("\n".join(line for [line] in cursor.fetchall()))
    return [row.commit_seq or 0 for row in found.rows], plans


def test_an_actor_who_is_rarely_named_does_not_have_all_of_history_read(history: History) -> None:
    places, plans = plans_for(history, "rare")

    assert places == [7780]
    for plan in plans:
        assert "transaction_by_actor" in plan, plan
        assert "transaction_by_actors" in plan, plan
        assert "Rows Removed by Filter" not in plan, plan


def test_one_who_is_often_the_last_is_read_in_order(history: History) -> None:
    places, plans = plans_for(history, "app 1")

    assert len(places) == 50
    assert [(place - 10) % 20 for place in places] == [1] * 50
    for plan in plans:
        # (One transaction in twenty; a page of a scan has 500.)
        assert all(int(rows) <= 1100 for rows in re.findall(r"rows=(\d+)", plan)), plan
        assert all(int(n) <= 12_000 for n in re.findall(r"Removed by Filter: (\d+)", plan)), plan
