"""A row is looked up by its key as the source compares keys: texts of equal values are one key."""

from itertools import count

import pytest

from replview.access.visibility import reading_session
from replview.acts.publications import look_at_publications
from replview.store.models import Source
from replview.store.read.changes.selections import Selection
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.history import row_history
from replview.store.read.row_history.keys import tables_named
from tests.support.page_elements import spaced

pytestmark = pytest.mark.slow

#: Built-in types with a B-tree order, which a key needs; values in several spellings, and others.
TYPES = {
    "smallint": ["7", "007", " 7", "-7"],
    "integer": ["42", "042", "+42", "43"],
    "bigint": ["9000000000", "09000000000", "9"],
    "numeric": ["1.10", "1.1", "01.100", "11e-1", "1.11", "0", "0.00", "-0", "NaN", "100", "1e2"],
    "numeric(10,2)": ["5", "5.0", "05.00", "5.01"],
    "real": ["0.1", "1e-1", "-0", "0", "100"],
    "double precision": [".5", "5e-1", "-0", "0", "NaN"],
    "boolean": ["true", "t", "yes", "off"],
    "text": ["abc", "ABC", "abc "],
    "varchar(8)": ["abc", "abd"],
    "char(6)": ["ab", "ab    ", "AB"],
    "bpchar": ["ab", "ab  ", "AB", " ab"],
    "name": ["orders", "Orders"],
    '"char"': ["a", "b"],
    "bytea": [r"\x0aff", r"\x0AFF", r"\012\377", "abc"],
    "uuid": ["6f1c5f0e-9d0a-4f0e-8f0e-1d2c3b4a5968", "6F1C5F0E9D0A4F0E8F0E1D2C3B4A5968",
             "{00000000-0000-0000-0000-00000000000a}"],
    "date": ["2026-1-2", "2026-01-02", "Jan 3 2026", "infinity"],
    "time": ["7:05", "07:05:00", "07:05 PM"],
    "timetz": ["07:05+00", "07:05:00+00", "08:05+01"],
    "timestamp": ["2026-01-02 01:00", "2026-01-02T01:00:00", "-infinity"],
    "timestamptz": ["2026-01-02T01:00:00Z", "2026-01-02 02:00:00+01", "2026-01-02 01:00:00.5+00"],
    "timestamptz(0)": ["2026-01-02T01:00:00Z", "2026-01-02 02:00:00+01"],
    "interval": ["1 mon -3 days", "27 days", "648:00:00", "28 days", "90 minutes", "01:30"],
    "interval day to second": ["1 day", "24:00:00", "25 hours"],
    "inet": ["::1", "::1/128", "10.0.0.1", "10.0.0.1/8"],
    "cidr": ["10.0.0.0/8", "10/8", "::/0"],
    "macaddr": ["08:00:2b:01:02:03", "08002B010203"],
    "macaddr8": ["08:00:2b:01:02:03:04:05", "0800.2b01.0203.0405"],
    "bit(3)": ["101", "011"],
    "varbit": ["1", "10"],
    "oid": ["9", " 9", "10"],
    "oidvector": ["1 2", " 1  2", "2 1"],
    # For these types only the text that the source prints is looked up (see below).
    "money": ["$1.00", "-$1,000.00"],
    "regtype": ["integer", "text"],
    "regclass": ["pg_class", "pg_type"],
    "tid": ["(0,1)", "(1,0)"],
    "pg_lsn": ["0/A", "0/0000000A", "1/0"],
    "jsonb": ['{"a": 1, "b": "1.0"}', '{"b":"1.0","a":1.00}', '{"a":1,"b":"1.00"}', "1", "1.0"],
    "tsvector": ["a b", "b a", "'a':1"],
    "tsquery": ["a & b", "a&b", "!c"],
    "int4range": ["[1,5]", "[1,6)", "empty", "(3,3)"],
    "numrange": ["[1.0,5.0]", "[1,5]", "[1,5)"],
    "daterange": ["[2026-01-01,2026-01-31]", "[2026-1-1,2026-02-01)"],
    "tstzrange": ["[2026-01-01 00:00+00,)", "[2026-01-01 01:00+01,)"],
    "integer[]": ["{1,2}", "{ 1, 2 }", "{2,1}", "[2:3]={1,2}"],
    "numeric[]": ["{1.0,2}", "{1,2.00}", "{2}"],
    "numeric(6,2)[]": ["{1.0,2}", "{1,2.00}"],
    "interval[]": ["{1 day}", "{24:00:00}"],
    "text[]": ["{a,b}", '{"a","b"}', "{B}"],
    "jsonb[]": ['{"{\\"a\\": 1}"}', '{"{\\"a\\":1.0}"}'],
}  # fmt: skip
SINCE = {
    13: {"xid8": ["9", "10"]},
    14: {"int4multirange": ["{[1,3],[5,6]}", "{[1,4),[5,7)}", "{}"],
         "nummultirange": ["{[1.0,3.0]}", "{[1,3]}"]},
}  # fmt: skip


