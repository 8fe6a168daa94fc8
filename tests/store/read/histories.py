"""Random histories on a real server, and what its own triggers noted of them.

A history is what happens to one table: rows come, change, move from key to key and go, in
transactions of two sessions beside each other, with savepoints, two-phase commits, transactions
large enough to be streamed, and changes of the table's definition between. Rows carry a number
(``rid``) that never changes, by which the notes know them; keys are only what they are called.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
from psycopg.types.json import Jsonb

from tests.conftest import SourceDatabase

Row = dict[str, str | None]
#: By the number of the row: what it holds.
Content = dict[int, Row]

#: Keys that rows are given and moved between; ``BETWEEN`` only for a moment, by a swap.
KEYS = range(1, 7)
BETWEEN = 100
#: Rows of a bulk load have keys from here on.
BULK = 1000
_TEXTS = ("", "a", "É b", "it's", "a,b", '"q"', "k=6")
_ACTORS = ("alice", "bob", "Zoë <b>")

_NOTES = """
    CREATE SCHEMA truth;
    CREATE TABLE truth.fact (n bigserial, xid bigint DEFAULT pg_current_xact_id()::text::bigint,
                             actor text DEFAULT current_setting('truth.actor', true),
                             tab text, rid int, op text, old jsonb, new jsonb);
    CREATE TABLE truth.claim (n bigserial, xid bigint DEFAULT pg_current_xact_id()::text::bigint,
                              actor text);
    CREATE FUNCTION truth.claim(name text) RETURNS void LANGUAGE sql AS $$
        SELECT pg_logical_emit_message(true, 'replview', jsonb_build_object('actor', name)::text);
        SELECT set_config('truth.actor', name, true);
        INSERT INTO truth.claim (actor) VALUES (name);
    $$;
    CREATE FUNCTION truth.words(jsonb) RETURNS jsonb LANGUAGE sql AS
        $$ SELECT jsonb_object_agg(key, value) FROM jsonb_each_text($1) $$;
    CREATE FUNCTION truth.note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO truth.fact (tab, rid, op, old, new) VALUES (
            TG_TABLE_NAME, CASE WHEN TG_OP = 'DELETE' THEN OLD.rid ELSE NEW.rid END,
            left(TG_OP, 1), truth.words(to_jsonb(OLD)), truth.words(to_jsonb(NEW)));
        RETURN NULL;
    END $$;
    CREATE FUNCTION truth.note_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO truth.fact (tab, op) VALUES (TG_TABLE_NAME, 'T');
        RETURN NULL;
    END $$;
"""

#: Every change is streamed at once (PostgreSQL 16): what a savepoint takes back was sent before.
_STREAMED = """
    DO $$ BEGIN
        IF current_setting('server_version_num')::int >= 160000 THEN
            EXECUTE format('ALTER DATABASE %I SET debug_logical_replication_streaming = immediate',
                           current_database());
        END IF;
    END $$
"""


@dataclass(frozen=True)
class Fact:
    """One change as a trigger noted it; a TRUNCATE is of no row.

    A column that is added (``+``, with what rows then have in it in ``new``), dropped (``-``),
    renamed (``r``, from the name in ``old``) or rewritten as one more (``w``) is no change of a
    row either.
    """

    table: str
    rid: int | None
    op: str
    old: Row | None
    new: Row | None
    #: Whom the transaction had named when it was made; empty: nobody.
    actor: str = ""


@dataclass(frozen=True)
class Commit:
    """One committed transaction that changed something; ``xid`` 0: a table's definition."""

    xid: int
    #: Its claims that count, in order; none: nobody was named.
    claims: list[str]
    facts: list[Fact]

    @property
    def actors(self) -> set[str]:
        """All whom it names, and an empty one where it changed something before."""
        return {*self.claims, *(fact.actor for fact in self.facts)}


