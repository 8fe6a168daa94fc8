"""Through a pooler, nothing that we set may meet the application that gets our connection next."""

import psycopg
import pytest

from replview.catalog.connections import connect
from replview.catalog.server import read_server_facts
from replview.catalog.slots import read_slots
from tests.support.pooler import pooler
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

_SETTINGS = (
    "SELECT name, setting FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', "
    "'search_path', 'default_transaction_read_only') ORDER BY name"
)


def test_an_application_on_the_same_server_connection_notices_nothing(
    source: SourceDatabase,
) -> None:
    with (
        pooler(source, pool_size=1) as dsn,
        psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as application,
    ):
        before = application.execute(_SETTINGS).fetchall()
        with connect(dsn) as ours:
            assert read_server_facts(ours).database == source.name
            assert read_slots(ours) == []
        assert application.execute(_SETTINGS).fetchall() == before


def test_our_bounds_hold_there_all_the_same(source: SourceDatabase) -> None:
    with pooler(source) as dsn, connect(dsn, statement_timeout_ms=50) as ours:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            ours.execute("CREATE TABLE public.t ()")
        with pytest.raises(psycopg.errors.QueryCanceled):
            ours.execute("SELECT pg_sleep(5)")
        assert ours.execute("SELECT current_setting('search_path')").fetchone() == ("pg_catalog",)
        with connect(dsn, read_only=False) as writing:
            writing.execute("CREATE TABLE public.t ()")
