"""Find compares values as their column's type: it finds what the server itself finds."""

import random

import psycopg
import pytest

from replview.access.visibility import reading_session
from replview.store.read.changes.search import find_changes
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.value_filter import Condition, TextValue, ValueFilter, WhereProblem

pytestmark = pytest.mark.slow

#: Values of every built-in type that a table can have and the store can read, in several spellings.
BUILT_IN = {
    "smallint": ["-3", "007", "42", "9"],
    "integer": ["-42", "042", "42", "100", "9", " 7"],
    "bigint": ["-9000000000", "9000000000", "9", "100"],
    "numeric": ["9", "9.00", "100.5", "1e2", "NaN", "-Infinity", "0.1"],
    "numeric(10,2)": ["5", "5.00", "05", "100.01", "9.99"],
    "real": ["0.1", "1e-1", "100", "NaN", "-0"],
    "double precision": [".5", "5e-1", "1e300", "NaN", "9"],
    "boolean": ["true", "f", "yes", "off", "1"],
    "text": ["abc", "ABC", "abc ", "zebra", "Äpfel", "10", "9", ""],
    "varchar(8)": ["abc", "ABC", "zebra", "9"],
    "char(6)": ["ab", "ab    ", "AB", "abcdef"],
    "name": ["orders", "Orders", "z"],
    '"char"': ["a", "Z", "0"],
    "bytea": [r"\x0aff", r"\x0AFF", "abc", r"\x"],
    "uuid": ["6f1c5f0e-9d0a-4f0e-8f0e-1d2c3b4a5968", "6F1C5F0E9D0A4F0E8F0E1D2C3B4A5968",
             "{00000000-0000-0000-0000-00000000000a}"],
    "date": ["2026-1-2", "2026-01-02", "Jan 3 2026", "infinity", "0044-03-15 BC"],
    "time": ["7:05", "07:05:00", "19:00:00.5", "07:00 PM"],
    "time with time zone": ["07:05+00", "08:05+01", "07:05:00-08"],
    "timestamp": ["2026-01-02 01:00", "2026-01-02T01:00:00", "-infinity", "1999-12-31 BC"],
    "timestamp with time zone": ["2026-01-02T01:00:00Z", "2026-01-02 02:00:00+01",
                                 "2026-01-02 01:00", "infinity"],
    "interval": ["90 minutes", "01:30:00", "1 mon", "30 days", "31 days", "-1 day"],
    "inet": ["::1", "::1/128", "10.0.0.1", "10.0.0.1/8", "9.0.0.0/8"],
    "cidr": ["10.0.0.0/8", "10/8", "9.0.0.0/16", "::/0"],
    "macaddr": ["08:00:2b:01:02:03", "08002B010203", "00:00:00:00:00:01"],
    "macaddr8": ["08:00:2b:01:02:03:04:05", "0800.2b01.0203.0405"],
    "bit(3)": ["101", "011", "110"],
    "bit varying": ["1", "10", "101", "011"],
    "oid": ["9", "100", "042"],
    "xid": ["9", "100", "042"],
    "xid8": ["9", "100"],
    "cid": ["9", "100"],
    "tid": ["(0,1)", "(10,2)", "(9,3)"],
    "pg_lsn": ["0/A", "0/0000000A", "1/0", "0/FF"],
    "json": ['{"a": 1}', '{"a":1}'],
    "jsonb": ['{"a": 1, "b": 2}', '{"b":2,"a":1.0}', "[1, 2]", '"x"', "1", "1.0", "null"],
    "point": ["(1,2)", "1,2"],
    "line": ["{1,2,3}", "{2,4,6}"],
    "lseg": ["(0,0),(1,1)", "[(0,0),(2,2)]"],
    "box": ["(0,0),(1,1)", "(1,1),(0,0)", "(0,0),(3,3)"],
    "path": ["((0,0),(1,1))", "[(0,0),(1,1),(2,2)]"],
    "polygon": ["((0,0),(1,1),(1,0))", "((5,5),(6,6),(6,5))"],
    "circle": ["<(0,0),1>", "((0,0),1)", "<(3,3),2>"],
    "tsvector": ["a b", "b a", "'a':1 'c':2"],
    "tsquery": ["a & b", "a&b", "!c"],
    "int4range": ["[1,5]", "[1,6)", "(,3)", "empty"],
    "int8range": ["[1,5]", "[1,6)", "[2,)"],
    "numrange": ["[1.0,5.0]", "[1,5]", "(1,5)"],
    "daterange": ["[2026-01-01,2026-01-31]", "[2026-1-1,2026-02-01)"],
    "tsrange": ["[2026-01-01,2026-01-02)", "(,2026-01-01 00:00)"],
    "tstzrange": ["[2026-01-01 00:00+00,)", "[2026-01-01 01:00+01,)"],
    "int4multirange": ["{[1,3],[5,6]}", "{[1,4),[5,7)}", "{}"],
    "datemultirange": ["{[2026-01-01,2026-01-03]}", "{[2026-1-1,2026-1-4)}"],
    "integer[]": ["{1,2,3}", "{ 1, 2, 3 }", "{9,NULL}", "{10}", "{}", "[2:3]={1,2}"],
    "text[]": ["{a,b}", '{"a","b"}', "{B}", "{NULL}"],
    "numeric[]": ["{1.0,2}", "{1,2.00}", "{10}"],
    "timestamptz[]": ["{2026-01-01 00:00+00}", "{2026-01-01 01:00+01}"],
    "jsonb[]": ['{"{\\"a\\": 1}"}', '{"{\\"a\\":1.0}"}'],
    "int4range[]": ['{"[1,5]"}', '{"[1,6)"}'],
    "json[]": ["{1}", "{2}"],
    "point[]": ['{"(1,2)"}'],
    "box[]": ["{(0,0),(1,1)}"],
}  # fmt: skip
#: Types of the source's own, of which its catalog says enough.
OWN = {
    "mood": ["sad", "ok", "happy"],
    "good_mood": ["ok", "happy"],
    "amount": ["9", "100", "9.00", "100.5"],
    "amount[]": ["{9,100}", "{9.00,100.0}", "{10}"],
    "code": ["ab", "ab  ", "AB"],
}
#: Types of which only their server knows how values compare.
REFUSED = {"money": ["$1.00"], "regclass": ["pg_class"], "mood[]": ["{sad}"],
           "place": ["(a,1)"], "span": ["[1,2)"]}  # fmt: skip
