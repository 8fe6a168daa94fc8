"""Random histories on a real server, and what its own triggers noted of them.

A history is what happens to one table: rows come, change, move from key to key and go, in
transactions of two sessions beside each other, with savepoints, two-phase commits, transactions
large enough to be streamed, and changes of the table's definition between and inside of them.

What a transaction does follows from the seed and its number alone, and not from what happened
before: so any of them can be left out, and the others do what they did (``named_histories``).
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import psycopg
from psycopg.types.json import Jsonb

from tests.support.history_tables import (
    BETWEEN,
    BULK,
    KEYS,
    NOTE_DEFINED,
    NOTES,
    Commit,
    Content,
    Fact,
    Table,
    apply,
    copied,
)
from tests.support.named_histories import TABLES, Named
from tests.support.source_databases import SourceDatabase

#: Ways to make statements, each with its weight.
Kinds = list[tuple[float, Callable[[], list[str]]]]
_ACTORS = ("alice", "bob", "Zoë <b>")

#: Every change is streamed at once (PostgreSQL 16): what a savepoint takes back was sent before.
_STREAMED = """
    DO $$ BEGIN
        IF current_setting('server_version_num')::int >= 160000 THEN
            EXECUTE format('ALTER DATABASE %I SET debug_logical_replication_streaming = immediate',
                           current_database());
        END IF;
    END $$
"""
#: A lock that another session has, a key that is taken, a number that has grown too large, a table
#: that has another name by now, or whose identity is not among the columns that are published.
_EXPECTED = (
    psycopg.errors.InvalidColumnReference,
    psycopg.OperationalError,
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.errors.UndefinedTable,
)
_CHANGED = """
    SELECT tab, op, count(*) FROM truth.fact
    WHERE xid = pg_current_xact_id()::text::bigint AND op = ANY ('{I,U,D,T}') GROUP BY 1, 2
"""
_WAS_FULL = "SELECT 1 FROM truth.fact WHERE tab = %s AND op = 'i' LIMIT 1"
_EXTRA = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = %s::regclass AND attname LIKE 'extra%%' AND NOT attisdropped ORDER BY attnum
"""


@dataclass(frozen=True)
class Turn:
    """The next step of one of the sessions."""

    session: int
    #: Numbered as they begin; a lone ALTER TABLE is one, too.
    transaction: int
    #: ``define``, ``begin``, ``savepoint``, ``work`` or ``end``.
    kind: str


@dataclass
class _Session:
    """One of the sessions that work beside each other."""

    connection: psycopg.Connection
    #: The number of the transaction that is open in it.
    transaction: int | None = None
    #: Rows and values are numbered from here on.
    made: int = 0


@dataclass(frozen=True)
class Open:
    """A transaction that is in progress or prepared, as its own session knows it."""

    xid: int
    pid: int
    #: By table and operation: the changes that count by now.
    changes: Counter[tuple[str, str]]
    gid: str = ""


@dataclass(frozen=True)
class _Prepared:
    open: Open
    #: The transaction ends once one of this number has begun.
    until: int
    commits: bool


