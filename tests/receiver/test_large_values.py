"""Values that are too large to be held: kept aside in pieces, or named, whatever carries them."""

import hashlib
import struct
import time
from collections.abc import Iterator
from unittest.mock import patch

import orjson
import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from decoder.assembler import Assembler
from decoder.messages import LogicalMessage
from decoder.reader import ProtocolError
from replview.receiver import large_values
from replview.receiver.large_values import Pieces, put_back, read_large
from replview.receiver.storing.encoding import message_document
from replview.receiver.storing.marked_values import Aside
from replview.store.models import LargeValue
from tests.support.proxy import Proxy
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for


@pytest.fixture
def small_limits(settings) -> None:
    settings.VALUE_ASIDE_BYTES, settings.VALUE_LIMIT_BYTES = 2_000_000, 6_000_000


def pieces_of(message: bytes, size: int) -> Pieces:
    """Return a message in pieces as libpq gives it: of one length, the last one shorter."""
    chunks: Iterator[bytes] = (message[at : at + size] for at in range(0, len(message), size))
    return Pieces(memoryview(next(chunks)), lambda: memoryview(next(chunks, b"")))


def frame(message: bytes) -> bytes:
    return b"w" + bytes(24) + message


def row(*values: bytes | None) -> bytes:
    columns = [b"n" if v is None else b"t" + struct.pack(">i", len(v)) + v for v in values]
    return struct.pack(">h", len(values)) + b"".join(columns)


#: A table of three columns, whose first is the key, outside and inside a stream block.
RELATION = b"R%b" + struct.pack(">i", 7) + b"public\0t\0f" + struct.pack(">h", 3) + b"".join(
    bytes([name == "a"]) + name.encode() + b"\0" + struct.pack(">ii", 25, -1) for name in "abc"
)  # fmt: skip
#: Above it nothing is kept.
MOST = 40
BEGIN = frame(b"B" + bytes(19) + b"\x05")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60).map(str.encode)
ROWS = st.lists(st.none() | TEXTS, min_size=3, max_size=3).map(lambda values: row(*values))
MESSAGES = st.one_of(
    ROWS.map(lambda new: b"I%b" + struct.pack(">i", 7) + b"N" + new),
    st.builds(lambda old, new: b"U%b" + struct.pack(">i", 7) + b"O" + old + b"N" + new, ROWS, ROWS),
    ROWS.map(lambda new: b"U%b" + struct.pack(">i", 7) + b"N" + new),
    ROWS.map(lambda old: b"D%b" + struct.pack(">i", 7) + b"O" + old),
    TEXTS.map(
        lambda content: b"M%b\x01" + bytes(8) + b"p\0" + struct.pack(">i", len(content)) + content
    ),
)  # fmt: skip


def decoded(message: bytes, spooled=()) -> list[object]:
    """The changes that a message makes; what is kept aside as its text, what is not as its name."""
    assembler = Assembler(proto_version=1, streaming="off")
    assembler.feed([BEGIN, frame(RELATION % b"")])
    events = put_back(assembler.feed([message]), spooled)
    return [told(change) for event in events for change in getattr(event, "changes", ())]


def told(change) -> list[object]:
    if isinstance(change.new, LogicalMessage):
        document = message_document(change.new)
        content = document.get("content") or document.get("content_base64") or ""
        return [as_text(content)]
    return [[as_text(value) for value in values or ()] for values in (change.old, change.new)]


def as_text(value: object) -> object:
    if isinstance(value, Aside):
        return "".join(value.pieces())
    return value if value.__class__ is not orjson.Fragment else orjson.dumps(value)


@given(message=MESSAGES, size=st.integers(1, 100), cut=st.floats(0, 1, exclude_max=True))
def test_in_pieces_a_message_is_what_it_is_whole(message: bytes, size: int, cut: float) -> None:
    whole = frame(message[:1] + message[3:])
    with (
        patch.object(large_values, "SHORT_BYTES", 10),
        override_settings(VALUE_ASIDE_BYTES=30, VALUE_LIMIT_BYTES=MOST),
    ):
        read, spooled = read_large(pieces_of(whole, size), in_stream=False, encoding="utf-8")
        assert decoded(read, spooled) == [not_kept(change, spooled) for change in decoded(whole)]
        streamed = pieces_of(frame(message[:1] + b"\0\0\0\x05" + message[3:]), size)
        assert read_large(streamed, in_stream=True, encoding="utf-8")[0][26:30] == b"\0\0\0\x05"
        for wrong in (whole[: 26 + int(cut * (len(whole) - 26))], whole + b"!"):
            with pytest.raises(ProtocolError):
                read_large(pieces_of(wrong, 1000), in_stream=False, encoding="utf-8")


def test_bytes_that_are_no_text_are_named() -> None:
    content = b"\xff" * 50
    message = b"M\x01" + bytes(8) + b"p\0" + struct.pack(">i", 50) + content
    with (
        patch.object(large_values, "SHORT_BYTES", 10),
        override_settings(VALUE_ASIDE_BYTES=30, VALUE_LIMIT_BYTES=MOST),
    ):
        read = read_large(pieces_of(frame(message), 7), in_stream=False, encoding="utf-8")
        digest = hashlib.sha256(content).hexdigest()
        assert decoded(*read) == [[orjson.dumps({"$too_large": 50, "$sha256": digest})]]


def not_kept(told: object, spooled) -> object:
    """Return texts as the record has them after reading in pieces: large ones as names."""
    if isinstance(told, list):
        return [not_kept(value, spooled) for value in told]
    large = isinstance(told, str) and len(told.encode()) > MOST
    return orjson.dumps(name_of(told)) if large and spooled else told