def made(source, version: int, form: str) -> dict[str, tuple[str, list[str]]]:
    """Make a table for every type: ``{table: (type, texts)}``."""
    types = dict(TYPES)
    for since, more in SINCE.items():
        types |= more if version >= since else {}
    tables = {}
    for number, (kind, texts) in zip(count(), types.items(), strict=False):
        of_column = kind
        if form in ("a domain", "a domain over a domain"):
            source.run(f"CREATE DOMAIN d{number} AS {kind}")
            of_column = f"d{number}"
        if form == "a domain over a domain":
            source.run(f"CREATE DOMAIN dd{number} AS d{number}")
            of_column = f"dd{number}"
        key = "id, other" if form == "one of two columns" else "id"
        source.run(f"CREATE TABLE t{number} (id {of_column}, other numeric, PRIMARY KEY ({key}))")
        tables[f"t{number}"] = kind, texts
    return tables


def equal_texts(connection, kind: str, texts: list[str]) -> dict[str, int]:
    """Return, by text, how many of the texts the server finds equal to it."""
    sql = f"SELECT count(*) FROM unnest(%s::text[]) AS o WHERE o::{kind} = %s::{kind}"
    return {text: connection.execute(sql, [texts, text]).fetchone()[0] for text in texts}


@pytest.mark.parametrize(
    "form",
    [
        "plain",
        pytest.param("a domain", marks=pytest.mark.long),
        "a domain over a domain",
        pytest.param("one of two columns", marks=pytest.mark.long),
    ],
)
def test_a_row_is_found_by_every_text_that_the_source_calls_equal(
    source, source_version, record, form
) -> None:
    tables = made(source, source_version, form)
    recording = record(source)
    with source.connect(client_encoding="UTF8") as connection:
        connection.execute("SET timezone = 'UTC'")
        for name, (kind, texts) in tables.items():
            for text in texts:  # One row after another, each under its own text.
                connection.execute(f"INSERT INTO {name} VALUES (%s::text::{kind}, 2.50)", [text])
                connection.execute(f"DELETE FROM {name}")
        right = {name: equal_texts(connection, *each) for name, each in tables.items()}
    recording.caught_up()
    recording.end()
    session, wrong = reading_session(), []
    for name, (kind, texts) in tables.items():
        table = tables_named(session, recording.slot, f"public.{name}")
        assert table is not None
        for text in texts:
            key = {"id": text, "other": "2.5"} if form == "one of two columns" else {"id": text}
            typed = table.printed(session, key)
            found = row_history(session, recording.slot, table.relation.pk, typed)
            rows = len(found.others) + bool(found.entries)
            if rows != right[name][text]:
                wrong.append((kind, text, rows, right[name][text]))
    assert not wrong, wrong


def history_of(recording, name: str, **key: str):
    """The history of a row of ``public.<name>``, and the row as it is now."""
    session = reading_session()
    table = tables_named(session, recording.slot, f"public.{name}")
    assert table is not None
    asked = session, recording.slot, table.relation.pk, table.printed(session, key)
    return row_history(*asked), row_as_of(*asked)


@pytest.mark.parametrize("typed", ["1.10", "1.1", "1.100", "01.1"])
def test_a_key_that_was_written_anew_is_one_row(source, record, typed) -> None:
    source.run("CREATE TABLE price (id numeric PRIMARY KEY, a text)")
    recording = record(source)
    source.run("INSERT INTO price VALUES (1.10, 'one'), (1.2, 'other')")
    source.run("UPDATE price SET id = 1.1, a = 'two' WHERE id = 1.1")
    source.run("UPDATE price SET id = 1.1000, a = 'three' WHERE id = 1.1")
    recording.caught_up()
    recording.end()
    history, now = history_of(recording, "price", id=typed)
    assert [entry.after.values["a"] for entry in history.entries] == ["three", "two", "one"]
    assert not history.others
    assert now.values == {"id": "1.1000", "a": "three"}
    asked = Selection.from_words(
        reading_session(), recording.slot, {"table": "public.price", "key": typed}
    )
    found = [change.new["a"] for some, _ in asked.found(reading_session()) for _, change in some]
    assert found == ["one", "two", "three"]


def test_a_key_of_a_former_type_is_compared_as_that(source, record) -> None:
    source.run("CREATE TABLE price (id numeric PRIMARY KEY, a text)")
    recording = record(source)
    source.run("INSERT INTO price VALUES (1.5, 'numeric')", "DELETE FROM price")
    source.run("ALTER TABLE price ALTER id TYPE numeric(10,2)")
    source.run("INSERT INTO price VALUES (1.5, 'with a scale')")
    recording.caught_up()
    recording.end()
    history, now = history_of(recording, "price", id="1.5")
    assert now.values == {"id": "1.50", "a": "with a scale"}
    assert [len(span.events) for span in history.others] == [2]


