"""A look through a pooler, on a connection that is kept."""

import pytest

from replview.catalog.connection_cache import KeptConnections
from replview.features.sampling.sample import take_sample
from tests.support.pooler import pooler
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow


def test_nothing_is_prepared_where_a_pooler_lends_the_connection_to_others(
    source: SourceDatabase,
) -> None:
    kept = KeptConnections()
    with pooler(source) as dsn:
        for _ in range(4):
            seen = kept.ask(1, dsn, take_sample, deadline_seconds=10)
        [only] = kept._kept.values()
        assert only.connection.prepare_threshold is None
        kept.close()
    assert seen.facts.database == source.name


def test_statements_are_planned_once_on_a_server(source: SourceDatabase) -> None:
    kept = KeptConnections()
    for _ in range(3):
        kept.ask(1, source.dsn, take_sample, deadline_seconds=10)
    [only] = kept._kept.values()
    prepared = only.connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    kept.close()
    assert prepared is not None
    assert prepared[0] >= 3