@dataclass
class Table:
    """How the rows of one history are told apart, and what its table has come to be."""

    name: str
    #: ``int``, ``text`` or ``pair``.
    key_type: str
    #: ``DEFAULT``, ``FULL`` or ``USING INDEX``.
    identity: str
    deferrable: bool
    #: Columns that were added and not dropped again.
    extra: list[str] = field(default_factory=list)

    @property
    def key_columns(self) -> tuple[str, ...]:
        return ("id", "part") if self.key_type == "pair" else ("id",)

    def key(self, number: int) -> dict[str, str]:
        """The key that a number stands for, as the server writes it."""
        text = _TEXTS[number] if number < len(_TEXTS) else f"k{number}"
        if self.key_type == "pair":
            return {"id": str(number // 2), "part": _TEXTS[number % 2]}
        return {"id": str(number) if self.key_type == "int" else text}

    def made_by(self) -> Iterator[str]:
        """The statements that create it, with three rows that no record begins with."""
        of_id = "text" if self.key_type == "text" else "int"
        key = ", ".join(self.key_columns)
        late = " DEFERRABLE INITIALLY DEFERRED" if self.deferrable else ""
        named = self.identity == "USING INDEX"
        yield (
            f"CREATE TABLE {self.name} (rid int NOT NULL, id {of_id} NOT NULL, "
            f"part text NOT NULL DEFAULT '', a text, n numeric(12,2), big text, "
            f"PRIMARY KEY ({'rid' if named else key}){late})"
        )
        yield f"ALTER TABLE {self.name} ALTER big SET STORAGE EXTERNAL"
        if named:
            yield f"CREATE UNIQUE INDEX {self.name}_named ON {self.name} ({key})"
        index = f" {self.name}_named" if named else ""
        yield f"ALTER TABLE {self.name} REPLICA IDENTITY {self.identity}{index}"
        for number in (1, 2, 3):
            yield self.insert(number, -number, "before")
        yield (
            f"CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON {self.name} "
            "FOR EACH ROW EXECUTE FUNCTION truth.note()"
        )
        yield (
            f"CREATE TRIGGER emptied BEFORE TRUNCATE ON {self.name} "
            "EXECUTE FUNCTION truth.note_truncate()"
        )

    def begun(self) -> Content:
        """The rows that were there before the record began."""
        row: Row = {"part": "", "a": "before", "big": ""}
        return {-k: {"rid": f"-{k}", **row, **self.key(k), "n": f"-{k}.00"} for k in (1, 2, 3)}

    def named(self, number: int) -> str:
        """A condition that is true of the row that has the key."""
        return " AND ".join(f"{name} = {_literal(v)}" for name, v in self.key(number).items())

    def moved(self, number: int) -> str:
        """The assignments that give a row the key."""
        return ", ".join(f"{name} = {_literal(v)}" for name, v in self.key(number).items())

    def free(self, number: int) -> str:
        return f"NOT EXISTS (SELECT FROM {self.name} WHERE {self.named(number)})"

    def insert(self, number: int, rid: int, value: str, big: int = 0) -> str:
        """An insert that does nothing where the key is taken."""
        columns = ", ".join(self.key_columns)
        values = ", ".join(_literal(v) for v in self.key(number).values())
        return (
            f"INSERT INTO {self.name} (rid, {columns}, a, n, big) SELECT {rid}, {values}, "
            f"'{value}', {rid}, repeat('x', {big}) WHERE {self.free(number)}"
        )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass
class _Session:
    """One of the sessions that work beside each other."""

    connection: psycopg.Connection
    is_open: bool = False


@dataclass
class Histories:
    """Plays random histories; ``timeline`` is what committed, in that order."""

    source: SourceDatabase
    seed: int
    tables: list[Table] = field(default_factory=list)
    timeline: list[Commit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.made = 0
        self._committed: list[int] = []
        #: What was defined after so many commits.
        self._defined: list[tuple[int, Fact]] = []
        self._prepared: list[tuple[str, int]] = []

    def create(self, tables: int) -> None:
        """So many tables of every kind, each with three rows."""
        self.source.run(_NOTES)
        if self.seed % 2:
            self.source.run(_STREAMED)
        for number in range(tables):
            identity = self.random.choice(["DEFAULT", "DEFAULT", "FULL", "USING INDEX"])
            # A deferrable key tells no rows apart: only the whole old row does.
            deferrable = identity == "FULL" and self.random.random() < 0.5
            key_type = self.random.choice(["int", "int", "text", "pair"])
            table = Table(f"rows_{number}", key_type, identity, deferrable)
            self.source.run(*table.made_by())
            self.tables.append(table)

    def play(self, commits: int) -> None:
        """Go on until so many more transactions have committed, and read what was noted."""
        wanted = len(self._committed) + commits
        with self.source.connect() as one, self.source.connect() as other:
            sessions = [_Session(one), _Session(other)]
            for session in sessions:
                session.connection.execute("SET lock_timeout = '50ms'")
            while len(self._committed) < wanted:
                self._step(self.random.choice(sessions))
            for session in sessions:
                if session.is_open:
                    session.connection.execute("ROLLBACK")
            for gid, xid in self._prepared:
                one.execute(f"COMMIT PREPARED '{gid}'")
                self._committed.append(xid)
            self._prepared.clear()
        self._read_notes()

    @property
    def commits(self) -> list[Commit]:
        """The transactions, in the order of their commits."""
        return [commit for commit in self.timeline if commit.xid]

    def contents(self, table: Table) -> Iterator[tuple[Content, set[str]]]:
        """What the table held after each of the ``commits``, and columns it no longer had, or that
        were rewritten since its last change.
        """
        content, dropped, rewritten = table.begun(), set[str](), set[str]()
        for commit in self.timeline:
            for fact in (fact for fact in commit.facts if fact.table == table.name):
                _apply(content, fact)
                if fact.op in "-r":
                    dropped |= (fact.old or {}).keys()
                elif fact.op == "w":
                    rewritten |= (fact.new or {}).keys()
                else:
                    rewritten = set()
            if commit.xid:
                yield {rid: dict(row) for rid, row in content.items()}, dropped | rewritten

    def defined_after(self, table: str, number: int) -> bool:
        """Whether a table's definition changed after, or just before, one of the ``commits``."""
        since = self.timeline.index(self.commits[number - 1]) + 1
        later = (
            fact for commit in self.timeline[since:] if not commit.xid for fact in commit.facts
        )
        return any(fact.table == table for fact in later)

    def fill(self, session: psycopg.Connection, table: str, content: Content) -> None:
        """Have a table hold this, and nothing else."""
        session.execute(f"DELETE FROM {table}")
        session.execute(
            f"INSERT INTO {table} SELECT row.* FROM jsonb_array_elements(%s) AS one, "
            f"jsonb_populate_record(NULL::{table}, one) AS row",
            [Jsonb(list(content.values()))],
        )

    def held(self, session: psycopg.Connection, table: str) -> Content:
        """What a table holds."""
        sql = f"SELECT rid, truth.words(to_jsonb(t)) FROM {table} AS t"
        return dict(session.execute(sql).fetchall())

    def stories(self, table: str) -> dict[int, list[Fact]]:
        """By the number of the row: its changes, its truncation the last."""
        found: dict[int, list[Fact]] = defaultdict(list)
        there = {-1, -2, -3}
        for fact in (f for commit in self.commits for f in commit.facts if f.table == table):
            if fact.rid is None:
                for rid in there:
                    found[rid].append(fact)
                there = set()
                continue
            found[fact.rid].append(fact)
            (there.discard if fact.op == "D" else there.add)(fact.rid)
        return dict(found)

    def _step(self, session: _Session) -> None:
        dice = self.random.random()
        if not session.is_open and dice < 0.06:
            self._define(session.connection)
            return
        try:
            if not session.is_open:
                self._begin(session)
            if dice < 0.2:
                self._under_savepoint(session.connection)
            elif dice < 0.26:
                self._claim(session.connection)
            elif dice < 0.75:
                self._work(session.connection)
            else:
                self._end(session, self.random.random())
        except psycopg.Error as error:
            if not isinstance(error, psycopg.errors.OperationalError | psycopg.IntegrityError):
                raise
            session.connection.execute("ROLLBACK")
            session.is_open = False
        if self._prepared and self.random.random() < 0.2:
            self._end_prepared(session)

    def _begin(self, session: _Session) -> None:
        session.connection.execute("BEGIN")
        session.is_open = True
        if self.random.random() < 0.7:
            self._claim(session.connection)

    def _claim(self, connection: psycopg.Connection) -> None:
        connection.execute("SELECT truth.claim(%s)", [self.random.choice(_ACTORS)])

    def _under_savepoint(self, connection: psycopg.Connection) -> None:
        connection.execute("SAVEPOINT here")
        for _ in range(self.random.randrange(3)):
            self.random.choice([self._work, self._claim])(connection)
        self._work(connection)
        ends = ["ROLLBACK TO here", "RELEASE here"]
        connection.execute(self.random.choice(ends))

    def _end(self, session: _Session, dice: float) -> None:
        found = session.connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
        assert found is not None
        if found[0] is None or dice < 0.15:
            session.connection.execute("ROLLBACK")
        elif dice < 0.35:
            gid = f"histories-{self.seed}-{self.random.randrange(10**9)}"
            session.connection.execute(f"PREPARE TRANSACTION '{gid}'")
            self._prepared.append((gid, int(found[0])))
        else:
            session.connection.execute("COMMIT")
            self._committed.append(int(found[0]))
        session.is_open = False

    def _end_prepared(self, session: _Session) -> None:
        if session.is_open:
            return
        gid, xid = self._prepared.pop(self.random.randrange(len(self._prepared)))
        if self.random.random() < 0.2:
            session.connection.execute(f"ROLLBACK PREPARED '{gid}'")
        else:
            session.connection.execute(f"COMMIT PREPARED '{gid}'")
            self._committed.append(xid)

    def _define(self, connection: psycopg.Connection) -> None:
        """Another column, one less, one of another name, or one of other values."""
        table = self.random.choice(self.tables)
        alter = f"ALTER TABLE {table.name}"
        with suppress(psycopg.errors.LockNotAvailable):
            dice = self.random.random() if table.extra else 1.0
            last = table.extra[-1] if table.extra else ""
            if dice < 0.25:
                connection.execute(f"{alter} DROP COLUMN {last}")
                table.extra.pop()
                fact = Fact(table.name, None, "-", {last: None}, None)
            elif dice < 0.4:
                self.made += 1
                name = f"extra_{self.made}"
                connection.execute(f"{alter} RENAME {last} TO {name}")
                table.extra[-1] = name
                fact = Fact(table.name, None, "r", {last: None}, {name: None})
            elif dice < 0.6:
                to = self.random.choice(["int", "bigint"])
                connection.execute(f"{alter} ALTER {last} TYPE {to} USING {last} + 1")
                fact = Fact(table.name, None, "w", None, {last: None})
            else:
                self.made += 1
                name = f"extra_{self.made}"
                filled = self.random.choice([None, "7"])
                default = f" DEFAULT {filled}" if filled else ""
                connection.execute(f"{alter} ADD COLUMN {name} int{default}")
                table.extra.append(name)
                fact = Fact(table.name, None, "+", None, {name: filled})
            self._defined.append((len(self._committed), fact))

    def _work(self, connection: psycopg.Connection) -> None:
        table = self.random.choice(self.tables)
        self.made += 1
        kinds = [*self._kinds(table), *(self._kinds_of_deferrable(table))]
        weights, makers = zip(*kinds, strict=True)
        for statement in self.random.choices(makers, weights)[0]():
            connection.execute(statement)

    def _kinds(self, table: Table) -> list[tuple[float, Callable[[], list[str]]]]:
        """What may happen to a table, and how often beside the others."""
        one, other, third = self.random.sample(KEYS, 3)
        name, rid, value = table.name, self.made, f"v{self.made}"
        update = f"UPDATE {name} SET {{}} WHERE {table.named(one)}".format
        move = f"{update(table.moved(other))} AND {table.free(other)}"
        on = (
            f"UPDATE {name} SET {table.moved(third)} WHERE {table.named(other)} "
            f"AND {table.free(third)}"
        )
        swap = [
            update(table.moved(BETWEEN)),
            f"UPDATE {name} SET {table.moved(one)} WHERE {table.named(other)}",
            f"UPDATE {name} SET {table.moved(other)} WHERE {table.named(BETWEEN)}",
        ]
        delete = f"DELETE FROM {name} WHERE {table.named(one)}"
        return [
            (5, lambda: [table.insert(one, rid, value, 3000)]),
            (4, lambda: [update(f"a = '{value}'")]),
            (1, lambda: [update("n = n * 2")]),
            (1, lambda: [update(f"big = repeat('{value}', 1000)")]),
            (1, lambda: [update("a = a")]),
            (0.5, lambda: [update("a = NULL")]),
            (0.5, lambda: [update(f"{table.extra[-1] if table.extra else 'n'} = {rid}")]),
            (4, lambda: [move]),
            (1, lambda: [move, on]),
            (1, lambda: swap),
            (1, lambda: [delete, table.insert(one, rid, value)]),
            (2, lambda: [delete]),
            (0.3, lambda: [f"TRUNCATE {name}"]),
            (0.4, lambda: self._bulk(table)),
        ]  # fmt: skip

    def _kinds_of_deferrable(self, table: Table) -> list[tuple[float, Callable[[], list[str]]]]:
        if not table.deferrable or table.key_type != "int":
            return []
        one, other = self.random.sample(KEYS, 2)
        name = table.name
        return [
            (2, lambda: [f"UPDATE {name} SET id = CASE id WHEN {one} THEN {other} ELSE {one} END "
                         f"WHERE id IN ({one}, {other})"]),
            (1, lambda: [f"UPDATE {name} SET id = id % 6 + 1 WHERE id <= 6"]),
            (1, lambda: [f"UPDATE {name} SET id = {other} WHERE id = {one}",
                         f"UPDATE {name} SET a = 'both' WHERE id = {other}",
                         f"DELETE FROM {name} WHERE id = {other} AND rid % 2 = 0"]),
        ]  # fmt: skip

    def _bulk(self, table: Table) -> list[str]:
        """More than is held in memory for a transaction, so that it is streamed; and away again."""
        key = {"int": "g", "text": "'k' || g", "pair": "g, ''"}[table.key_type]
        first = self.made
        self.made += 30
        return [
            f"INSERT INTO {table.name} (rid, {', '.join(table.key_columns)}, a, n, big) "
            f"SELECT {first} + g - {BULK}, {key}, 'bulk', g, repeat('y', 4000) "
            f"FROM generate_series({BULK}, {BULK + 29}) g WHERE NOT EXISTS "
            f"(SELECT FROM {table.name} WHERE a = 'bulk')",
            f"DELETE FROM {table.name} WHERE a = 'bulk' AND n % 3 = 0",
        ]

    def _read_notes(self) -> None:
        facts: dict[int, list[Fact]] = defaultdict(list)
        with self.source.connect() as session:
            noted = session.execute(
                "SELECT xid, tab, rid, op, old, new, coalesce(actor, '') FROM truth.fact ORDER BY n"
            ).fetchall()
            claims: dict[int, list[str]] = dict(
                session.execute(
                    "SELECT xid, array_agg(actor ORDER BY n) FROM truth.claim GROUP BY xid"
                ).fetchall()
            )
        for xid, *fact in noted:
            facts[xid].append(Fact(*fact))
        assert facts.keys() <= set(self._committed)
        self.timeline = []
        for number, xid in enumerate(self._committed):
            defined = [fact for place, fact in self._defined if place == number]
            self.timeline += [Commit(0, [], [fact]) for fact in defined]
            if xid in facts:
                self.timeline.append(Commit(xid, claims.get(xid, []), facts[xid]))


def _apply(content: Content, fact: Fact) -> None:
    if fact.op in "+-r":
        for row in content.values():
            held = [row.pop(name) for name in fact.old or {}]
            row |= (
                dict(zip(fact.new or {}, held, strict=True)) if fact.op == "r" else fact.new or {}
            )
    elif fact.op == "w":
        for row, name in itertools.product(content.values(), fact.new or {}):
            row[name] = str(int(row[name] or 0) + 1) if row[name] else None
    elif fact.rid is None:
        content.clear()
    elif fact.new is None:
        content.pop(fact.rid, None)
    else:
        content[fact.rid] = dict(fact.new)