NO_VALUES = {"smallint": "abc", "integer": "4x", "uuid": "6f1c", "inet": "localhost",
             "date": "2026-13-01", "interval": "soon", "jsonb": "{", "mood": "hapy",
             "int4range": "1-5", "boolean": "perhaps", "integer[]": "1,2", "amount": "much",
             "pg_lsn": "here", "bit(3)": "102"}  # fmt: skip
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
TEXTUAL = ("citext", "text", "varchar(8)", "char(6)", "text[]", "code")


def make_types(source) -> None:
    source.run("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    source.run("CREATE DOMAIN good_mood AS mood CHECK (VALUE <> 'sad')")
    source.run("CREATE DOMAIN some_amount AS numeric(12, 3)")
    source.run("CREATE DOMAIN amount AS some_amount CHECK (VALUE > 0)")
    source.run("CREATE DOMAIN code AS char(4)")
    source.run("CREATE TYPE place AS (name text, number int)")
    source.run("CREATE TYPE span AS RANGE (subtype = float4)")


@pytest.fixture
def kinds(source, record):
    """Every type's column, three hundred rows of random values, NULL among them."""
    make_types(source)
    rng = random.Random(7)
    values = BUILT_IN | OWN | REFUSED
    columns = {kind: f"c{number}" for number, kind in enumerate(values)}
    listed = ", ".join(f"{name} {kind}" for kind, name in columns.items())
    source.run(f"CREATE TABLE kinds (id int PRIMARY KEY, {listed})")
    recording = record(source)
    with source.connect() as connection, connection.cursor() as cursor:
        rows = [
            [number, *(rng.choice([*values[kind], None]) for kind in columns)]
            for number in range(300)
        ]
        marks = ", ".join(["%s", *(f"%s::{kind}" for kind in columns)])
        cursor.executemany(f"INSERT INTO kinds VALUES ({marks})", rows)
    recording.caught_up()
    recording.end()
    return recording, columns


def found(slot, column: str, operator: str, value: str) -> set[int] | str:
    """The rows that Find finds, or why it cannot."""
    wanted = WantedChanges.from_words(slot, {"table": "public.kinds"})
    where = ValueFilter((Condition(column, operator, TextValue(value)),))
    assert ValueFilter.parse(str(where)) == where
    object.__setattr__(wanted, "where", where)
    try:
        answer = find_changes(reading_session(), wanted, limit=1000, budget_seconds=60)
    except WhereProblem as problem:
        return str(problem)
    assert answer.complete
    assert not answer.unknown
    return {int(change.new["id"]) for _, change in answer.rows}


def truth(connection, kind: str, column: str, operator: str, value: str) -> set[int] | str:
    """The rows that the server finds; text is ordered by its bytes."""
    # The server has operators for a domain over an enum, and an array of domains, only after a
    # cast.
    cast = {"good_mood": "::mood", "amount[]": "::numeric[]"}.get(kind, "")
    named = f'{column} COLLATE "C"' if kind in TEXTUAL else f"{column}{cast}"
    try:
        sql = f"SELECT id FROM kinds WHERE {named} {operator} {psycopg.sql.quote(value)}"
        return {row[0] for row in connection.execute(sql)}
    except psycopg.Error as error:
        return str(error)


def test_find_answers_as_the_server_does(source, kinds) -> None:
    recording, columns = kinds
    wrong = []
    with source.connect(client_encoding="UTF8") as connection:
        connection.execute("SET timezone = 'UTC'")
        for kind, values in (BUILT_IN | OWN).items():
            for operator in OPERATORS:
                for value in values:
                    right = truth(connection, kind, columns[kind], operator, value)
                    said = found(recording.slot, columns[kind], operator, value)
                    if isinstance(right, str) != isinstance(said, str):
                        wrong.append((kind, operator, value, right, said))
                    elif not isinstance(right, str) and right != said:
                        wrong.append((kind, operator, value, len(right), len(said)))
        for value in ("41.5", "-1e9", "Infinity"):
            sql = f"SELECT id FROM kinds WHERE {columns['integer']} > '{value}'::numeric"
            right = {row[0] for row in connection.execute(sql)}
            assert found(recording.slot, columns["integer"], ">", value) == right
    assert not wrong, wrong
    for kind, value in NO_VALUES.items():
        for operator in ("=", "<"):
            said = found(recording.slot, columns[kind], operator, value)
            assert f"and {value} is no value of it" in said, (kind, said)
    for kind, values in REFUSED.items():
        said = found(recording.slot, columns[kind], "=", values[0])
        assert "only the source can compare" in said or "whose definition" in said, said
        assert "look for a text in its values with ~" in said


def test_labels_added_later_are_known_from_the_next_session_on(source, kinds) -> None:
    recording, columns = kinds
    source.run("ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok'")
    recording.start()
    source.run(f"INSERT INTO kinds (id, {columns['mood']}) VALUES (1000, 'meh')")
    recording.caught_up()
    recording.end()
    with source.connect() as connection:
        right = truth(connection, "mood", columns["mood"], "<", "ok")
    assert 1000 in right
    assert found(recording.slot, columns["mood"], "<", "ok") == right
    assert found(recording.slot, columns["mood"], "=", "meh") == {1000}


def test_citext_is_compared_without_regard_to_case(source_15, record) -> None:
    source_15.run("CREATE EXTENSION citext; CREATE DOMAIN email AS citext")
    source_15.run("CREATE TABLE kinds (id int PRIMARY KEY, a citext, b email)")
    recording = record(source_15)
    values = ["ann@example.org", "Ann@Example.org", "bob@example.org", "BOB@example.org", "a_"]
    for number, value in enumerate(values):
        source_15.run(f"INSERT INTO kinds VALUES ({number}, '{value}', '{value}')")
    recording.caught_up()
    recording.end()
    with source_15.connect() as connection:
        for column in "ab":
            for value in values:
                for operator in OPERATORS:
                    right = truth(connection, "citext", column, operator, value)
                    assert found(recording.slot, column, operator, value) == right
