"""Binary values become exactly PostgreSQL's text, or stay bytes.

``test_captured_streams`` compares every captured binary value with its text;
here are values no capture has.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.assembler import Assembler
from decoder.binary import NOT_DECODED, BinaryDecoder, UserType
from decoder.binary.catalog import ARRAY_OIDS, MULTIRANGES, RANGES, SCALARS, TEXT_SEARCH
from decoder.events import ChangeRun
from decoder.messages import Undecoded
from decoder.scalars import POSTGRES_EPOCH
from tests.support import wire

BINARY = BinaryDecoder()
MONEY, POINT, BOX, INTERVAL, TSQUERY, CHAR, INT4 = 790, 600, 603, 1186, 3615, 18, 23


def float4(number: float) -> str | None:
    return BINARY.text(700, struct.pack(">f", number))


def float8(number: float) -> str | None:
    return BINARY.text(701, struct.pack(">d", number))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (100.0, "100"),
        (1e15, "1e+15"),
        (123456789012345.0, "123456789012345"),
        (1234567890123456.0, "1.234567890123456e+15"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        # The shortest digits would lie on the edge of what reads back.
        (1e23, "9.999999999999999e+22"),
        (-68659681752636816.0, "-6.8659681752636816e+16"),
        (181705388398854.62, "181705388398854.62"),
    ],
)
def test_float8_is_printed_as_postgresql_does(number: float, text: str) -> None:
    assert float8(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"),
        (1e-40, "1e-40"),
        (1e-45, "1e-45"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (16777216.0, "1.6777216e+07"),
        (3.4028234663852886e38, "3.4028235e+38"),
        (1.17549435e-38, "1.1754944e-38"),
        (121636864.0, "1.21636864e+08"),
    ],
)
def test_float4_is_printed_as_postgresql_does(number: float, text: str) -> None:
    assert float4(number) == text


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_float8_reads_back(number: float) -> None:
    assert float(float8(number) or "") == number


@given(number=st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_float4_reads_back(number: float) -> None:
    text = float4(number) or ""

    assert struct.pack(">f", float(text)) == struct.pack(">f", number)
    assert len(text.partition("e")[0].strip("-0.").replace(".", "")) <= 9


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_timestamps_agree_with_python(moment: datetime) -> None:
    us = (moment - POSTGRES_EPOCH) // timedelta(microseconds=1)
    text = BINARY.text(1184, struct.pack(">q", us))
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""

    assert text == f"{moment.replace(microsecond=0, tzinfo=None)}{fraction}+00"


@given(day=st.dates())
def test_dates_agree_with_python(day: date) -> None:
    days = (day - date(2000, 1, 1)).days

    assert BINARY.text(1082, struct.pack(">i", days)) == day.isoformat()


@given(number=st.decimals(allow_nan=False, allow_infinity=False, places=5))
def test_numerics_agree_with_python(number: Decimal) -> None:
    # Five decimals and three zeros make two groups of four.
    digits = f"{number:f}".lstrip("-").replace(".", "") + "000"
    digits = digits.rjust(-(-len(digits) // 4) * 4, "0")
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    sign = 0x4000 if number < 0 else 0
    head = struct.pack(">HhHH", len(groups), len(groups) - 3, sign, 5)
    raw = head + struct.pack(f">{len(groups)}H", *groups)

    assert Decimal(BINARY.text(1700, raw) or "") == number


@pytest.mark.parametrize(
    ("months", "days", "us", "text"),
    [
        (0, 0, 0, "00:00:00"),
        (14, 3, 14706700000, "1 year 2 mons 3 days 04:05:06.7"),
        (-1, 2, -10800000000, "-1 mons +2 days -03:00:00"),
        (-14, 0, 1, "-1 years -2 mons +00:00:00.000001"),
        (0, 0, 360000000000000, "100000:00:00"),
    ],
)
def test_intervals_keep_a_sign_for_each_part(months: int, days: int, us: int, text: str) -> None:
    assert BINARY.text(INTERVAL, struct.pack(">qii", us, days, months)) == text


@given(words=st.lists(st.sampled_from([0, 0, 1, 0xFFFF, 0xAB]), min_size=8, max_size=8))
def test_ipv6_addresses_are_short_as_the_standard_says(words: list[int]) -> None:
    address = struct.pack(">8H", *words)
    text = BINARY.text(869, bytes([3, 128, 0, 16]) + address) or ""

    assert IPv6Address(text) == IPv6Address(address)
    if "." not in text:
        assert text == IPv6Address(address).compressed


def test_a_tsquery_keeps_its_parentheses() -> None:
    def word(text: bytes) -> bytes:
        return b"\1\0\0" + text + b"\0"

    # (a | b) & !(c <2> d), each right operand before its left.
    phrase = b"\2\4\0\2" + word(b"d") + word(b"c")
    raw = struct.pack(">i", 7) + b"\2\2" + b"\2\1" + phrase + b"\2\3" + word(b"b") + word(b"a")

    assert BINARY.text(TSQUERY, raw) == "( 'a' | 'b' ) & !( 'c' <2> 'd' )"


def test_boxes_in_an_array_are_separated_by_semicolons() -> None:
    box = struct.pack(">i4d", 32, 1, 1, 0, 0)
    raw = struct.pack(">iiIii", 1, 0, BOX, 2, 1) + box + box

    assert BINARY.text(1020, raw) == "{(1,1),(0,0);(1,1),(0,0)}"


def test_what_cannot_be_decoded_is_listed() -> None:
    assert {"money", "regclass", "regtype", "user-defined"} <= set(NOT_DECODED)
    assert BINARY.text(MONEY, bytes(8)) is None
    assert BINARY.text(CHAR, b"\xe9") is None
    assert BINARY.text(142, b"<?xml version='1.0'?><a/>") is None


def test_a_described_type_is_decoded_and_another_is_not() -> None:
    described = BinaryDecoder(
        user_types={70: UserType("enum"), 71: UserType("array"), 72: UserType("domain", INT4)}
    )
    array = struct.pack(">iiIiii", 1, 0, 70, 1, 1, 5) + b"happy"

    assert described.text(71, array) == "{happy}"
    assert described.text(72, struct.pack(">i", -7)) == "-7"
    assert BINARY.text(70, b"happy") is None
    assert BINARY.text(1009, array) is None


def test_a_range_must_say_what_it_is_over() -> None:
    with pytest.raises(ValueError, match="over_oid"):
        BinaryDecoder(user_types={70: UserType("range")})


def test_a_stream_without_binary_keeps_binary_values_as_bytes() -> None:
    value = b"b" + struct.pack(">I", 4) + b"\0\0\0\x07"
    row = b"N" + struct.pack(">H", 1) + value
    frames = [wire.begin(), wire.relation(1), wire.change(b"I", row), wire.commit()]
    [run] = [e for e in Assembler(proto_version=1).feed(frames) if isinstance(e, ChangeRun)]

    assert run.changes[0].new == [Undecoded(b"\0\0\0\x07", "binary", 25)]


OIDS = sorted(
    {oid for oid, _ in SCALARS.values()}
    | {oid for oid, _ in (*RANGES.values(), *MULTIRANGES.values())}
    | {*ARRAY_OIDS, *TEXT_SEARCH.values(), 22, 30, 2249, 3802, 4072, 25, 999999}
)


@given(
    oid=st.sampled_from(OIDS),
    raw=st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from([b"\0\0\0\1", b"\0\0\0\x17", b"\0\1", b"\1", b"\0\0\0\0"])).map(
            b"".join
        ),
    ),
)
def test_any_bytes_of_any_type_are_text_or_kept(oid: int, raw: bytes) -> None:
    assert isinstance(BINARY.text(oid, raw), str | None)


def test_records_nested_without_end_are_kept() -> None:
    raw = b""
    for _ in range(5000):
        raw = struct.pack(">III", 1, 2249, len(raw)) + raw

    assert BINARY.text(2249, raw) is None
