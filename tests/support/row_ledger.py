"""Random changes of a real table, and what the table truly held after each commit."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.support.source_databases import SourceDatabase

#: A value that is stored out of line, so that an update that leaves it alone does not send it.
LONG = 3_000
_COLUMNS = "id, a, b, big"

Content = dict[str, dict[str, str | None]]


@dataclass
class Ledger:
    """``plain`` (identity DEFAULT) and its twin (FULL), changed alike."""

    source: SourceDatabase
    seed: int
    #: The rows of ``plain`` after each commit, by key.
    contents: list[Content] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        for table in ("plain", "twin"):
            self.source.run(
                f"CREATE TABLE {table} (id int PRIMARY KEY, a text, b int, big text)",
                f"ALTER TABLE {table} ALTER big SET STORAGE EXTERNAL",
            )
        self.source.run("ALTER TABLE twin REPLICA IDENTITY FULL")

    def play(self, transactions: int, on: Callable[[int], Any] | None = None) -> None:
        """Commit so many transactions; ``on`` is called before each."""
        with self.source.connect() as session:
            while len(self.contents) < transactions:
                if on is not None:
                    on(len(self.contents))
                before = self._xact_marker(session)
                self._transaction(session)
                if self._xact_marker(session) != before:
                    self.contents.append(self._content(session))

    def _xact_marker(self, session: psycopg.Connection) -> Any:
        # Moves with every transaction that wrote and committed.
        return session.execute("SELECT count(*) FROM written").fetchone()

    def _transaction(self, session: psycopg.Connection) -> None:
        if self.random.random() < 0.12:
            self._prepared(session)
            return
        with session.transaction(force_rollback=self.random.random() < 0.1):
            self._work(session)

    def _prepared(self, session: psycopg.Connection) -> None:
        gid = f"gid-{self.random.randrange(10**9)}"
        session.execute("BEGIN")
        self._work(session)
        session.execute(f"PREPARE TRANSACTION '{gid}'")
        session.execute(f"COMMIT PREPARED '{gid}'")

    def _work(self, session: psycopg.Connection) -> None:
        session.execute("INSERT INTO written DEFAULT VALUES")
        for _ in range(self.random.randrange(1, 5)):
            self._both(session, self._statement())
            if self.random.random() < 0.2:
                with session.transaction(force_rollback=True):
                    self._both(session, self._statement())

    def _statement(self) -> str:
        one, other = self.random.sample(range(1, 5), 2)
        value = self.random.randrange(1000)
        return self.random.choices(
            [
                f"INSERT INTO %s VALUES ({one}, 'a{value}', {value}, repeat('{value}', {LONG}))"
                " ON CONFLICT DO NOTHING",
                f"UPDATE %s SET a = 'a{value}' WHERE id = {one}",
                f"UPDATE %s SET b = NULL WHERE id IN ({one}, {other})",
                f"UPDATE %s SET big = repeat('{value}', {LONG}) WHERE id = {one}",
                f"UPDATE %s SET id = {other} WHERE id = {one}"
                f" AND NOT EXISTS (SELECT FROM %s WHERE id = {other})",
                f"DELETE FROM %s WHERE id = {one}",
                "TRUNCATE %s",
            ],
            weights=[4, 4, 2, 1, 2, 1, 0.3],
        )[0]

    def _both(self, session: psycopg.Connection, statement: str) -> None:
        for table in ("plain", "twin"):
            session.execute(statement.replace("%s", table))

    def _content(self, session: psycopg.Connection) -> Content:
        rows = session.execute("SELECT id::text, a, b::text, big FROM plain").fetchall()
        return {row[0]: dict(zip(_COLUMNS.split(", "), row, strict=True)) for row in rows}
