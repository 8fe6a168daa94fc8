"""The settings that keep slots on a standby in step, as real servers tell them."""

import pytest
from psycopg.rows import dict_row

from replview.catalog.connections import reading
from replview.catalog.server import read_failover_settings
from tests.support.source_databases import SourceDatabase


def test_from_17_on_they_are_told_and_before_that_unknown(any_source: SourceDatabase) -> None:
    with reading(any_source.dsn, deadline_seconds=20) as connection:
        told = read_failover_settings(connection)
        version = connection.info.server_version

    if version < 170000:
        assert told == {}
    else:
        assert told["synchronized_standby_slots"] == ""
        assert told["sync_replication_slots"] == "off"
        assert told["primary_conninfo_names_database"] is False


@pytest.mark.pg(17)
def test_a_plain_role_is_not_told_of_primary_conninfo(source: SourceDatabase) -> None:
    source.run("CREATE ROLE plain_reader LOGIN")
    try:
        with source.connect(row_factory=dict_row, options="-c role=plain_reader") as connection:
            assert read_failover_settings(connection)["primary_conninfo_names_database"] is None
    finally:
        source.run("DROP ROLE plain_reader")
