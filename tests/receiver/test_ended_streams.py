"""The walsender session raises the error that the server ended the stream with."""

import pytest
from psycopg import errors

from replview.receiver.sessions.walsender import ReplicationSession
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for


def _reads_nothing(session: ReplicationSession) -> bool:
    session.wait(0.1)
    return not session.read(100, 1_000_000)


@pytest.mark.parametrize("in_stream", [False, None])
def test_an_end_that_comes_alone_is_told_as_the_server_told_it(
    source: SourceDatabase, in_stream: bool | None
) -> None:
    """The session reports the server's error although no message is buffered."""
    session = ReplicationSession(source.dsn)
    try:
        began = session.create_temporary_slot("ends_alone", two_phase=False)
        session.in_stream = in_stream
        source.run("CREATE PUBLICATION ends_alone")
        session.start(
            "ends_alone", began, {"proto_version": "1", "publication_names": '"ends_alone"'}
        )
        assert wait_for(lambda: _reads_nothing(session) and session.keepalive_lsn >= began, 10)
        pid = session.connection.info.backend_pid
        source.run(f"SELECT pg_terminate_backend({pid})")

        with pytest.raises(errors.AdminShutdown):
            wait_for(lambda: not _reads_nothing(session), 10)
        with pytest.raises(errors.AdminShutdown):
            session.read(100, 1_000_000)
    finally:
        session.close()
