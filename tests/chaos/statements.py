"""Small statements of the workload, and how many changes a row of each puts into the stream."""

import random
from dataclasses import dataclass

#: Few enough rows that sessions meet, many enough that they seldom wait.
_ROWS = 400


@dataclass(frozen=True, slots=True)
class Step:
    """One statement."""

    sql: str
    published: bool = True
    #: Changes in the stream for each row the server says it touched.
    each: int = 1
    #: Changes besides (a truncation has one a table).
    fixed: int = 0
    messages: int = 0
    #: An ALTER TABLE of ``shapes``, chosen by this among what fits the columns it has then.
    choice: float | None = None


def small(rng: random.Random) -> Step:
    """One statement on one table, of a few rows."""
    return rng.choice(_SMALL)(rng)


def _key(rng: random.Random) -> int:
    return rng.randrange(_ROWS)


def long_text(value: int, times: int) -> str:
    """An expression of ``times`` × 32 characters that do not compress to nothing."""
    return f"(SELECT string_agg(md5(({value} + g)::text), '') FROM generate_series(1, {times}) g)"


def _accounts(rng: random.Random) -> Step:
    n, value, elsewhere = _key(rng), rng.randrange(100_000), _key(rng)
    return Step(
        rng.choice(
            [
                f"INSERT INTO accounts VALUES ({n}, {value} / 100.0, clock_timestamp(), "
                f"'é {value} \\ \"') ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, "
                "at = excluded.at",
                f"UPDATE accounts SET balance = balance + {value}, note = NULL WHERE id = {n}",
                f"UPDATE accounts SET note = 'range ' || id WHERE id BETWEEN {n} AND {n + 5}",
                f"UPDATE accounts SET id = {elsewhere} WHERE id = {n} AND NOT EXISTS "
                f"(SELECT FROM accounts WHERE id = {elsewhere})",
                f"DELETE FROM accounts WHERE id = {n}",
            ]
        )
    )


def _documents(rng: random.Random) -> Step:
    n, value = _key(rng), rng.randrange(100_000)
    return Step(
        rng.choice(
            [
                f"INSERT INTO documents VALUES ({n}, 1, {long_text(value, 90)}, NULL) "
                "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                # The toasted body is not sent.
                f"UPDATE documents SET version = version + 1 WHERE id BETWEEN {n} AND {n + 3}",
                f"UPDATE documents SET version = 0, extra = {long_text(value, 80)}::bytea "
                f"WHERE id = {n}",
                f"UPDATE documents SET id = id + {_ROWS} WHERE id = {n}",
                f"DELETE FROM documents WHERE id IN ({n}, {n + _ROWS})",
            ]
        )
    )


def _whole_rows(rng: random.Random) -> Step:
    n, value = rng.randrange(60), rng.randrange(100_000)
    return Step(
        rng.choice(
            [
                f"INSERT INTO whole_rows SELECT {n}, 'same', NULL FROM generate_series(1, 2)",
                f"INSERT INTO whole_rows VALUES ({n}, NULL, {long_text(value, 70)})",
                f"UPDATE whole_rows SET b = 'b{value}' WHERE a = {n}",
                f"DELETE FROM whole_rows WHERE ctid IN "
                f"(SELECT ctid FROM whole_rows WHERE a = {n} LIMIT 1)",
            ]
        )
    )


def _pairs(rng: random.Random) -> Step:
    n, value = rng.randrange(40), rng.randrange(10)
    document = f'{{"v": {value}, "t": ["x", null]}}'
    return Step(
        rng.choice(
            [
                f"INSERT INTO pairs VALUES ('{document}', {n}, 'b{value}', {value} > 5) "
                "ON CONFLICT (a, b) DO UPDATE SET v = excluded.v, flag = NOT pairs.flag",
                f"UPDATE pairs SET v = '{document}' WHERE a = {n}",
                f"UPDATE pairs SET b = 'moved' WHERE a = {n} AND b = 'b{value}' "
                f"AND NOT EXISTS (SELECT FROM pairs WHERE a = {n} AND b = 'moved')",
                f"DELETE FROM pairs WHERE a = {n}",
            ]
        )
    )


def _indexed(rng: random.Random) -> Step:
    n, value = rng.randrange(100), rng.randrange(100_000)
    return Step(
        rng.choice(
            [
                f"INSERT INTO indexed (nr, code, tags) VALUES ({n}, 'c{n % 7}', '{{a,\"b, c\"}}') "
                "ON CONFLICT (code, nr) DO NOTHING",
                f"UPDATE indexed SET tags = array['t{value}', NULL] WHERE nr = {n}",
                f"UPDATE indexed SET id = {value} WHERE nr BETWEEN {n} AND {n + 3}",
                f"DELETE FROM indexed WHERE nr = {n}",
            ]
        )
    )


def _journal(rng: random.Random) -> Step:
    n, rows = _key(rng), rng.randint(1, 5)
    return Step(
        f"INSERT INTO journal SELECT {n}, clock_timestamp(), 'line ' || g "
        f"FROM generate_series(1, {rows}) g"
    )


def _parted(rng: random.Random) -> Step:
    n, region = _key(rng), rng.randrange(2)
    choice = rng.randrange(4)
    if choice == 0:
        # Into the other partition: a delete and an insert.
        return Step(
            f"UPDATE parted p SET region = 1 - region WHERE id = {n} AND NOT EXISTS "
            f"(SELECT FROM parted o WHERE o.id = {n} AND o.region = 1 - p.region)",
            each=2,
        )
    return Step(
        [
            f"INSERT INTO parted VALUES ({n}, {region}, 'in {region}') ON CONFLICT DO NOTHING",
            f"UPDATE parted SET body = body || '+' WHERE id = {n} AND length(body) < 30",
            f"DELETE FROM parted WHERE id = {n} AND region = {region}",
        ][choice - 1]
    )


def _family(rng: random.Random) -> Step:
    n = _key(rng)
    return Step(
        rng.choice(
            [
                "WITH p AS (INSERT INTO parents (name) SELECT 'p' || g FROM generate_series(1, 2) "
                "g RETURNING id) SELECT id FROM p",
                f"INSERT INTO children (parent, at) SELECT id, make_interval(mins => {n}) "
                "FROM parents ORDER BY id DESC LIMIT 3",
                f"DELETE FROM children WHERE id % 50 = {n % 50}",
                f"UPDATE children SET at = at * 2 WHERE id % 20 = {n % 20} AND at < '10 days'",
            ]
        )
    )


def _shapes(rng: random.Random) -> Step:
    n = _key(rng)
    return Step(
        rng.choice(
            [
                f"INSERT INTO shapes (id, note) VALUES ({n}, 'n{n}') ON CONFLICT (id) DO UPDATE "
                "SET note = shapes.note || '!' WHERE length(shapes.note) < 30",
                f"UPDATE shapes SET note = NULL WHERE id = {n}",
                f"DELETE FROM shapes WHERE id = {n}",
            ]
        )
    )


_SMALL = [
    _accounts,
    _accounts,
    _documents,
    _whole_rows,
    _pairs,
    _indexed,
    _journal,
    _parted,
    _family,
    _shapes,
]
