"""The tables of random histories, and what their own triggers note of what happens to them.

Rows carry a number (``rid``) that never changes, by which the notes know them; keys are only what
they are called.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

Row = dict[str, str | None]
#: By the number of the row: what it holds.
Content = dict[int, Row]

#: Keys that rows are given and moved between; ``BETWEEN`` only for a moment, by a swap.
KEYS = range(1, 7)
BETWEEN = 100
#: Rows of a bulk load have keys from here on.
BULK = 1000
_TEXTS = ("", "a", "É b", "it's", "a,b", '"q"', "k=6")

NOTES = """
    CREATE SCHEMA truth;
    CREATE TABLE truth.fact (n bigserial, xid bigint DEFAULT pg_current_xact_id()::text::bigint,
                             actor text DEFAULT current_setting('truth.actor', true),
                             oid bigint, tab text, called text, rid int, op text,
                             old jsonb, new jsonb);
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
        INSERT INTO truth.fact (oid, tab, called, rid, op, old, new) VALUES (
            TG_RELID::bigint, TG_ARGV[0], TG_TABLE_NAME,
            CASE WHEN TG_OP = 'DELETE' THEN OLD.rid ELSE NEW.rid END,
            left(TG_OP, 1), truth.words(to_jsonb(OLD)), truth.words(to_jsonb(NEW)));
        RETURN NULL;
    END $$;
    CREATE FUNCTION truth.note_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO truth.fact (oid, tab, called, op)
        VALUES (TG_RELID::bigint, TG_ARGV[0], TG_TABLE_NAME, 'T');
        RETURN NULL;
    END $$;
