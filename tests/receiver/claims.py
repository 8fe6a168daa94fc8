"""Transactions with several claims, whose rows say themselves who wrote them."""

import json

ROWS = "CREATE TABLE rows (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who text)"


def claim(name: str, **context: str) -> str:
    document = json.dumps({"actor": name, **context})
    return f"SELECT pg_logical_emit_message(true, 'replview', '{document}')"


def row(who: str | None) -> str:
    return f"INSERT INTO rows (who) VALUES ({'NULL' if who is None else repr(who)})"


def stamp(name: str) -> str:
    document = json.dumps({"actor": name})
    return f"SELECT pg_logical_emit_message(true, 'replview.stamp', '{document}')"


def back(*statements: str) -> tuple[str, ...]:
    return "SAVEPOINT s", *statements, "ROLLBACK TO s"


#: Statements of a transaction, and whom the page names.
TRANSACTIONS = {
    "one claim": ([claim("alice"), row("alice"), row("alice")], ["alice"]),
    "two claims": (
        [claim("alice"), row("alice"), claim("bob"), row("bob")], ["bob", "alice"],
    ),
    "one again": (
        [claim("alice"), row("alice"), claim("bob"), row("bob"), claim("alice"), row("alice")],
        ["alice", "bob"],
    ),
    "after changes": ([row(None), claim("alice"), row("alice")], ["alice", None]),
    "after a stamp and changes": (
        [stamp("app"), row("app"), claim("alice"), row("alice")], ["alice", "app"],
    ),
    "after a stamp": ([stamp("app"), claim("alice"), row("alice")], ["alice"]),
    "rolled back": (
        [claim("alice"), row("alice"), *back(row("x"), claim("bob"), row("x")), row("alice")],
        ["alice"],
    ),
    "rolled back with its savepoint's first change behind it": (
        [row(None), *back("SAVEPOINT in_s", row("x"), "RELEASE in_s", claim("bob"), row("x")),
         row(None)],
        [None],
    ),
    "kept before a savepoint that is rolled back": (
        [claim("alice"), row("alice"), claim("bob"), row("bob"), *back(row("x")), row("bob")],
        ["bob", "alice"],
    ),
    "again after a savepoint that is rolled back": (
        [claim("alice"), row("alice"), *back(row("x"), claim("bob")), claim("bob"), row("bob"),
         claim("bob"), row("bob")],
        ["bob", "alice"],
    ),
    "released": (
        [claim("alice"), row("alice"), "SAVEPOINT s", claim("bob"), row("bob"), "RELEASE s",
         row("bob")],
        ["bob", "alice"],
    ),
}  # fmt: skip
#: Every change is streamed at once (PostgreSQL 16): what a savepoint takes back was sent before.
STREAMED = """
    DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET debug_logical_replication_streaming = immediate',
                       current_database());
    END $$
"""