def stored(change) -> str:
    return "".join(
        LargeValue.objects.filter(transaction_id=change.transaction_id, seq=change.seq)
        .order_by("piece")
        .values_list("content", flat=True)
    )


def name_of(text: str) -> dict[str, object]:
    raw = text.encode()
    return {"$too_large": len(raw), "$sha256": hashlib.sha256(raw).hexdigest()}


@pytest.mark.slow
@pytest.mark.pg(14)
@pytest.mark.parametrize("options", [{}, {"streaming": "off"}, {"binary": True}])
def test_large_values_are_kept_aside_and_larger_ones_named(
    source: SourceDatabase, record, small_limits: None, options: dict[str, object]
) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text, w bytea)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    recording = record(source, options=options)
    source.run(
        "BEGIN",
        "INSERT INTO t VALUES (1, repeat('é', 1500000), 'x')",
        "UPDATE t SET v = repeat('z', 7000000)",
        "DELETE FROM t",
        "INSERT INTO t VALUES (2, 'short', decode(repeat('ab', 2200000), 'hex'))",
        "COMMIT",
        "INSERT INTO t VALUES (3, 'after', NULL)",
    )
    recording.caught_up()

    first, after = recording.transactions(state="committed")
    one, two, three, four = recording.changes(first)
    assert one.new == {"id": "1", "v": {"$aside": 1_500_000}, "w": "\\x78"}
    assert stored(one) == "é" * 1_500_000
    assert two.old == {"id": "1", "v": {"$aside": 1_500_000}, "w": "\\x78"}
    assert two.new["v"] == name_of("z" * 7_000_000) == three.old["v"]
    assert stored(two) == "é" * 1_500_000  # of the row before; the new one is not kept
    assert four.new["w"] == {"$aside": 4_400_002}
    assert stored(four) == "\\x" + "ab" * 2_200_000
    assert first.size_bytes > 15_000_000
    [change] = recording.changes(after)
    assert change.new == {"id": "3", "v": "after", "w": None}


@pytest.mark.slow
@pytest.mark.pg(14)
def test_large_messages_are_kept_aside_and_larger_ones_named(
    source: SourceDatabase, record, small_limits: None
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source)
    emit = "SELECT pg_logical_emit_message({}, 'replview', repeat('m', {}))"
    source.run(*(emit.format(t, size) for t in ("false", "true") for size in (3000000, 7000000)))
    recording.caught_up()

    changes = [recording.changes(t)[0] for t in recording.transactions()]
    assert [change.new["content"] for change in changes] == [
        {"$aside": 3_000_000}, name_of("m" * 7_000_000),
    ] * 2  # fmt: skip
    assert stored(changes[0]) == stored(changes[2]) == "m" * 3_000_000


@pytest.mark.slow
def test_masked_and_dropped_values_are_not_kept_aside(
    source: SourceDatabase, record, small_limits: None
) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, card text, mail text)")
    recording = record(source, column_rules={"public.t": {"card": "drop", "mail": "mask"}})
    source.run("INSERT INTO t VALUES (1, repeat('c', 3000000), repeat('m', 7000000))")
    recording.caught_up()

    [change] = recording.changes(recording.transactions()[0])
    assert change.new == {"id": "1", "mail": {"$masked": True}}
    assert stored(change) == ""


@pytest.mark.slow
def test_the_session_begins_anew_once_a_large_message_is_stored(
    source: SourceDatabase, record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq keeps the room until its connection is closed."""
    monkeypatch.setattr("replview.receiver.sessions.walsender.SWOLLEN_SECONDS", 0.5)
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    recording = record(source)
    walsender = "SELECT pid FROM pg_stat_replication"
    with source.connect() as session:
        [before] = session.execute(walsender).fetchall()
        session.execute("INSERT INTO t VALUES (1, repeat('v', 10000000))")
        session.execute("INSERT INTO t VALUES (2, 'after')")
        recording.caught_up()
        wait_for(lambda: session.execute(walsender).fetchall() not in ([], [before]), 20)
        session.execute("INSERT INTO t VALUES (3, 'later')")
    recording.caught_up()
    assert [t.commit_seq for t in recording.transactions()] == [1, 2, 3]
    assert recording.changes(recording.transactions()[0])[0].new["v"] == "v" * 10_000_000


@pytest.mark.slow
def test_a_message_that_never_ends_is_given_up(
    source: SourceDatabase, record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Declared as 1 GB: libpq holds what has come of it, which is no more than a message may be."""
    monkeypatch.setattr("replview.receiver.sessions.walsender.MOST_MESSAGE_BYTES", 20_000_000)
    source.run("CREATE TABLE t (id int PRIMARY KEY)")
    recording = record(source, start=False)
    endless = b"d" + struct.pack(">i", 1 << 30) + b"w" + bytes(60_000)

    def flood(chunk: bytes) -> bytes:
        return endless if chunk.startswith(b"d\0\0\0\x16k") else chunk

    with Proxy(source.server.port) as proxy:
        recording.dsn = proxy.dsn(source.dsn)
        proxy.to_client.rewrite = flood
        recording.start()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and recording.slot.problem_code != "endless_message":
            # Each message of the source's is followed by more of what never ends.
            source.run("SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000))")
            recording.slot.refresh_from_db()
        assert recording.slot.problem_code == "endless_message"
        proxy.to_client.rewrite = None
        source.run("INSERT INTO t VALUES (1)")
        recording.caught_up()
        recording.end()
    assert recording.transactions()[-1].inserts == 1
