"""Moments of the store's sessions are what psycopg's own loader gives."""

import datetime as dt

import pytest
from django.db import DataError, connection
from psycopg.types.datetime import TimestamptzLoader

from replview.store.read.session import MomentLoader

pytestmark = pytest.mark.django_db


def _read(text: str) -> dt.datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [text])
        return cursor.fetchone()[0]


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-22 11:24:42.5+00", "2026-11-22 11:24:42+00", "1999-12-31 23:59:59.999999-11:30",
        "0001-01-02 00:00:00+00", "9999-12-30 00:00:00.000001+00", "1890-01-01 00:00:00+00:53:28",
    ],
)  # fmt: skip
def test_a_moment_is_the_one_it_was(text: str) -> None:
    found = _read(text)

    assert found == TimestamptzLoader(0, connection.connection).load(text.encode())
    assert found.tzinfo is dt.UTC
    [loader] = [connection.connection.adapters.get_loader(1184, 0)]
    assert loader is MomentLoader


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0044-03-15 00:00:00+00 BC"])
def test_what_python_has_no_moment_for_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        _read(text)