@dataclass
class Histories:
    """Plays the histories of a name; ``timeline`` is what committed, in that order."""

    source: SourceDatabase
    name: Named
    #: Tables with two unique indexes have their replica identity moved from one to the other.
    switches: bool = False
    #: Each table is the only partition of another one: published under its own name (``leaves``),
    #: or under the other's (``root``). The definition of the columns does not change then.
    partitions: str = ""
    #: The tables that the name does not leave out.
    tables: list[Table] = field(default_factory=list)
    timeline: list[Commit] = field(default_factory=list)

    def __post_init__(self) -> None:
        #: The claims that count of all that committed, in that order; none: nobody was named.
        self.claims: dict[int, list[str]] = {}
        #: The oids of the tables that are there now.
        self.there: set[int] = set()
        #: The rows that a table held when its baseline was read.
        self.baselines: dict[str, Content] = {}
        #: For those who compare: what is looked at.
        self.random = self._dice("compared")
        self._all_tables: list[Table] = []
        self._begun = 0
        self._turns = self._schedule()
        self._committed: list[int] = []
        #: By table: the oid of the partitioned table that has its name.
        self._roots: dict[str, int] = {}
        self._detached = False
        self._prepared: list[_Prepared] = []
        #: The random numbers of the current turn.
        self._turn_random = self.random

    def _dice(self, *of: object) -> random.Random:
        return random.Random("/".join(map(str, (self.name.seed, *of))))

    def create(self) -> None:
        """Ten tables of every kind, each with three rows; those left out are not there."""
        self.source.run(NOTES)
        if self.name.seed % 2:
            self.source.run(_STREAMED)
        for number in range(TABLES):
            table = Table.any_of(f"rows_{number}", self._dice("table", number))
            self._all_tables.append(table)
            if number in self.name.tables:
                self.source.run(*table.made_by())
                if self.partitions:
                    self.source.run(*table.made_partition())
                    table.called = table.partition
                self.tables.append(table)
        with self.source.connect() as session:
            for table in self.tables:
                table.oid = _oid(session, table)
                self._roots[table.name] = _oid(session, replace(table, called=table.name))

    def detach(self) -> Iterator[str]:
        """The statements by which all tables cease to be partitions."""
        self._detached = True
        for table in self.tables:
            yield f"ALTER TABLE {table.name} DETACH PARTITION {table.called}"

    def attach(self) -> Iterator[str]:
        """The statements by which they are partitions again."""
        self._detached = False
        for table in self.tables:
            yield f"ALTER TABLE {table.name} ATTACH PARTITION {table.called} DEFAULT"

    def play(
        self, transactions: int, meanwhile: Callable[[list[Open]], object] | None = None
    ) -> None:
        """Go on until so many more transactions have begun, and read what was noted.

        ``meanwhile`` is called once with those that are open in the end.
        """
        until = self._begun + transactions
        with (
            self.source.connect() as one,
            self.source.connect() as other,
            self.source.connect() as third,
        ):
            sessions = [_Session(one), _Session(other)]
            for session in sessions:
                session.connection.execute("SET lock_timeout = '50ms'")
            while self._begun < until:
                turn = next(self._turns)
                self._take(sessions[turn.session], turn)
                self._end_prepared(third, [p for p in self._prepared if p.until <= self._begun])
            if meanwhile is not None:
                third.execute("COMMENT ON SCHEMA truth IS 'meanwhile'")
                meanwhile(self._open(sessions))
            for session in sessions:
                if session.transaction is not None:
                    session.connection.execute("ROLLBACK")
            self._end_prepared(third, list(self._prepared))
            # A commit has the WAL flushed, which a ROLLBACK alone leaves for later.
            third.execute("COMMENT ON SCHEMA truth IS 'played'")
        self._read_notes()

    def _open(self, sessions: list[_Session]) -> list[Open]:
        begun = [session.connection for session in sessions if session.transaction is not None]
        running = [_known_open(connection) for connection in begun]
        return [*(each for each in running if each), *(each.open for each in self._prepared)]

    @property
    def commits(self) -> list[Commit]:
        """The transactions that changed rows, in the order of their commits."""
        return [commit for commit in self.timeline if commit.changes]

    def contents(self, table: Table) -> Iterator[tuple[Content, set[str]]]:
        """Yield the rows of a table after each of the ``commits``, and columns to leave out.

        These are columns that were dropped, or rewritten since the table's last change.
        """
        content, dropped, rewritten = table.begun(), set[str](), set[str]()
        for commit in self.timeline:
            for fact in (fact for fact in commit.facts if fact.table == table.name):
                apply(content, fact)
                if fact.op in "-r":
                    dropped |= (fact.old or {}).keys()
                elif fact.op == "w":
                    rewritten |= (fact.new or {}).keys()
                elif not fact.defines:
                    rewritten = set()
            if commit.changes:
                yield copied(content), dropped | rewritten

    def defined_since(self, table: str, number: int) -> bool:
        """Return True if the table was redefined just before this commit, in it or later."""
        begin = self.timeline.index(self.commits[number - 1]) + 1 if number else 0
        later = (fact for commit in self.timeline[begin:] for fact in commit.facts)
        return any(f.table == table and f.defines and f.op != "i" for f in later)

    def unseen(self, table: Table) -> list[tuple[set[int], bool]]:
        """Return the rows that went with their table, after each of the ``commits`` and in the end.

        Only rows of a table of which nothing was recorded since. The second value says whether the
        table is made anew before anything else is recorded of it.
        """
        after, content, gone = [], table.begun(), set[int]()
        for commit in self.timeline:
            for fact in (fact for fact in commit.facts if fact.table == table.name):
                gone = (
                    gone | content.keys() if fact.op == "d" else set() if not fact.defines else gone
                )
                apply(content, fact)
            if commit.changes:
                after.append(gone)
        after.append(gone)
        ends, is_next = [False], False
        for commit in reversed(self.timeline):
            if commit.changes:
                ends.append(is_next)
            mine = [f for f in commit.facts if f.table == table.name and f.op in "IUDTd"]
            is_next = mine[0].op == "d" if mine else is_next
        return list(zip(after, reversed(ends), strict=True))

    def held(self, session: psycopg.Connection, table: Table) -> Content:
        """Return the rows that a table holds, by row number."""
        sql = f"SELECT rid, truth.words(to_jsonb(t)) FROM {table.called} AS t"
        return dict(session.execute(sql).fetchall())

    def fill(self, session: psycopg.Connection, table: Table, content: Content) -> None:
        """Have a table hold this, and nothing else."""
        session.execute(f"DELETE FROM {table.called}")
        session.execute(
            f"INSERT INTO {table.called} SELECT row.* FROM jsonb_array_elements(%s) AS one, "
            f"jsonb_populate_record(NULL::{table.called}, one) AS row",
            [Jsonb(list(content.values()))],
        )

    def stories(self, table: str) -> dict[int, list[Fact]]:
        """Return the changes of each row, by row number; a truncation is the last."""
        found: dict[int, list[Fact]] = defaultdict(list)
        there = {-1, -2, -3}
        for fact in (f for commit in self.timeline for f in commit.facts if f.table == table):
            if fact.op == "d":
                there = set()
            if fact.defines:
                continue
            if fact.rid is None:
                for rid in there:
                    found[rid].append(fact)
                there = set()
                continue
            found[fact.rid].append(fact)
            (there.discard if fact.op == "D" else there.add)(fact.rid)
        return dict(found)

    def _schedule(self) -> Iterator[Turn]:
        """Yield the sessions' steps in an order that the seed alone decides."""
        dice, numbers = self._dice("order"), [-1, -1]
        while True:
            session, what = dice.randrange(2), dice.random()
            if numbers[session] < 0:
                number, self._begun = self._begun, self._begun + 1
                if what < 0.06:
                    yield Turn(session, number, "define")
                    continue
                numbers[session] = number
                yield Turn(session, number, "begin")
            kind = "savepoint" if what < 0.2 else "work" if what < 0.75 else "end"
            yield Turn(session, numbers[session], kind)
            if kind == "end":
                numbers[session] = -1

    def _take(self, session: _Session, turn: Turn) -> None:
        if turn.transaction not in self.name.transactions:
            return
        if turn.kind in ("begin", "define"):
            self._turn_random = self._dice(turn.transaction)
            session.made = 1 + turn.transaction * 4000
        elif session.transaction != turn.transaction:
            return  # it failed, or was cut off
        else:
            self._turn_random = self._dice(turn.transaction, session.made)
        try:
            getattr(self, f"_{turn.kind}")(session, turn)
        except psycopg.Error as error:
            if not isinstance(error, _EXPECTED):
                raise
            session.connection.execute("ROLLBACK")
            session.transaction = None

    def _begin(self, session: _Session, turn: Turn) -> None:
        session.connection.execute("BEGIN")
        session.transaction = turn.transaction
        if self._turn_random.random() < 0.7:
            self._claim(session)

    def _claim(self, session: _Session) -> None:
        actor = self._turn_random.choice(_ACTORS)
        session.connection.execute("SELECT truth.claim(%s)", [actor])

    def _savepoint(self, session: _Session, turn: Turn, depth: int = 0) -> None:
        session.connection.execute(f"SAVEPOINT here_{depth}")
        for _ in range(self._turn_random.choice((1, 1, 2))):
            if self._turn_random.random() < 0.2:
                self._claim(session)
            self._work(session, turn)
        if self._turn_random.random() < 0.25:
            self._savepoint(session, turn, depth + 1)
        end = self._turn_random.choice(["ROLLBACK TO", "RELEASE"])
        session.connection.execute(f"{end} here_{depth}")

    def _end(self, session: _Session, turn: Turn) -> None:
        dice = self._turn_random.random()
        found = _known_open(session.connection)
        if found is None or dice < 0.12:
            session.connection.execute("ROLLBACK")
        elif dice < 0.32:
            gid = f"histories-{self.name.seed}-{turn.transaction}"
            session.connection.execute(f"PREPARE TRANSACTION '{gid}'")
            until = turn.transaction + self._turn_random.randrange(2, 12)
            commits = self._turn_random.random() < 0.8
            self._prepared.append(_Prepared(replace(found, gid=gid), until, commits))
        else:
            session.connection.execute("COMMIT")
            self._committed.append(found.xid)
        session.transaction = None

    def _end_prepared(self, connection: psycopg.Connection, ending: list[_Prepared]) -> None:
        for each in ending:
            self._prepared.remove(each)
            end = "COMMIT" if each.commits else "ROLLBACK"
            connection.execute(f"{end} PREPARED '{each.open.gid}'")
            if each.commits:
                self._committed.append(each.open.xid)

    def _define(self, session: _Session, turn: Turn) -> None:
        """A transaction of its own that changes a table's definition."""
        session.connection.execute("BEGIN")
        table = self._table(session.connection)
        if table is not None and not self.partitions and self._turn_random.random() < 0.15:
            self._make_anew(session.connection, table)
        else:
            self._alter(session, table)
        found = session.connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
        session.connection.execute("COMMIT")
        if found and found[0] is not None:
            self._committed.append(int(found[0]))

    def _alter(self, session: _Session, table: Table | None) -> None:
        """Add, drop, rename or rewrite a column, or change the table's name or replica identity."""
        if table is None:
            return
        connection = session.connection
        found = [name for (name,) in connection.execute(_EXTRA, [table.called])]
        dice = self._turn_random.random() if found else self._turn_random.uniform(0.55, 1)
        if self.partitions == "root":
            return
        if self.partitions:
            dice = 0.6 if table.identity in ("USING INDEX", "NOTHING") or table.keyless else 0.7
        last = found[-1] if found else ""
        session.made += 1
        name = f"extra_{session.made}"
        old: dict[str, str | None] | None = {last: None}
        new: dict[str, str | None] | None = {name: None}
        if dice < 0.2:
            op, what, new = "-", f"DROP COLUMN {last}", None
        elif dice < 0.35:
            op, what = "r", f"RENAME {last} TO {name}"
        elif dice < 0.55:
            to = self._turn_random.choice(["int", "bigint"])
            op, what, old, new = "w", f"ALTER {last} TYPE {to} USING {last} + 1", None, old
        elif dice < 0.65:
            op, what, old, new = "n", f"RENAME TO {table.name}_{session.made}", None, None
        elif dice < 0.75 and table.identity in ("DEFAULT", "FULL") and not table.keyless:
            if table.deferrable:
                return
            to = self._turn_random.choice(["DEFAULT", "FULL"])
            op, what, old, new = "i", f"REPLICA IDENTITY {to}", None, None
        else:
            filled = self._turn_random.choice([None, "7"])
            default = f" DEFAULT {filled}" if filled else ""
            op, what, old = "+", f"ADD COLUMN {name} int{default}", None
            new = {name: filled}
        connection.execute(f"ALTER TABLE {table.called} {what}")
        noted = [None if each is None else Jsonb(each) for each in (old, new)]
        connection.execute(NOTE_DEFINED, [table.name, op, *noted])

    def _switch(self, connection: psycopg.Connection, table: Table) -> None:
        """Have the rows of a table told by its primary key, or by its other unique index."""
        to = self._turn_random.choice(["DEFAULT", f"USING INDEX {table.name}_named"])
        connection.execute(f"ALTER TABLE {table.called} REPLICA IDENTITY {to}")
        connection.execute(NOTE_DEFINED, [table.name, "i", None, None])

    def _make_anew(self, connection: psycopg.Connection, table: Table) -> None:
        """Drop the table and create it anew without rows.

        A table that was renamed stays, and so does one that is or was under FULL: its key is not
        sent, and the catalog may be read when the table is gone.
        """
        if table.called != table.name or table.identity == "FULL":
            return
        connection.execute(f"LOCK TABLE {table.called}")
        if connection.execute(_WAS_FULL, [table.name]).fetchone() is None:
            connection.execute(f"DROP TABLE {table.called}")
            for statement in table.made_by(rows=()):
                connection.execute(statement)
            connection.execute(NOTE_DEFINED, [table.name, "d", None, None])

    def _table(self, connection: psycopg.Connection) -> Table | None:
        """Return a random table under its present name; None if the history leaves it out."""
        table = self._turn_random.choice(self._all_tables)
        if table not in self.tables:
            return None
        table.called = _present_name(connection, table)
        return table

    def _work(self, session: _Session, turn: Turn) -> None:
        connection = session.connection
        session.made += 40
        if self._turn_random.random() < 0.08:
            self._claim(session)
        table = self._table(connection)
        if self._turn_random.random() < 0.015:
            self._alter(session, table)
            return
        if table is None:
            return
        if self._turn_random.random() < 0.004 and not self.partitions:
            self._make_anew(connection, table)
            return
        if self.switches and table.identity == "USING INDEX" and self._turn_random.random() < 0.2:
            self._switch(connection, table)
        extra = [name for (name,) in connection.execute(_EXTRA, [table.called])]
        made = session.made
        kinds = self._kinds(table, extra[-1] if extra else "n", made)
        if table.identity == "NOTHING":
            kinds = self._kinds_of_nothing(table, made)
        elif table.deferrable and table.key_type == "int":
            kinds += self._kinds_of_deferrable(table)
        weights, makers = zip(*kinds, strict=True)
        for statement in self._turn_random.choices(makers, weights)[0]():
            connection.execute(statement)

    def _kinds(self, table: Table, extra: str, rid: int) -> Kinds:
        """Return the kinds of statements that may run on a table, each with its weight."""
        one, other, third = self._turn_random.sample(KEYS, 3)
        name, value = table.called, f"v{rid}"
        update = f"UPDATE {name} SET {{}} WHERE {table.named(one)}".format
        delete = f"DELETE FROM {name} WHERE {table.named(one)}"

        def move(of: int, to: int, *, free: int | None = None) -> str:
            where = f" AND {table.free(free)}" if free else ""
            return f"UPDATE {name} SET {table.moved(to)} WHERE {table.named(of)}{where}"

        swap = [move(one, BETWEEN), move(other, one), move(BETWEEN, other)]
        ring = [move(one, BETWEEN), move(other, one), move(third, other), move(BETWEEN, third)]
        chain = [move(one, BETWEEN, free=third), move(BETWEEN, third)]
        upsert = [table.insert_or_update(one, rid, value)]
        has_conflicts = not table.deferrable and not table.keyless
        return [
            (5, lambda: [table.insert(one, rid, value, 3000)]),
            (4, lambda: [update(f"a = '{value}'")]),
            (1, lambda: [update("n = n * 2")]),
            (1, lambda: [update(f"big = repeat('{value}', 700)")]),
            (1, lambda: [update("a = a")]),
            (0.3, lambda: [update(table.moved(one))]),
            (0.5, lambda: [update("a = NULL")]),
            (0.3, lambda: [f"UPDATE {name} SET a = '{value}' WHERE rid % 2 = 0"]),
            (0.5, lambda: [update(f"{extra} = {rid}")]),
            (4, lambda: [move(one, other, free=other)]),
            (1, lambda: [move(one, other, free=other), move(other, third, free=third)]),
            (0.5, lambda: chain),
            (1, lambda: swap),
            (0.5, lambda: ring),
            (1, lambda: [delete, table.insert(one, rid, value)]),
            (0.5 if has_conflicts else 0, lambda: upsert),
            (2, lambda: [delete]),
            (0.1, lambda: [f"DELETE FROM {name}"]),
            (0.3, lambda: [self._truncation(table)]),
            (0.4, lambda: self._bulk(table, rid)),
        ]  # fmt: skip

    def _kinds_of_nothing(self, table: Table, rid: int) -> Kinds:
        """The server lets nothing of it be updated or deleted."""
        key = self._turn_random.choice(KEYS)
        return [
            (5, lambda: [table.insert(key, rid, f"v{rid}", 3000)]),
            (1, lambda: [self._truncation(table)]),
            (0.4, lambda: self._bulk(table, rid)[:1]),
        ]

    def _kinds_of_deferrable(self, table: Table) -> Kinds:
        one, other = self._turn_random.sample(KEYS, 2)
        name = table.called
        return [
            (2, lambda: [f"UPDATE {name} SET id = CASE id WHEN {one} THEN {other} ELSE {one} END "
                         f"WHERE id IN ({one}, {other})"]),
            (1, lambda: [f"UPDATE {name} SET id = id % 6 + 1 WHERE id <= 6"]),
            (1, lambda: [f"UPDATE {name} SET id = {other} WHERE id = {one}",
                         f"UPDATE {name} SET a = 'both' WHERE id = {other}",
                         f"DELETE FROM {name} WHERE id = {other} AND rid % 2 = 0"]),
        ]  # fmt: skip

    def _truncation(self, table: Table) -> str:
        """Return a TRUNCATE of the table, or of it and one more that still has its first name.

        A TRUNCATE of a partition alone is not sent where its root's name is published.
        """
        if self.partitions == "root" and not self._detached:
            return f"TRUNCATE {table.name}"
        others = [t for t in self.tables if t is not table and t.called == t.name]
        more = self._turn_random.choice(others) if others else None
        if more is None or self._turn_random.random() < 0.7:
            return f"TRUNCATE {table.called}"
        return f"TRUNCATE {table.called}, {more.called} RESTART IDENTITY"

    def _bulk(self, table: Table, first: int) -> list[str]:
        """More than is held in memory for a transaction, so that it is streamed; and away again."""
        key = {"int": "g", "text": "'k' || g", "pair": "g, ''"}[table.key_type]
        return [
            f"INSERT INTO {table.called} (rid, {', '.join(table.key_columns)}, a, n, big) "
            f"SELECT {first} + g - {BULK}, {key}, 'bulk', g, repeat('y', 4000) "
            f"FROM generate_series({BULK}, {BULK + 29}) g WHERE NOT EXISTS "
            f"(SELECT FROM {table.called} WHERE a = 'bulk')",
            f"DELETE FROM {table.called} WHERE a = 'bulk' AND n % 3 = 0",
        ]

    def _read_notes(self) -> None:
        facts: dict[int, list[Fact]] = defaultdict(list)
        with self.source.connect() as session:
            noted = session.execute(
                "SELECT xid, tab, coalesce(called, ''), rid, op, old, new, coalesce(actor, ''), "
                "coalesce(oid, 0) FROM truth.fact ORDER BY n"
            ).fetchall()
            claims: dict[int, list[str]] = dict(
                session.execute(
                    "SELECT xid, array_agg(actor ORDER BY n) FROM truth.claim GROUP BY xid"
                ).fetchall()
            )
            for table in self.tables:
                table.called = _present_name(session, table)
            self.there = {_oid(session, table) for table in self.tables}
            self.there |= {*self._roots.values()} if self.partitions == "root" else set()
        for xid, *fact in noted:
            noted_fact = Fact(*fact)
            if self.partitions == "root" and not noted_fact.defines:
                table = noted_fact.table
                noted_fact = replace(noted_fact, called=table, oid=self._roots[table])
            facts[xid].append(noted_fact)
        assert facts.keys() <= set(self._committed)
        self.claims = {xid: claims.get(xid, []) for xid in self._committed}
        self.timeline = [
            Commit(xid, claims.get(xid, []), facts[xid]) for xid in self._committed if xid in facts
        ]


def _oid(session: psycopg.Connection, table: Table) -> int:
    found = session.execute("SELECT %s::regclass::oid::bigint", [table.called]).fetchone()
    assert found is not None
    return int(found[0])


def _known_open(connection: psycopg.Connection) -> Open | None:
    """The transaction that is open in a session; None: it has no xid."""
    found = connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
    if found is None or found[0] is None:
        return None
    changes = {(tab, op): number for tab, op, number in connection.execute(_CHANGED).fetchall()}
    return Open(int(found[0]), connection.info.backend_pid, Counter(changes))


def _present_name(session: psycopg.Connection, table: Table) -> str:
    sql = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ %s"
    found = session.execute(sql, [f"^{table.name}(_|$)"]).fetchone()
    assert found is not None
    return str(found[0])
