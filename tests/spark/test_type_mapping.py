"""PostgreSQL's types in Arrow: every row of the table, with values as a real server writes them."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replview.parquet.pg_values import convert, parse_array
from replview.parquet.slice_schemas import (
    TIMESTAMP,
    TIMESTAMPTZ,
    map_column,
    numeric_modifier,
    widened,
)

UTC = dt.UTC

#: Type → Arrow type, then literals of SQL with what they become; None with text is raw.
TABLE = [
    ("smallint", pa.int16(), {"'-32768'": -32768, "null": None}),
    ("integer", pa.int32(), {"'2147483647'": 2147483647}),
    ("bigint", pa.int64(), {"'-9223372036854775808'": -9223372036854775808}),
    ("oid", pa.int64(), {"'4294967295'": 4294967295}),
    ("boolean", pa.bool_(), {"true": True, "false": False}),
    ("real", pa.float32(), {"'1.5'": 1.5, "'-Infinity'": -math.inf}),
    ("double precision", pa.float64(), {"'0.1'": 0.1, "'5e-324'": 5e-324, "'Infinity'": math.inf}),
    ("numeric(12,2)", pa.decimal128(12, 2),
     {"1.5": Decimal("1.50"), "'-9999999999.99'": Decimal("-9999999999.99"), "'NaN'": "NaN"}),
    ("numeric(38,38)", pa.decimal128(38, 38), {"0.1": Decimal("0.1")}),
    ("numeric(5)", pa.decimal128(5, 0), {"12345": Decimal(12345)}),
    ("numeric", pa.string(), {"'1.50'": "1.50", "'Infinity'": "Infinity"}),
    ("numeric(39,2)", pa.string(), {"1.5": "1.50"}),
    ("numeric(5,-2)", pa.string(), {"123456": "123500"}),
    ("numeric(2,5)", pa.string(), {"0.00012": "0.00012"}),
    ("timestamptz", TIMESTAMPTZ,
     {"'2026-11-20 07:57:11.369827+05:30'": dt.datetime(2026, 11, 20, 2, 27, 11, 369827, UTC),
      "'0001-01-01 00:00:00+00'": dt.datetime(1, 1, 1, tzinfo=UTC),
      "'infinity'": ("infinity",), "'0044-03-15 00:00:00+00 BC'": ("0044-03-15 00:00:00+00 BC",),
      "'10000-01-01 00:00:00+00'": ("10000-01-01 00:00:00+00",)}),
    ("timestamp(3)", TIMESTAMP,
     {"'2026-11-20 07:57:11.3698'": dt.datetime(2026, 11, 20, 7, 57, 11, 370000),  # noqa: DTZ001
      "'-infinity'": ("-infinity",)}),
    ("date", pa.date32(),
     {"'2026-11-20'": dt.date(2026, 11, 20), "'5874897-12-31'": ("5874897-12-31",),
      "'0044-03-15 BC'": ("0044-03-15 BC",)}),
    ("time", pa.string(), {"'07:57:11.5'": "07:57:11.5", "'24:00'": "24:00:00"}),
    ("timetz", pa.string(), {"'07:57:11+02'": "07:57:11+02"}),
    ("interval", pa.string(), {"'1 year 2 days'": "1 year 2 days"}),
    ("uuid", pa.string(), {"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'":
                           "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}),
    ("jsonb", pa.string(), {"'{\"b\": [1, 2]}'": '{"b": [1, 2]}'}),
    ("json", pa.string(), {"'{\"b\":  1}'": '{"b":  1}'}),
    ("bytea", pa.binary(), {"'\\x00ff'": b"\x00\xff", "''": b""}),
    ("integer[]", pa.list_(pa.int32()),
     {"'{1,NULL,3}'": [1, None, 3], "'{}'": [], "'{{1,2},{3,4}}'": ("{{1,2},{3,4}}",),
      "'[0:1]={1,2}'": ("[0:1]={1,2}",)}),
    ("text[]", pa.list_(pa.string()),
     {"array['a b', 'c\"\\d', 'NULL', null, '', 'é']": ["a b", 'c"\\d', "NULL", None, "", "é"]}),
    ("numeric(5,2)[]", pa.list_(pa.decimal128(5, 2)),
     {"'{1.5}'": [Decimal("1.50")], "'{1,NaN}'": ("{1.00,NaN}",)}),
    ("timestamptz[]", pa.list_(TIMESTAMPTZ),
     {"array['2026-11-20 00:00+00'::timestamptz]": [dt.datetime(2026, 11, 20, tzinfo=UTC)]}),
    ("mood", pa.string(), {"'fine'": "fine"}),
    ("mood[]", pa.list_(pa.string()), {"'{fine,sad}'": ["fine", "sad"]}),
    ("int4range", pa.string(), {"'[1,5)'": "[1,5)"}),
    ("money", pa.string(), {"'12.34'": "$12.34"}),
    ("inet", pa.string(), {"'10.0.0.1/8'": "10.0.0.1/8"}),
    ("bit(3)", pa.string(), {"B'101'": "101"}),
    ("pair", pa.string(), {"row(1, 'x')": "(1,x)"}),
    ("pg_lsn", pa.string(), {"'0/1B2C3D8'": "0/1B2C3D8"}),
    ("box[]", pa.string(), {"'{(1,1),(0,0);(2,2),(1,1)}'": "{(1,1),(0,0);(2,2),(1,1)}"}),
    ("varchar(40)", pa.string(), {"'x'": "x"}),
    ("char(3)", pa.string(), {"'x'": "x  "}),
]  # fmt: skip


@pytest.fixture(scope="module")
def server(source_cluster_18):
    import psycopg

    with psycopg.connect(source_cluster_18.dsn("postgres")) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("CREATE TYPE mood AS ENUM ('fine', 'sad')")
        connection.execute("CREATE TYPE pair AS (a int, b text)")
        yield connection
        connection.rollback()


@pytest.mark.parametrize(("type_name", "arrow", "literals"), TABLE, ids=[row[0] for row in TABLE])
@pytest.mark.parametrize("by", ["oid", "name"])
def test_every_type_as_a_real_server_writes_it(server, type_name, arrow, literals, by) -> None:
    server.execute("SAVEPOINT one")
    server.execute(f"CREATE TEMP TABLE t (v {type_name})")
    oid, typmod, name = server.execute(
        "SELECT atttypid, atttypmod, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 't'::regclass AND attnum = 1"
    ).fetchone()
    texts = []
    for literal in literals:
        server.execute("TRUNCATE t")
        server.execute(f"INSERT INTO t VALUES ({literal})")
        # An output function writes the text like this; a cast to text would trim char(n).
        texts.append(server.execute("SELECT nullif(concat(v), '') FROM t").fetchone()[0])
    if "''" in literals:
        texts[list(literals).index("''")] = "\\x"
    server.execute("ROLLBACK TO one")

    column = {"type_oid": oid, "typmod": typmod} if by == "oid" else {"type": name}
    if by == "oid" and oid >= 16384:
        column["type"] = name
    mapped = map_column(column)
    found = convert(texts, mapped.arrow)

    assert mapped.arrow == arrow
    expected = [
        None if isinstance(value, tuple) or value == "NaN" else value for value in literals.values()
    ]
    raw = {
        n: value[0] if isinstance(value, tuple) else value
        for n, value in enumerate(literals.values())
        if isinstance(value, tuple) or (value == "NaN" and arrow != pa.string())
    }
    if type_name == "money":
        assert found.array.to_pylist()[0].endswith("12.34")
        return
    assert found.array.to_pylist() == expected
    assert found.raw == raw


def test_modifiers_of_numeric() -> None:
    assert numeric_modifier(-1) == (None, 0)
    assert numeric_modifier(((12 << 16) | 2) + 4) == (12, 2)
    assert numeric_modifier(((5 << 16) | (-2 & 0x7FF)) + 4) == (5, -2)


@pytest.mark.parametrize(
    ("types", "together"),
    [
        ([pa.int16(), pa.int64(), pa.int32()], pa.int64()),
        ([pa.decimal128(5, 2), pa.decimal128(4, 3)], pa.decimal128(6, 3)),
        ([pa.int32(), pa.decimal128(5, 2)], pa.decimal128(12, 2)),
        ([pa.decimal128(38, 0), pa.decimal128(2, 2)], pa.string()),
        ([pa.float32(), pa.float64()], pa.string()),
        ([TIMESTAMP, TIMESTAMPTZ], pa.string()),
        ([pa.list_(pa.int16()), pa.list_(pa.int32())], pa.list_(pa.int32())),
        ([pa.bool_(), pa.int32()], pa.string()),
        ([pa.date32()], pa.date32()),
    ],
)
def test_several_types_become_one_that_holds_them_all(types, together) -> None:
    assert widened(types) == together
    assert widened(types[::-1]) == together


def test_a_marked_value_is_raw() -> None:
    found = convert(["1", {"$masked": True}], pa.int32())
    assert (found.array.to_pylist(), found.raw) == ([1, None], {1: '{"$masked":true}'})


def test_an_offset_with_seconds_is_read_and_one_out_of_all_years_is_raw() -> None:
    odd = ["1890-01-01 00:00:00-00:01:15", "0001-01-01 00:00:00+01", "2026-02-30 00:00:00+00"]
    found = convert(odd, TIMESTAMPTZ)
    assert found.array.to_pylist() == [dt.datetime(1890, 1, 1, 0, 1, 15, tzinfo=UTC), None, None]
    assert set(found.raw) == {1, 2}
    assert convert(odd[1:2], TIMESTAMPTZ).raw == {0: odd[1]}


@given(st.lists(st.decimals(-(10**16), 10**16, places=4, allow_nan=False), min_size=1))
def test_decimals_are_exact(numbers) -> None:
    found = convert([f"{number:f}" for number in numbers], pa.decimal128(38, 4))
    assert found.array.to_pylist() == numbers
    assert not found.raw


@given(st.lists(st.datetimes(timezones=st.just(UTC)), min_size=1))
def test_moments_are_exact(moments) -> None:
    texts = [moment.isoformat(sep=" ").removesuffix(":00") for moment in moments]
    assert convert(texts, TIMESTAMPTZ).array.to_pylist() == moments


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_doubles_are_exact(numbers) -> None:
    texts = ["Infinity" if n == math.inf else "-Infinity" if n == -math.inf else repr(n)
             for n in numbers]  # fmt: skip
    assert convert(texts, pa.float64()).array.to_pylist() == numbers


_ARROWS = [pa.int16(), pa.decimal128(5, 2), TIMESTAMP, TIMESTAMPTZ, pa.date32(), pa.bool_(),
           pa.binary(), pa.float64(), pa.list_(pa.int32()), pa.list_(pa.string())]  # fmt: skip


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), min_size=1),
       st.sampled_from(_ARROWS))  # fmt: skip
def test_any_text_is_a_value_or_raw(texts, arrow) -> None:
    found = convert(texts, arrow)
    for place, value in enumerate(found.array.to_pylist()):
        assert (texts[place] is None) == (value is None and place not in found.raw)
        assert place not in found.raw or found.raw[place] == texts[place]


@given(st.text(alphabet='{}[],"\\ aN1=:', max_size=12))
def test_any_text_parses_as_an_array_or_not(text) -> None:
    found = parse_array(text)
    assert found is None or isinstance(found, list)
