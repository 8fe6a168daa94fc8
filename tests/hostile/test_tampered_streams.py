"""A server, or what stands before it, that sends what no server does: it is refused by name,
nothing false is stored or confirmed, and the slot goes on where it was.
"""

import struct
import time
from collections.abc import Callable
from itertools import count

import pytest

from replview.store.models import SlotEvent
from tests.hostile.tampering import (
    HEAD,
    MOST_BYTES,
    GoingBack,
    Swapping,
    Tampering,
    data,
    peak_bytes,
)
from tests.support.proxy import Proxy
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.pg(16)]

#: A message → what comes in its place.
Tamper = Callable[[bytes], bytes]


def message(change: Tamper) -> Callable[[bytes], bytes]:
    """Another message in the same frame."""
    return lambda frame: data(frame[:HEAD] + change(frame[HEAD:]))


def at(place: int, raw: bytes) -> Callable[[bytes], bytes]:
    """Other bytes at a place of the message."""
    return message(lambda m: m[:place] + raw + m[place + len(raw) :])


def before(raw: bytes) -> Callable[[bytes], bytes]:
    """A message that stands before this one."""
    return lambda frame: data(frame[:HEAD] + raw) + data(frame)


CUT = message(lambda m: m[:-3])
LONGER = message(lambda m: m + b"\0")
TWICE = lambda frame: data(frame) * 2  # noqa: E731
LEFT_OUT = lambda frame: b""  # noqa: E731
XID = struct.pack(">i", 99)

#: An Insert: I, oid, N, columns (2), t, length (4), the value.
TAMPERINGS = {
    "no bytes, and a letter alone": (b"I", lambda frame: data(b"") + data(b"x")),
    "unknown frame": (b"I", lambda frame: data(b"x" + frame[1:])),
    "frame cut in its head": (b"I", lambda frame: data(frame[:10])),
    "frame without a message": (b"I", lambda frame: data(frame[:HEAD])),
    "unknown message": (b"I", at(0, b"Z")),
    "keepalive cut": (b"k", lambda frame: data(frame[:9])),
    "keepalive too long": (b"k", lambda frame: data(frame + b"\0")),
    "begin cut": (b"B", CUT),
    "begin too long": (b"B", LONGER),
    "begin twice": (b"B", TWICE),
    "begin left out": (b"B", LEFT_OUT),
    "commit cut": (b"C", CUT),
    "commit too long": (b"C", LONGER),
    "commit twice": (b"C", TWICE),
    "commit left out": (b"C", LEFT_OUT),
    "commit with flags": (b"C", at(1, b"\1")),
    "commit that ends before it": (b"C", at(10, bytes(8))),
    "relation cut": (b"R", CUT),
    "relation too long": (b"R", LONGER),
    "relation of 65,535 columns": (b"R", message(lambda m: m.replace(b"d\0\2", b"d\xff\xff", 1))),
    "relation with a name of 10,000 characters": (
        b"R", message(lambda m: m.replace(b"public", b"x" * 10_000, 1)),
    ),
    "relation of an unknown identity": (
        b"R", message(lambda m: m.replace(b"\0d\0\2", b"\0z\0\2", 1)),
    ),
    "insert cut": (b"I", CUT),
    "insert too long": (b"I", LONGER),
    "insert into an unknown table": (b"I", at(1, XID)),
    "insert of an old row": (b"I", at(5, b"O")),
    "insert of one column": (b"I", at(6, b"\0\1")),
    "insert of 65,535 columns": (b"I", at(6, b"\xff\xff")),
    "insert of an unknown kind": (b"I", at(8, b"?")),
    "value of a negative length": (b"I", at(9, b"\xff\xff\xff\xff")),
    "value longer than its message": (b"I", at(9, b"\x3f\xff\xff\xff")),
    "update in place of an insert": (b"I", at(0, b"U\0\0\0\0?")),
    "delete of nothing": (b"I", message(lambda m: b"D" + m[1:5])),
    "truncate of unknown tables": (b"I", message(lambda m: b"T\0\0\0\1\0" + XID)),
    "message longer than it says": (b"I", message(lambda m: b"M\0" + bytes(8) + b"p\0\0\0\0\1ab")),
    "stream inside a transaction": (b"I", before(b"S" + XID + b"\1")),
    "end of no stream": (b"I", before(b"E")),
    "commit of no stream": (b"I", before(b"c" + XID + bytes(25))),
    "abort of no stream": (b"I", before(b"A" + XID)),
    "prepare inside a transaction": (b"I", before(b"P" + bytes(25) + XID + b"gid\0")),
    "type cut": (b"I", before(b"Y" + XID + b"public")),
    "origin without a name": (b"I", before(b"O" + bytes(8))),
    "length that libpq refuses": (b"I", lambda frame: b"d\xff\xff\xff\xff" + frame),
    "end of the stream": (b"I", lambda frame: b"c\0\0\0\4"),
    "error with terminal escapes": (
        b"I", lambda frame: b"E\0\0\0\x20SFATAL\0C57P01\0Mbye \x1b[2Jnow\0\0",
    ),
}  # fmt: skip