def test_a_key_without_regard_to_case(source_15, record) -> None:
    source_15.run("CREATE EXTENSION citext; CREATE DOMAIN mail AS citext")
    source_15.run("CREATE TABLE person (id mail, n int, a text, PRIMARY KEY (id, n))")
    recording = record(source_15)
    source_15.run("INSERT INTO person VALUES ('Ann@Example.org', 1, 'one'), ('bob', 1, 'bob')")
    source_15.run(
        "UPDATE person SET id = 'ann@example.org', a = 'two' WHERE id = 'ANN@example.org'"
    )
    recording.caught_up()
    recording.end()
    for typed in ("Ann@Example.org", "ann@example.org", "ANN@EXAMPLE.ORG"):
        history, now = history_of(recording, "person", id=typed, n="1")
        assert [entry.after.values["a"] for entry in history.entries] == ["two", "one"]
        assert now.values["a"] == "two"


def test_another_spelling_of_what_only_its_server_compares_proves_no_change(
    source, record, signed_in
) -> None:
    texts = {"money": ("$1.00", "1"), "regclass": ("pg_class", "1259"), "text": ("a", "A")}
    for kind in texts:
        source.run(f"CREATE TABLE t_{kind} (id {kind} PRIMARY KEY, a text)")
    recording = record(source)
    Source.objects.update(conninfo=source.dsn)
    look_at_publications(recording.slot.source)
    for kind, (text, _) in texts.items():
        source.run(f"INSERT INTO t_{kind} VALUES ('{text}', 'one')")
    recording.caught_up()
    recording.end()

    def page(kind: str, text: str) -> str:
        words = {"slot": str(recording.slot), "table": f"public.t_{kind}", "key": text}
        return spaced(signed_in.get("/rows/", words).text)

    for kind, (text, other) in texts.items():
        history, now = history_of(recording, f"t_{kind}", id=text)
        assert [entry.after.values["a"] for entry in history.entries] == ["one"]
        history, now = history_of(recording, f"t_{kind}", id=other)
        assert (history.entries, now.exists, now.why) == ([], None, "no change")
        proved = "nothing is missing in between" in page(kind, other)
        told = f"A key of type {kind} is found only as its server writes it." in page(kind, other)
        assert (proved, told) == ((True, False) if kind == "text" else (False, True))


def test_a_key_that_a_collation_calls_equal_is_another_text(source_15, record, signed_in) -> None:
    ignoring_case = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
    source_15.run(f"CREATE COLLATION ignoring_case ({ignoring_case})")
    source_15.run("CREATE TABLE person (id text COLLATE ignoring_case PRIMARY KEY, a text)")
    recording = record(source_15)
    Source.objects.update(conninfo=source_15.dsn)
    look_at_publications(recording.slot.source)
    source_15.run("INSERT INTO person VALUES ('Ann', 'one')")
    source_15.run("UPDATE person SET id = 'ann', a = 'two' WHERE id = 'ANN'")
    recording.caught_up()
    recording.end()
    for typed in ("Ann", "ann"):
        history, now = history_of(recording, "person", id=typed)
        assert [entry.after.values["a"] for entry in history.entries] == ["two", "one"]
    history, now = history_of(recording, "person", id="ANN")
    assert (history.entries, now.exists, now.why) == ([], None, "no change")
    words = {"slot": str(recording.slot), "table": "public.person", "key": "ANN"}
    page = spaced(signed_in.get("/rows/", words).text)
    assert "nothing is missing in between" not in page
    assert "Its server counts other spellings of a key as equal" in page


@pytest.mark.parametrize(
    ("table", "key", "code"),
    [
        ("mood", "sad, really", 200),
        ("mood", "'sad, really'", 200),
        ("mood", "id='sad, really'", 200),
        ("mood", "\"id\" = 'sad, really'", 200),
        ("mood", "id=sad, really", 400),
        ("pair", "id='sad, really', n=1", 200),
        ("pair", "'sad, really', 1", 200),
        ("pair", "n=1, id='sad, really'", 200),
        ("pair", "n=1, id=sad, really", 400),
        ("pair", "id=sad, really", 400),
        ("pair", "sad, really, 1", 400),
    ],
)
def test_a_value_with_a_comma_is_found_or_asked_for_in_quotes(
    labelled, signed_in, table, key, code
) -> None:
    for address in ("/api/v1/rows", "/api/v1/rows/as-of"):
        words = {"slot": str(labelled), "table": f"public.{table}", "key": key}
        answer = signed_in.get(address, words)
        assert answer.status_code == code, answer.json()
        if code == 400:
            assert "a value that holds a comma in single quotes" in answer.content.decode()
        elif address.endswith("as-of"):
            assert answer.json()["values"]["a"] == "found"
        else:
            assert [item["after"]["a"] for item in answer.json()["items"]] == ["found"]


@pytest.fixture
def labelled(source, record):
    """A slot with two tables whose keys have a label with a comma."""
    source.run("CREATE TYPE moods AS ENUM ('sad, really', 'ok')")
    source.run("CREATE TABLE mood (id moods PRIMARY KEY, a text)")
    source.run("CREATE TABLE pair (id moods, n int, a text, PRIMARY KEY (id, n))")
    recording = record(source)
    source.run("INSERT INTO mood VALUES ('sad, really', 'found'), ('ok', 'other')")
    source.run("INSERT INTO pair VALUES ('sad, really', 1, 'found'), ('ok', 1, 'other')")
    recording.caught_up()
    recording.end()
    return recording.slot
