"""The store's server restarts, crashes, or loses a connection while it is written to."""

import os
import signal
import time

import pytest

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.postmaster import postmaster_pid
from tests.crashes.truth import assert_true_record
from tests.support.crash_servers import Receive
from tests.support.crash_stores import CrashStore
from tests.support.proxy import Proxy
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for
from tests.support.workload import Workload

pytestmark = pytest.mark.slow


def _end(server: EmbeddedPostgres, how: str) -> None:
    if how == "killed":
        pid = postmaster_pid(server.data_dir.resolve())
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    else:
        server.stop(mode=how)


def test_a_store_that_ends_in_every_way_has_everything_once(
    source: SourceDatabase, receive: Receive, store_server: EmbeddedPostgres, interface: str
) -> None:
    slot = receive(source, interface=interface)
    recoveries = {}
    with Workload(source) as workload:
        for how in ("fast", "immediate", "killed"):
            workload.more(5)
            _end(store_server, how)
            workload.more(3)
            store_server.start()
            back_at = time.monotonic()
            wait_for(lambda: slot.row()["state"] == "streaming", what=slot.sentences())
            before = slot.stored_lsn()
            wait_for(lambda before=before: slot.stored_lsn() > before, what="it stores again")
            recoveries[how] = time.monotonic() - back_at
    slot.caught_up()

    print(f"seconds to store again: { {how: round(s, 1) for how, s in recoveries.items()} }")
    assert_true_record(slot)
    assert slot.receivers[0].running
    assert len(slot.incarnations()) == 1
    slot.says("store")


def test_a_store_stopped_while_a_receiver_starts_is_waited_for(
    source: SourceDatabase, receive: Receive, store_server: EmbeddedPostgres
) -> None:
    slot = receive(source, start=False)
    store_server.stop()
    receiver = slot.start()
    wait_for(lambda: "the store is away" in receiver.said())
    store_server.start()
    slot.streaming()
    source.run("INSERT INTO t VALUES (1, 1, '')")
    slot.caught_up()

    assert_true_record(slot)


def test_a_connection_cut_in_the_middle_of_a_copy_gets_everything_once(
    source: SourceDatabase, receive: Receive, store: CrashStore
) -> None:
    with Proxy(store.server.port) as proxy:
        store.port = proxy.port
        slot = receive(source)
        source.run("INSERT INTO t VALUES (1, 1, 'the table is known')")
        slot.caught_up()
        # The connection breaks amid the rows that arrive at the store from now on.
        passed = 0

        def half_a_copy(chunk: bytes) -> bytes:
            nonlocal passed
            passed += len(chunk)
            if passed > 100_000:
                proxy.to_server.rewrite = None
                proxy.cut()
                raise ConnectionResetError
            return chunk

        proxy.to_server.rewrite = half_a_copy
        source.run("INSERT INTO t SELECT n, n, repeat('x', 300) FROM generate_series(2, 3000) n")
        slot.caught_up()

        assert passed > 100_000
        assert_true_record(slot)
        assert [t["inserts"] for t in slot.transactions("committed")] == [1, 2999]
        slot.says("store")
        slot.end()
