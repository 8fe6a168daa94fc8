"""Draws the rarer statements of the workload: large ones, messages, TRUNCATE, ALTER TABLE."""

import random
from collections.abc import Sequence

from tests.chaos.statements import Step, long_text


def large(rng: random.Random) -> Step:
    """Several hundred rows: more than is decoded in memory."""
    first, rows = 1000 + rng.randrange(40) * 1000, rng.randint(150, 700)
    note = f"repeat(md5(g::text), {rng.randint(3, 8)})"
    some = f"id % 12 = {first // 1000 % 12}"
    return rng.choice(
        [
            Step(
                f"INSERT INTO accounts SELECT g, g / 7.0, clock_timestamp(), {note} "
                f"FROM generate_series({first}, {first + rows}) g ON CONFLICT (id) DO UPDATE "
                "SET balance = accounts.balance + 1"
            ),
            Step(
                f"INSERT INTO journal SELECT g, clock_timestamp(), {note} "
                f"FROM generate_series({first}, {first + rows}) g"
            ),
            Step(f"UPDATE accounts SET note = {note.replace('g::', 'id::')} WHERE {some}"),
            Step(f"DELETE FROM accounts WHERE id BETWEEN {first} AND {first + rows}"),
            Step(
                f"INSERT INTO parted SELECT g, g % 2, {note} "
                f"FROM generate_series({first}, {first + rows}) g ON CONFLICT DO NOTHING"
            ),
        ]
    )


def message(rng: random.Random, name: str) -> Step:
    """A message of the transaction."""
    content = f"'{name} ' || {long_text(rng.randrange(1000), rng.randint(1, 3))}"
    return Step(f"SELECT pg_logical_emit_message(true, 'chaos', {content})", each=0, messages=1)


def long_message(rng: random.Random) -> Step:
    """Draw a logical message that by itself makes its transaction large."""
    return Step(
        "SELECT pg_logical_emit_message(true, 'chaos large', "
        f"decode(repeat('{rng.randrange(10, 99)}00ff', 30000), 'hex'))",
        each=0,
        messages=1,
    )


def truncate(rng: random.Random) -> Step:
    """Draw a TRUNCATE of one table, of two, or of one with the tables that refer to it."""
    return rng.choice(
        [
            Step("TRUNCATE parents RESTART IDENTITY CASCADE", each=0, fixed=2),
            Step("TRUNCATE children, journal", each=0, fixed=2),
            Step("TRUNCATE whole_rows", each=0, fixed=1),
            Step("TRUNCATE parted", each=0, fixed=1),
        ]
    )


def ddl(rng: random.Random) -> Step:
    """An ALTER TABLE of ``shapes``, with its line in ``ddl_log``."""
    return Step("", choice=rng.random())


def alteration(choice: float, columns: Sequence[str]) -> tuple[str, list[str | None]]:
    """An ALTER TABLE that fits the columns ``shapes`` has, and its line: kind, name, value."""
    extra = sorted(name for name in columns if name.startswith("extra_"))
    fresh = f"extra_{int(choice * 1e6)}"
    value = f"v{int(choice * 1e4)}"
    if not extra or (choice < 0.4 and len(extra) < 6):
        if choice < 0.2:
            return f"ADD {fresh} text", ["add", fresh, None]
        return f"ADD {fresh} text DEFAULT '{value}'", ["add", fresh, value]
    chosen = extra[int(choice * 1e3) % len(extra)]
    if choice < 0.6:
        return f"RENAME {chosen} TO {fresh}", ["rename", chosen, fresh]
    if choice < 0.75:
        return f"DROP {chosen}", ["drop", chosen, None]
    if choice < 0.9:
        # Rewrites the table; the stream shows nothing of it.
        return f"ALTER {chosen} TYPE varchar({50 + int(choice * 100)})", ["type", chosen, None]
    identity = "FULL" if choice < 0.95 else "DEFAULT"
    return f"REPLICA IDENTITY {identity}", ["identity", identity, None]
