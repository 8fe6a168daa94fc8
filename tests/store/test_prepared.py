"""Statements prepared once a session: the same rows, one query each, and never an error more."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from replview.store.django_session import DjangoSession
from replview.store.read import session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_session() -> Iterator[None]:
    connection.close()
    yield
    session._pooled.clear()
    connection.close()


def _names() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements ORDER BY name")
        return [row[0] for row in cursor.fetchall()]


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("SELECT 1", []),
        ("SELECT %s::bigint, %s::text", [1 << 60, "a'b %s"]),
        ("SELECT %(a)s::int + %(a)s, %(b)s::int", {"a": 3, "b": 4, "unused": 5}),
        ("SELECT 7 %% 4, 'x' LIKE '%%x' WHERE %s", [True]),
        ("SELECT n FROM unnest(%s::bigint[]) n ORDER BY n", [[3, 1 << 40, None]]),
        ("SELECT n FROM unnest(%s::text[]) n", [[]]),
        ("SELECT %s::bigint[], %s::pg_lsn[]", [[1, 2], ["0/1", "1/FF"]]),
        ("SELECT %s::text, %s::int IS NULL", [None, None]),
        ("SELECT %s::timestamptz", [dt.datetime(2026, 3, 4, 5, tzinfo=dt.UTC)]),
        ("SELECT '{\"a\": 1}'::jsonb, %s::bytea", [b"\x00\xff"]),
    ],
)
def test_it_gives_what_a_cursor_gives(statement: str, parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        expected = [tuple(map(_plain, row)) for row in cursor.fetchall()]

    for _ in range(3):
        found = DjangoSession().prepared_rows(statement, parameters)
        assert [tuple(map(_plain, row)) for row in found] == expected


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def test_it_is_planned_once_and_counts_as_one_query_each_time() -> None:
    with CaptureQueriesContext(connection) as queries:
        for number in range(4):
            assert DjangoSession().prepared_rows("SELECT %s::int", [number]) == [(number,)]

    assert len(queries) == 4
    assert len(_names()) == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT generic_plans, custom_plans FROM pg_prepared_statements")
        assert cursor.fetchone() == (4, 0)


def test_a_closed_session_prepares_anew() -> None:
    DjangoSession().prepared_rows("SELECT %s::int", [1])
    connection.close()

    assert DjangoSession().prepared_rows("SELECT %s::int", [2]) == [(2,)]
    assert len(_names()) == 1


def test_it_outlives_a_rollback() -> None:
    with transaction.atomic():
        DjangoSession().prepared_rows("SELECT %s::int", [1])
        transaction.set_rollback(True)

    assert DjangoSession().prepared_rows("SELECT %s::int", [2]) == [(2,)]
    assert len(_names()) == 1


def test_what_failed_in_an_aborted_transaction_is_prepared_later() -> None:
    with transaction.atomic():
        with pytest.raises(DatabaseError):
            _elsewhere("SELECT 1 / 0")
        with pytest.raises(DatabaseError):
            DjangoSession().prepared_rows("SELECT %s::int", [1])
        transaction.set_rollback(True)

    assert DjangoSession().prepared_rows("SELECT %s::int", [2]) == [(2,)]
    assert len(_names()) == 1


def test_an_error_of_the_statement_is_the_statements() -> None:
    with pytest.raises(DatabaseError, match="division by zero"):
        DjangoSession().prepared_rows("SELECT 1 / %s::int", [0])

    assert DjangoSession().prepared_rows("SELECT 1 / %s::int", [1]) == [(1,)]


def test_behind_a_pooler_that_forgets_it_runs_plainly_and_prepares_no_more() -> None:
    DjangoSession().prepared_rows("SELECT %s::int", [1])
    _elsewhere("DEALLOCATE ALL")

    assert DjangoSession().prepared_rows("SELECT %s::int", [2]) == [(2,)]
    assert DjangoSession().prepared_rows("SELECT %s::int + 1", [2]) == [(3,)]
    assert _names() == []


def test_a_session_where_another_client_prepared_it_is_used_as_it_is() -> None:
    DjangoSession().prepared_rows("SELECT %s::int", [1])
    session._prepared.clear()

    assert DjangoSession().prepared_rows("SELECT %s::int", [2]) == [(2,)]
    assert len(_names()) == 1


def test_a_migration_under_a_prepared_statement_does_not_break_it() -> None:
    _elsewhere("CREATE TEMPORARY TABLE wide (n int); INSERT INTO wide VALUES (1)")
    assert DjangoSession().prepared_rows("SELECT * FROM wide", []) == [(1,)]
    _elsewhere("ALTER TABLE wide ADD m int DEFAULT 2")

    assert DjangoSession().prepared_rows("SELECT * FROM wide", []) == [(1, 2)]
    assert DjangoSession().prepared_rows("SELECT * FROM wide", []) == [(1, 2)]
    assert len(_names()) == 1


def _elsewhere(statement: str) -> None:
    """Run a statement in the same session, as a pooler's other client or a migration would."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
