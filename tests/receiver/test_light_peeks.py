"""A peek that leaves open transactions out: what the server tells of them all the same."""

from functools import partial

import pytest

from replview.receiver.sessions import slot_functions
from replview.receiver.sessions.pacing import Pacing
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

LARGE = "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series({}, {}) n"


@pytest.fixture
def record(record):
    """Slots of the SQL interface."""
    return partial(record, interface="sql")


def test_a_large_transaction_that_aborted_is_no_error(
    any_source: SourceDatabase, record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """18 sends a StreamAbort of it though streaming was not asked for."""
    monkeypatch.setattr(Pacing, "is_light", lambda self, open_streams: True)
    any_source.run("CREATE TABLE t (n int PRIMARY KEY, filler text)")
    recording = record(any_source)

    small = LARGE.format(1, 3)
    # The server finds the large part aborted, discards it, and takes the small one for streamed.
    any_source.run(
        f"BEGIN; SAVEPOINT s; {small}; RELEASE s; {LARGE.format(10, 5000)}; ROLLBACK", small
    )
    [stored] = wait_for(lambda: recording.transactions(state="committed"))

    assert stored.inserts == 3
    assert not recording.slot.events.filter(kind__in=["quarantined", "disconnected"]).exists()


def test_the_status_of_a_transaction_begun_after_the_last_that_completed(
    any_source: SourceDatabase,
) -> None:
    with any_source.connect() as first, any_source.connect() as second, any_source.connect() as me:
        xids = []
        for session in (first, second):
            session.execute("BEGIN")
            [xid] = session.execute("SELECT txid_current()").fetchone()
            xids.append(xid)
        query = slot_functions.state_query("none", xids).as_string(me)
        raw = me.pgconn.exec_(query.encode())
        row = tuple(raw.get_value(0, column) for column in range(raw.nfields))

        server = slot_functions.parse_state(row)

    assert server.statuses == dict.fromkeys(xids, "in progress")
