"""A live filter lets the same transactions through as its SQL form."""

import random
from typing import Any

import pytest
from django.db import connection
from psycopg import sql

from replview.access.visibility import reading_session
from replview.live.filters import LiveFilter
from replview.live.summaries import TableNames
from replview.store.models import Transaction
from replview.store.read.changes.of_transaction import matching_text
from replview.store.read.history import transactions_by_id
from replview.store.read.transactions.transaction_filter import TransactionFilter, conditions_of
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import WHEN, History, insert


@pytest.mark.parametrize(
    ("states", "only_open"),
    [
        ("open", True),
        ("streaming,prepared", True),
        ("open,committed", False),
        ("committed", False),
        ("", False),
    ],
)
def test_it_knows_when_history_need_not_be_searched(states: str, only_open: bool) -> None:
    assert LiveFilter.from_words({"states": states}).only_open is only_open


@pytest.fixture
def history(db) -> History:
    """Two tables, of which one had another name before."""
    make_partitions()
    history = History()
    history.table("items", 16385, ["id"])
    history.table("former", 16384, ["id"], number=2)
    return history


def commit_at_random(history: History, dice: random.Random) -> None:
    """A transaction of any state, by one actor, several or an unknown one."""
    state = dice.choice(Transaction.State.values)
    counts = {key: [dice.choice([0, 0, 1, 5]) for _ in range(4)] for key in relation_keys(history)}
    relations = dict(dice.sample(sorted(counts.items()), dice.randrange(3)))
    sums = [sum(kind) for kind in zip([0] * 4, *relations.values(), strict=True)]
    actors = [dice.choice(["alice", "bob", None]) for _ in range(dice.choice([1, 1, 2]))]
    parts = [{"seq": seq, "actor": name, "grade": "claimed"} for seq, name in enumerate(actors)]
    history.commit(
        insert(1) | {"new": {"note": dice.choice(["needle", "hay"])}},
        state=state, actor=actors[-1], actors=parts if len(parts) > 1 else None,
        origin=dice.choice([None, "berlin"]), gid=dice.choice([None, "g7"]), relations=relations,
        inserts=sums[0], updates=sums[1], deletes=sums[2], truncates=sums[3],
        messages=dice.choice([0, 0, 1]), stored_at=WHEN,
    )  # fmt: skip


def relation_keys(history: History) -> list[str]:
    return [str(pk) for pk in history.slot.relations.values_list("pk", flat=True)]


def random_words(dice: random.Random) -> dict[str, Any]:
    """Some of the live page's parameters, each of which some transaction fulfils."""
    words = {
        "tables": dice.choice(["public.orders", "public.items", "public.former", "public.none"]),
        "ops": "".join(dice.sample("IUDTMS", 2)),
        "states": dice.choice(["open", "committed,snapshot", "aborted", "message,open", "odd"]),
        "actor": dice.choice(["alice", "?", " alice"]),
        "origin": dice.choice(["berlin", "-"]),
        "q": dice.choice(["NEEDLE", "ali", "public.or", "G7", "71", "former"]),
    }
    return {name: words[name] for name in dice.sample(sorted(words), dice.randrange(4))}


@pytest.mark.parametrize("seed", range(6))
def test_it_lets_through_what_the_same_filter_finds_in_sql(history: History, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(60):
        commit_at_random(history, dice)
    session = reading_session()
    ids = list(Transaction.objects.values_list("pk", flat=True))
    summaries = TableNames().summaries(transactions_by_id(session, ids))
    for _ in range(60):
        words = random_words(dice)
        conditions = conditions_of(session, TransactionFilter.from_words(words))
        with connection.cursor() as cursor:
            query = sql.SQL("SELECT t.id FROM transaction t WHERE {}").format(conditions.row_sql)
            cursor.execute(query, conditions.values)
            found = {row[0] for row in cursor.fetchall()}
        live = LiveFilter.from_words(words)
        hits = matching_text(session, ids, live.text)
        shown = {summary.row.id for summary in summaries if live.lets_through(summary, hits)}
        assert shown == found, words