def test_whatever_is_tampered_with_is_refused_and_the_slot_goes_on(
    source: SourceDatabase, record, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each session after a refusal begins at once; pauses have tests of their own.
    monkeypatch.setattr("replview.receiver.run.pause_seconds", lambda code, attempt: 0.05)
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    recording = record(source, start=False)
    numbers, not_refused = count(1), []
    began, memory = time.monotonic(), peak_bytes()
    with Proxy(source.server.port) as proxy:
        recording.dsn = proxy.dsn(source.dsn)
        recording.start()
        recording.streaming()
        for name, (tag, instead) in TAMPERINGS.items():
            # So that the table's Relation comes again.
            source.run(f"ALTER TABLE t ALTER v SET DEFAULT '{name}'")
            events = SlotEvent.objects.filter(slot=recording.slot).exclude(kind="schema")
            known = events.count()
            proxy.to_client.rewrite = tampering = Tampering(tag, instead)
            for number in (next(numbers), next(numbers)):
                source.run(f"INSERT INTO t VALUES ({number}, 'secret-value')")
            wait_for(lambda tampering=tampering: tampering.done)
            recording.caught_up()
            if events.count() == known:
                not_refused.append(name)
        recording.end()

    assert not_refused == []
    transactions = recording.transactions()
    assert [t.commit_seq for t in transactions] == list(range(1, len(transactions) + 1))
    changes = [change for t in transactions for change in recording.changes(t)]
    assert [int(c.new["id"]) for c in changes] == list(range(1, 2 * len(TAMPERINGS) + 1))
    assert {c.new["v"] for c in changes} == {"secret-value"}
    told = [e.message for e in SlotEvent.objects.filter(slot=recording.slot)]
    assert not any("secret-value" in words or "\x1b" in words for words in told)
    assert peak_bytes() - memory < MOST_BYTES
    assert time.monotonic() - began < 120


#: Tamperings that take several messages, and the problems that they are told as. What makes no
#: difference goes on.
OVER_SEVERAL = {
    "transaction that goes back": (lambda: GoingBack(1 << 20), ["went_back"]),
    "transaction a little before the last one": (lambda: GoingBack(200), ["went_back"]),
    "begin after the relation that follows it": (lambda: Swapping(b"B"), []),
    "relation after its insert": (lambda: Swapping(b"R"), ["protocol"]),
}


@pytest.mark.parametrize("name", OVER_SEVERAL)
def test_messages_that_come_in_another_order_are_refused_or_make_no_difference(
    source: SourceDatabase, record, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("replview.receiver.run.pause_seconds", lambda code, attempt: 0.05)
    source.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int)")
    recording = record(source, start=False)
    make, codes = OVER_SEVERAL[name]
    with Proxy(source.server.port) as proxy:
        recording.dsn = proxy.dsn(source.dsn)
        recording.start()
        recording.streaming()
        source.run("INSERT INTO t VALUES (1, 'first')")
        recording.caught_up()
        proxy.to_client.rewrite = tampering = make()
        source.run("INSERT INTO u VALUES (2)")
        wait_for(lambda: tampering.done)
        source.run("INSERT INTO t VALUES (3, 'last')")
        recording.caught_up()
        recording.end()

    changes = [c for t in recording.transactions() for c in recording.changes(t)]
    assert [int(change.new["id"]) for change in changes] == [1, 2, 3]
    told = SlotEvent.objects.filter(slot=recording.slot, kind__in=["disconnected", "problem"])
    assert {event.detail["code"] for event in told} == {*codes}