"""
#: Notes a change of a table's definition, in the transaction that makes it.
NOTE_DEFINED = "INSERT INTO truth.fact (tab, op, old, new) VALUES (%s, %s, %s, %s)"


@dataclass(frozen=True)
class Fact:
    """One change as a trigger noted it; a TRUNCATE (``T``) is of no row.

    A column that is added (``+``, with what rows then have in it in ``new``), dropped (``-``),
    renamed (``r``, from the name in ``old``) or rewritten as one more (``w``) is no change of a
    row, nor is another name (``n``) or replica identity (``i``) of the table, nor that it was
    dropped and made anew (``d``).
    """

    table: str
    #: The table's name just then.
    called: str
    rid: int | None
    op: str
    old: Row | None
    new: Row | None
    #: Whom the transaction had named by then; empty: nobody.
    actor: str = ""
    #: The table's, which is another one once it was made anew.
    oid: int = 0

    @property
    def defines(self) -> bool:
        return self.op in "+-rwnid"


@dataclass(frozen=True)
class Commit:
    """One committed transaction that did something."""

    xid: int
    #: Its claims that count, in order; none: nobody was named.
    claims: list[str]
    facts: list[Fact]

    @property
    def actors(self) -> set[str]:
        """All whom it names, and an empty one where it changed something before."""
        return {*self.claims, *(fact.actor for fact in self.changes)}

    @property
    def changes(self) -> list[Fact]:
        """Return the facts that a slot sends as changes, without messages."""
        return [fact for fact in self.facts if not fact.defines]


@dataclass
class Table:
    """The name, key and replica identity of one history's table."""

    #: The name at creation; ``called`` is the present name.
    name: str
    #: ``int``, ``text`` or ``pair``.
    key_type: str
    #: ``DEFAULT``, ``FULL``, ``USING INDEX`` or ``NOTHING``; the first two change to and fro.
    identity: str
    deferrable: bool = False
    #: Without a primary key, only the whole old row tells rows apart.
    keyless: bool = False
    called: str = ""
    #: The oid of the first table of that name.
    oid: int = 0

    def __post_init__(self) -> None:
        self.called = self.called or self.name

    @classmethod
    def any_of(cls, name: str, dice: random.Random) -> "Table":
        identity = dice.choice(["DEFAULT"] * 4 + ["FULL"] * 3 + ["USING INDEX"] * 2 + ["NOTHING"])
        key_type = dice.choice(["int", "int", "text", "pair"])
        # A deferrable key is no replica identity: only the whole old row tells rows apart.
        kind = dice.random() if identity == "FULL" else 1.0
        return cls(name, key_type, identity, deferrable=kind < 0.4, keyless=0.4 <= kind < 0.6)

    @property
    def key_columns(self) -> tuple[str, ...]:
        return ("id", "part") if self.key_type == "pair" else ("id",)

    def key(self, number: int) -> dict[str, str]:
        """The key that a number stands for, as the server writes it."""
        text = _TEXTS[number] if number < len(_TEXTS) else f"k{number}"
        if self.key_type == "pair":
            return {"id": str(number // 2), "part": _TEXTS[number % 2]}
        return {"id": str(number) if self.key_type == "int" else text}

    def made_by(self, rows: tuple[int, ...] = (1, 2, 3)) -> Iterator[str]:
        """The statements that create it, at first with three rows that no record begins with."""
        of_id = "text" if self.key_type == "text" else "int"
        key = ", ".join(self.key_columns)
        late = " DEFERRABLE INITIALLY DEFERRED" if self.deferrable else ""
        named = self.identity == "USING INDEX"
        primary = "" if self.keyless else f", PRIMARY KEY ({'rid' if named else key}){late}"
        yield (
            f"CREATE TABLE {self.name} (rid int NOT NULL, id {of_id} NOT NULL, "
            f"part text NOT NULL DEFAULT '', a text, n numeric(12,2), big text{primary})"
        )
        yield f"ALTER TABLE {self.name} ALTER big SET STORAGE EXTERNAL"
        if named:
            yield f"CREATE UNIQUE INDEX {self.name}_named ON {self.name} ({key})"
        index = f" {self.name}_named" if named else ""
        yield f"ALTER TABLE {self.name} REPLICA IDENTITY {self.identity}{index}"
        for number in rows:
            yield self.insert(number, -number, "before")
        yield (
            f"CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON {self.name} "
            f"FOR EACH ROW EXECUTE FUNCTION truth.note('{self.name}')"
        )
        yield (
            f"CREATE TRIGGER emptied BEFORE TRUNCATE ON {self.name} "
            f"EXECUTE FUNCTION truth.note_truncate('{self.name}')"
        )

    @property
    def partition(self) -> str:
        """The first name of the partition that has its rows."""
        return f"{self.name}_part"

    def made_partition(self) -> Iterator[str]:
        """The statements that make it the only partition of a table that gets its name."""
        key = ", ".join(self.key_columns)
        index = ""
        yield f"ALTER TABLE {self.name} RENAME TO {self.partition}"
        yield f"CREATE TABLE {self.name} (LIKE {self.partition}) PARTITION BY LIST (id)"
        if self.identity == "USING INDEX":
            index = f" {self.name}_whole"
            yield f"CREATE UNIQUE INDEX{index} ON {self.name} ({key})"
        elif not self.keyless:
            late = " DEFERRABLE INITIALLY DEFERRED" if self.deferrable else ""
            yield f"ALTER TABLE {self.name} ADD PRIMARY KEY ({key}){late}"
        yield f"ALTER TABLE {self.name} REPLICA IDENTITY {self.identity}{index}"
        yield f"ALTER TABLE {self.name} ATTACH PARTITION {self.partition} DEFAULT"

    def begun(self) -> Content:
        """The rows that were there before the record began."""
        row: Row = {"part": "", "a": "before", "big": ""}
        return {-k: {"rid": f"-{k}", **row, **self.key(k), "n": f"-{k}.00"} for k in (1, 2, 3)}

    def named(self, number: int) -> str:
        """A condition that is true of the row that has the key."""
        return " AND ".join(f"{name} = {literal(v)}" for name, v in self.key(number).items())

    def moved(self, number: int) -> str:
        """The assignments that give a row the key."""
        return ", ".join(f"{name} = {literal(v)}" for name, v in self.key(number).items())

    def free(self, number: int) -> str:
        return f"NOT EXISTS (SELECT FROM {self.called} WHERE {self.named(number)})"

    def insert(self, number: int, rid: int, value: str, big: int = 0) -> str:
        """An insert that does nothing where the key is taken."""
        columns = ", ".join(self.key_columns)
        values = ", ".join(literal(v) for v in self.key(number).values())
        return (
            f"INSERT INTO {self.called} (rid, {columns}, a, n, big) SELECT {rid}, {values}, "
            f"'{value}', {rid}, repeat('x', {big}) WHERE {self.free(number)}"
        )

    def insert_or_update(self, number: int, rid: int, value: str) -> str:
        columns = ", ".join(self.key_columns)
        values = ", ".join(literal(v) for v in self.key(number).values())
        return (
            f"INSERT INTO {self.called} (rid, {columns}, a, n, big) VALUES ({rid}, {values}, "
            f"'{value}', 1, '') ON CONFLICT ({columns}) DO UPDATE SET a = excluded.a"
        )

    def key_of(self, row: Row) -> tuple[str | None, ...]:
        return tuple(row[name] for name in self.key_columns)


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def apply(content: Content, fact: Fact) -> None:
    """Apply one fact to the rows of its table."""
    if fact.op in "+-r":
        for row in content.values():
            held = [row.pop(name) for name in fact.old or {}]
            row |= (
                dict(zip(fact.new or {}, held, strict=True)) if fact.op == "r" else fact.new or {}
            )
    elif fact.op == "w":
        for row, name in itertools.product(content.values(), fact.new or {}):
            row[name] = str(int(row[name] or 0) + 1) if row[name] else None
    elif fact.defines and fact.op != "d":
        return
    elif fact.rid is None:
        content.clear()
    elif fact.new is None:
        content.pop(fact.rid, None)
    else:
        content[fact.rid] = dict(fact.new)


def copied(content: Content) -> Content:
    return {rid: dict(row) for rid, row in content.items()}
