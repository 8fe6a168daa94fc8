"""Facts that older servers do not report are named, and nothing that needs them is tried."""

import pytest

from replview.catalog.connections import connect
from replview.catalog.plan.stamp_plan import plan_install
from replview.catalog.problems import SourceProblem
from replview.catalog.server import unreported_facts
from replview.catalog.test_message import send_test_message
from tests.support.source_databases import SourceDatabase


@pytest.mark.parametrize(
    ("version", "count"), [(120022, 3), (130023, 2), (140023, 1), (150018, 0), (180004, 0)]
)
def test_what_a_version_does_not_tell(version: int, count: int) -> None:
    sentence = unreported_facts(version)
    assert sentence.count(" on)") == count
    assert not sentence or sentence.startswith(f"PostgreSQL {version // 10000} does not report: ")
    assert unreported_facts(None) == ""


def test_nothing_that_needs_logical_messages_is_done_before_14(any_source: SourceDatabase) -> None:
    any_source.run("CREATE TABLE orders (id int PRIMARY KEY)")

    def install() -> object:
        with connect(any_source.dsn) as connection:
            return plan_install(connection, ["orders"], all_tables=False, revoke=False)

    def send() -> object:
        return send_test_message(any_source.dsn, "ada")

    for attempt in (install, send):
        if any_source.version >= 14:
            assert attempt()
            continue
        with pytest.raises(SourceProblem) as raised:
            attempt()
        assert raised.value.code == "no_messages"
        assert "messages" in raised.value.cause
