"""A transaction can be left out of a stream without reading its rows."""

from __future__ import annotations

import struct

from decoder.assembler import Assembler
from decoder.events import ChangeRun, TransactionCommitted, TransactionOpened
from decoder.skipping import FrameFilter
from tests.decoder.captures import capture
from tests.support import wire

OTHER = wire.XID + 1


def kept(frames: list[bytes], *xids: int) -> list[bytes]:
    wanted = FrameFilter(lambda xid, final_lsn: xid in xids, streaming="off", encoding="utf-8")
    return wanted.keep(frames)


def test_its_rows_are_dropped_and_its_boundaries_stay() -> None:
    frames = [
        wire.begin(),
        wire.relation(1),
        wire.insert([b"unread"]),
        wire.commit(),
        wire.begin(0x200, OTHER),
        wire.insert([b"read"]),
        wire.commit(0x200),
    ]

    events = Assembler(proto_version=1).feed(kept(frames, wire.XID))

    runs = [event for event in events if isinstance(event, ChangeRun)]
    assert [change.new for run in runs for change in run.changes] == [["read"]]
    assert sum(isinstance(event, TransactionOpened) for event in events) == 2
    assert sum(isinstance(event, TransactionCommitted) for event in events) == 2


def test_what_cannot_be_decoded_is_dropped_unread() -> None:
    spoiled = wire.xlogdata_frame(0x50, b"I" + struct.pack(">I", wire.RELATION_OID) + b"?")
    shape = wire.xlogdata_frame(0, b"R?")

    assert kept([wire.begin(), shape, spoiled, wire.commit()], wire.XID) == [
        wire.begin(),
        wire.commit(),
    ]


def test_blocks_of_other_streams_stay() -> None:
    name = "pg18/10_stream.v4s"
    frames = list(capture(name).frames)
    opened = [
        event.transaction.xid
        for event in capture(name).events()
        if isinstance(event, TransactionOpened) and event.transaction.kind == "streamed"
    ]
    left_out = opened[1]

    decoder = capture(name).assembler(fast=True)
    runs = [event for event in decoder.feed(kept(frames, left_out)) if isinstance(event, ChangeRun)]
    whole = [event for event in capture(name).events() if isinstance(event, ChangeRun)]

    def count(found: list[ChangeRun], *, left: bool) -> int:
        return sum(len(r.changes) for r in found if (r.transaction.xid == left_out) is left)

    assert count(runs, left=True) == 0
    assert count(whole, left=True) > 0
    assert count(runs, left=False) == count(whole, left=False)


def test_an_xid_used_again_is_told_apart_by_where_it_commits() -> None:
    wanted = FrameFilter(
        lambda xid, final_lsn: (xid, final_lsn) == (wire.XID, 0x100),
        streaming="off",
        encoding="utf-8",
    )
    once = [wire.begin(0x100), wire.relation(1), wire.insert([b"1"]), wire.commit(0x100)]
    again = [wire.begin(0x200), wire.insert([b"2"]), wire.commit(0x200)]

    assert wanted.keep([*once, *again]) == [once[0], once[1], once[3], *again]
