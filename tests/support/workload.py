"""Sessions that write to a source in every way, each numbering its transactions in a ledger.

What became of a transaction whose COMMIT was not answered is told by the ledger on the source.
"""

import contextlib
import random
import threading
import time

import psycopg
import pytest

from tests.support.source_databases import SourceDatabase

#: ``t`` has the rows, ``ledger`` one row for each transaction that was committed.
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, n int, filler text)",
    "CREATE TABLE ledger (writer int, n int, PRIMARY KEY (writer, n))",
)
#: More than ``logical_decoding_work_mem``: such a transaction is streamed while it is open.
_STREAMED_ROWS = 600
_IDS_OF_A_WRITER = 10_000_000


class Writer:
    """One session's transactions, chosen by a seeded generator, until told to stop."""

    def __init__(self, source: SourceDatabase, number: int, pause_seconds: float) -> None:
        self.source = source
        self.number = number
        #: Transactions begun so far.
        self.begun = 0
        self._pause_seconds = pause_seconds
        self._random = random.Random(number)
        self._next_id = number * _IDS_OF_A_WRITER
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer-{number}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Stop after the present transaction; fails the test with what failed there."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a writer did not end"
        if self._error is not None:
            pytest.fail(f"a writer failed: {self._error!r}")

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                # The source may be away: its crash is none of ours.
                with contextlib.suppress(psycopg.OperationalError):
                    self._write()
                self._stop.wait(0.1)
        except Exception as error:
            self._error = error

    def _write(self) -> None:
        with self.source.connect(connect_timeout=5) as session:
            # End transactions that a crash left prepared before all others, as the ledger has it.
            end_prepared(session, f"writer {self.number} %")
            while not self._stop.is_set():
                self.begun += 1
                kind = self._random.choices(
                    [self._plain, self._savepoints, self._streamed, self._undone, self._two_phase],
                    [10, 3, 2, 1, 3],
                )
                kind[0](session)
                self._stop.wait(self._pause_seconds)

    def _insert(self, session: psycopg.Connection, rows: int) -> None:
        first = self._next_id
        self._next_id += rows
        session.execute(
            "INSERT INTO t SELECT n, %s, repeat('x', 200) FROM generate_series(%s::int, %s) n",
            [self.begun, first, first + rows - 1],
        )

    def _enter(self, session: psycopg.Connection) -> None:
        session.execute("INSERT INTO ledger VALUES (%s, %s)", [self.number, self.begun])

    def _plain(self, session: psycopg.Connection) -> None:
        with session.transaction():
            self._insert(session, self._random.randint(1, 20))
            self._enter(session)
            low = self.number * _IDS_OF_A_WRITER
            some = self._random.randint(low, self._next_id)
            session.execute("UPDATE t SET n = -n WHERE id = %s", [some])
            session.execute("DELETE FROM t WHERE id = %s", [some + 1])

    def _savepoints(self, session: psycopg.Connection) -> None:
        with session.transaction():
            for undone in (False, True, False):
                with contextlib.suppress(psycopg.Rollback), session.transaction():
                    self._insert(session, self._random.choice([5, _STREAMED_ROWS]))
                    if undone:
                        raise psycopg.Rollback
            self._enter(session)

    def _streamed(self, session: psycopg.Connection) -> None:
        with session.transaction():
            for _ in range(3):
                self._insert(session, _STREAMED_ROWS)
                time.sleep(self._pause_seconds)
            self._enter(session)

    def _undone(self, session: psycopg.Connection) -> None:
        with session.transaction() as transaction:
            self._insert(session, _STREAMED_ROWS)
            self._enter(session)
            raise psycopg.Rollback(transaction)

    def _two_phase(self, session: psycopg.Connection) -> None:
        gid = f"writer {self.number} {self.begun}"
        session.execute("BEGIN")
        self._insert(session, self._random.choice([5, _STREAMED_ROWS]))
        self._enter(session)
        session.execute(f"PREPARE TRANSACTION '{gid}'")
        time.sleep(self._random.choice([0, self._pause_seconds * 5]))
        ending = self._random.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        session.execute(f"{ending} PREPARED '{gid}'")


class Workload:
    """Several writers at once; a context manager that ends them, whatever happens."""

    def __init__(
        self, source: SourceDatabase, writers: int = 2, pause_seconds: float = 0.1
    ) -> None:
        self._source = source
        self._writers = [Writer(source, number, pause_seconds) for number in range(1, writers + 1)]

    def __enter__(self) -> "Workload":
        for writer in self._writers:
            writer.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for writer in self._writers:
            if kind is None:
                writer.end()
            else:
                with contextlib.suppress(BaseException):
                    writer.end()
        if kind is None:
            with self._source.connect() as session:
                end_prepared(session, "writer %")

    def more(self, transactions: int, seconds: float = 60.0) -> None:
        """Wait until so many more were begun."""
        from tests.support.waiting import wait_for

        wanted = self.begun + transactions
        wait_for(lambda: self.begun >= wanted, seconds, "the workload goes on")

    @property
    def begun(self) -> int:
        """Transactions begun so far."""
        return sum(writer.begun for writer in self._writers)


def end_prepared(session: psycopg.Connection, pattern: str = "%") -> None:
    """Commit what a crash left prepared: a coordinator would, once it finds it."""
    waiting = session.execute(
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE %s",
        [pattern],
    ).fetchall()
    for (gid,) in waiting:
        session.execute(f"COMMIT PREPARED '{gid}'")
