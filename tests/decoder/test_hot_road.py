"""The hot road and the readable decoder agree on everything, right or wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.assembler import Assembler
from decoder.events import ChangeRun
from decoder.reader import ProtocolError
from tests.decoder.captures import capture
from tests.decoder.rebuilt import plain_events
from tests.support import wire

texts = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["", "t", "tt", "n", "x" * 127, "x" * 128, "y" * 255, "z" * 256, "é" * 70]),
).map(str.encode)
awkward = st.sampled_from([b"\0", b"t\0\0\0", b"t\0\0\0\x01x", b"\xff", b"\xc3", b"a\0b"])
values = st.one_of(texts, texts, texts, awkward, st.none(), st.just("u"))
rows = st.integers(0, 9).flatmap(
    lambda columns: st.lists(
        st.lists(values, min_size=columns, max_size=columns), min_size=1, max_size=5
    )
)
MUTABLE = [
    "pg15/20_pgbench.v1t",
    "pg18/01_identity.v1t",
    "pg18/01_identity.v1b",
    "pg18/02_types.v1b",
    "pg18/09_twophase.v3p",
    "pg18/11_stream_twophase.v4s",
    "pg18/12_immediate.v2s",
    "pg18/10b_stream_pub.v2s",
]


def outcome(frames: list[bytes], *, fast: bool, encoding: str = "utf-8") -> object:
    assembler = Assembler(proto_version=2, streaming="on", encoding=encoding, fast=fast)
    try:
        return plain_events(assembler.feed(frames))
    except ProtocolError as error:
        return str(error)


def frames_of(rows: list[list[bytes | str | None]], *, xid: int | None) -> list[bytes]:
    opening, closing = (
        ([wire.begin()], [wire.commit()])
        if xid is None
        else ([wire.stream_start()], [wire.stream_stop()])
    )
    changes = []
    for number, row in enumerate(rows):
        new, old = b"N" + wire.row(row), b"KO"[number % 2 :][:1] + wire.row(row)
        changes += [
            wire.insert(row, lsn=number, xid=xid),
            wire.insert(row, lsn=number + 1, xid=xid),
            wire.change(b"U", new, xid=xid),
            wire.change(b"U", old, new, xid=xid),
            wire.change(b"D", old, xid=xid),
        ]
    relation = wire.relation(len(rows[0]), keys=2, xid=xid)
    return [*opening, relation, *changes, *closing]


@given(rows=rows, xid=st.sampled_from([None, wire.XID, 900]))
def test_rows_come_out_alike(rows: list[list[bytes | str | None]], xid: int | None) -> None:
    frames = frames_of(rows, xid=xid)

    assert outcome(frames, fast=True) == outcome(frames, fast=False)
    assert not isinstance(outcome(frames, fast=True), str)


@pytest.mark.parametrize("encoding", ["latin-1", "shift_jis_2004", "gb18030", "euc_jp"])
@given(rows=rows)
@settings(max_examples=40)
def test_rows_come_out_alike_in_other_encodings(
    encoding: str, rows: list[list[bytes | str | None]]
) -> None:
    frames = frames_of(rows, xid=None)
    fast = outcome(frames, fast=True, encoding=encoding)

    assert fast == outcome(frames, fast=False, encoding=encoding)


@pytest.mark.slow
@given(rows=rows, xid=st.sampled_from([None, 900]), data=st.data())
@settings(max_examples=300)
def test_spoiled_rows_come_out_alike(
    rows: list[list[bytes | str | None]], xid: int | None, data: st.DataObject
) -> None:
    frames = spoil(frames_of(rows, xid=xid), data)

    assert outcome(frames, fast=True) == outcome(frames, fast=False)


def spoil(frames: list[bytes], data: st.DataObject) -> list[bytes]:
    """Change one frame in one place; or repeat it, or leave it out."""
    index = data.draw(st.integers(0, len(frames) - 1))
    frame = frames[index]
    payload = min(25, len(frame))
    at = data.draw(st.one_of(st.integers(payload, len(frame)), st.integers(0, len(frame))))
    what = data.draw(st.sampled_from(["set", "insert", "cut", "drop", "repeat", "shift"]))
    byte = bytes([data.draw(st.one_of(st.sampled_from(b"\0\1tnubNKO"), st.integers(0, 255)))])
    spoiled = {
        "set": [frame[:at] + byte + frame[at + 1 :]],
        "insert": [frame[:at] + byte + frame[at:]],
        "cut": [frame[:at]],
        "shift": [frame[:at] + frame[at + 1 :]],
        "drop": [],
        "repeat": [frame, frame],
    }[what]
    return [*frames[:index], *spoiled, *frames[index + 1 :]]


@pytest.mark.parametrize("name", MUTABLE)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_spoiled_captures_raise_protocol_error_or_nothing(name: str, data: st.DataObject) -> None:
    frames = list(capture(name).frames[:150])
    for _ in range(data.draw(st.integers(1, 2))):
        frames = spoil(frames, data) or frames
    results: list[object] = []
    for fast in (True, False):
        try:
            results.append(plain_events(capture(name).assembler(fast=fast).feed(frames)))
        except ProtocolError as error:
            results.append(str(error))
    assert results[0] == results[1]


@given(frames=st.lists(st.binary(max_size=80), max_size=4), fast=st.booleans())
def test_any_bytes_are_decoded_or_refused(frames: list[bytes], fast: bool) -> None:
    outcome(frames, fast=fast)


@given(
    payload=st.one_of(
        st.binary(max_size=80),
        st.builds(
            lambda tag, body: tag + body,
            st.sampled_from([b"%c" % t for t in b"BCORYIUDTMSEcApbPKr"]),
            st.binary(max_size=60),
        ),
    ),
    in_stream=st.booleans(),
    fast=st.booleans(),
)
def test_any_payload_is_decoded_or_refused(payload: bytes, in_stream: bool, fast: bool) -> None:
    header = bytes.fromhex("77") + bytes(24)
    opening = wire.stream_start() if in_stream else wire.begin()
    outcome([opening, wire.relation(3), header + payload][::1], fast=fast)


def test_a_table_wider_than_any_unrolled_run_decodes() -> None:
    wide = [b"%d" % number for number in range(300)]
    frames = [wire.begin(), wire.relation(300), wire.insert(wide), wire.insert(wide), wire.commit()]
    runs = [
        event for event in Assembler(proto_version=1).feed(frames) if isinstance(event, ChangeRun)
    ]

    assert [change.new for change in runs[0].changes] == [[*map(str, range(300))]] * 2
    assert outcome(frames, fast=True) == outcome(frames, fast=False)


def test_a_value_may_hold_what_separates_columns() -> None:
    # No server sends it. The lengths decide all the same.
    frames = [wire.begin(), wire.relation(2), wire.insert([b"at\0\0\0\x01b", b"c"]), wire.commit()]
    [run] = [e for e in Assembler(proto_version=1).feed(frames) if isinstance(e, ChangeRun)]

    assert run.changes[0].new == ["at\0\0\0\x01b", "c"]
