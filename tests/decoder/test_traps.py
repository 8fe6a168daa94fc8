"""The decoder avoids the mistakes of a naive reading of pgoutput, on real servers' bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeVar

import pytest

from decoder.assembler import Assembler
from decoder.events import (
    ChangeEvent,
    ChangeRun,
    OpenTransaction,
    PreparedCommitted,
    PreparedRolledBack,
    RelationSeen,
    StandaloneMessage,
    SubtransactionAborted,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
    TransactionPrepared,
    Truncation,
    TypeSeen,
    UnknownAborted,
)
from decoder.messages import NOT_SENT, UNCHANGED, RelationMessage, Undecoded
from decoder.reader import ProtocolError
from decoder.scalars import INFINITY_US, LSN, MINUS_INFINITY_US, datetime_from_us
from tests.decoder.captures import capture
from tests.support import wire

E = TypeVar("E")
SERVERS = pytest.mark.parametrize("server", ["pg15", "pg18"])


def events(name: str, kind: type[E]) -> list[E]:
    return [event for event in capture(name).events() if isinstance(event, kind)]


def changes(name: str, table: str | None = None) -> Iterator[ChangeEvent]:
    for run in events(name, ChangeRun):
        for change in run.changes:
            if table is None or (change.relation is not None and change.relation.name == table):
                yield change


def named(change: ChangeEvent, which: str = "new") -> dict[str, object]:
    values = getattr(change, which)
    assert change.relation is not None
    return dict(zip(change.relation.names, values, strict=True))


@SERVERS
def test_rows_of_one_copy_share_a_position_and_differ_in_ordinal(server: str) -> None:
    shared = [
        run
        for run in events(f"{server}/01_identity.v1t", ChangeRun)
        if len(run.changes) > 1 and len({change.lsn for change in run.changes}) == 1
    ]

    assert shared
    for run in shared:
        assert len({change.seq for change in run.changes}) == len(run.changes)


@SERVERS
def test_a_live_relation_has_no_position(server: str) -> None:
    assert all(seen.lsn == 0 for seen in events(f"{server}/01_identity.v1t", RelationSeen))


@SERVERS
def test_a_change_in_a_savepoint_names_its_subtransaction(server: str) -> None:
    for run in events(f"{server}/10_stream.v2s", ChangeRun):
        assert all(change.subxid != run.transaction.xid for change in run.changes)
    assert any(change.subxid for change in changes(f"{server}/10_stream.v2s"))
    assert not any(change.subxid for change in changes(f"{server}/10_stream.v1t"))


@SERVERS
def test_a_message_from_an_aborted_savepoint_cannot_be_told_apart(server: str) -> None:
    [message] = [
        change
        for change in changes(f"{server}/10_stream.v2s")
        if change.op == "M" and getattr(change.new, "content", b"") == b"sub"
    ]

    assert message.subxid is None


@SERVERS
def test_a_message_outside_transactions_comes_before_its_begin(server: str) -> None:
    seen = capture(f"{server}/04_messages_origin.v1m").events()
    standalone = [event for event in seen if isinstance(event, StandaloneMessage)]
    contents = {event.message.content for event in standalone}

    assert len(standalone) > 3
    assert all(not event.message.transactional and event.lsn for event in standalone)
    # Messages of rolled-back transactions are sent too, and so is one sent before its transaction.
    assert b"rolled back" in contents
    inside = [event for event in standalone if event.message.content == b"inside"]
    begun_after = seen[seen.index(inside[0]) + 1]
    assert isinstance(begun_after, StandaloneMessage | TransactionOpened)


@SERVERS
def test_a_messages_content_stays_in_the_databases_encoding(server: str) -> None:
    found = [c.new for c in changes(f"{server}/13_latin1.v3p") if c.op == "M"]
    found += [e.message for e in events(f"{server}/13_latin1.v3p", StandaloneMessage)]

    assert [(m.prefix, m.content) for m in found if hasattr(m, "content")] == [  # type: ignore[union-attr]
        ("préfixe", "contenu é".encode("latin-1"))
    ]


@SERVERS
def test_text_in_another_encoding_is_kept_as_bytes(server: str) -> None:
    captured = capture(f"{server}/13b_latin1_noenc.v1t")
    as_utf8 = Assembler(proto_version=1).feed(captured.frames)
    values = [
        value
        for event in as_utf8
        if isinstance(event, ChangeRun)
        for change in event.changes
        if isinstance(change.new, list)
        for value in change.new
    ]

    assert Undecoded("é ü ñ".encode("latin-1"), "text", 25) in values
    assert next(changes(captured.name)).new == ["1", "é ü ñ", '{"k":"é"}', "\\xe9"]


def test_an_abort_tells_its_position_only_under_parallel_streaming() -> None:
    for variant, with_place in (("v2s", False), ("v3s", False), ("v4s", True)):
        aborts: list[SubtransactionAborted | TransactionAborted] = [
            *events(f"pg18/10_stream.{variant}", SubtransactionAborted),
            *events(f"pg18/10_stream.{variant}", TransactionAborted),
        ]
        assert aborts
        assert all((abort.abort_lsn is not None) == with_place for abort in aborts)
        assert all((abort.abort_time_us is not None) == with_place for abort in aborts)


@SERVERS
def test_nested_aborts_come_inner_first_and_may_have_no_changes(server: str) -> None:
    aborted: dict[OpenTransaction, list[int]] = {}
    for abort in events(f"{server}/10_stream.v2s", SubtransactionAborted):
        aborted.setdefault(abort.transaction, []).append(abort.subxid)
    subxids = {change.subxid for change in changes(f"{server}/10_stream.v2s")}

    assert any(
        len(those) > 1 and those == sorted(those, reverse=True) for those in aborted.values()
    )
    assert any(subxid not in subxids for those in aborted.values() for subxid in those)


@SERVERS
def test_a_streamed_transaction_may_have_nothing_in_it(server: str) -> None:
    seen = capture(f"{server}/10_stream.v2s").events()
    with_changes = {event.transaction for event in seen if isinstance(event, ChangeRun)}

    assert any(
        isinstance(event, TransactionCommitted) and event.transaction not in with_changes
        for event in seen
    )


@SERVERS
def test_an_origin_belongs_to_the_transaction_just_opened(server: str) -> None:
    plain = events(f"{server}/04_messages_origin.v1t", TransactionCommitted)
    streamed = events(f"{server}/10_stream.v2s", TransactionCommitted)

    assert {event.transaction.origin for event in plain} >= {None, "node_a"}
    assert any(event.transaction.origin_lsn == LSN.parse("AA/BB") for event in plain) or any(
        event.transaction.origin_lsn for event in plain
    )
    [from_node_a] = [e.transaction for e in streamed if e.transaction.origin == "node_a"]
    # 0/0 on the wire: not known before the commit.
    assert from_node_a.origin_lsn is None


@SERVERS
def test_a_relation_sent_again_is_not_a_new_shape(server: str) -> None:
    seen = events(f"{server}/10_stream.v2s", RelationSeen)

    assert [event for event in seen if not event.changed]
    in_force: dict[int, RelationMessage] = {}
    for event in seen:
        assert event.changed == (in_force.get(event.relation.oid) != event.relation)
        in_force[event.relation.oid] = event.relation


def test_a_relation_splits_a_run_and_one_that_is_the_same_does_so_too() -> None:
    frames = [wire.begin(), wire.relation(1), wire.insert([b"1"])]
    frames += [wire.relation(1), wire.insert([b"2"]), wire.relation(2), wire.insert([b"3", b"4"])]
    seen = Assembler(proto_version=1).feed([*frames, wire.commit()])

    assert [type(event).__name__ for event in seen] == [
        "TransactionOpened",
        "RelationSeen",
        "ChangeRun",
        "RelationSeen",
        "ChangeRun",
        "RelationSeen",
        "ChangeRun",
        "TransactionCommitted",
    ]
    first, again, second = (e.changes[0] for e in seen if isinstance(e, ChangeRun))
    assert [each.new for each in (first, again, second)] == [["1"], ["2"], ["3", "4"]]
    # ALTER TABLE may have rewritten the rows in between.
    assert first.relation == again.relation
    assert first.relation is not again.relation


@SERVERS
def test_key_flags_follow_the_replica_identity(server: str) -> None:
    relations = [seen.relation for seen in events(f"{server}/01_identity.v1t", RelationSeen)]
    by_identity = {relation.replica_identity: relation for relation in relations}

    assert set(by_identity) == {"DEFAULT", "FULL", "INDEX", "NOTHING"}
    for relation in relations:
        if relation.replica_identity == "FULL":
            assert len(relation.key_indexes) == len(relation.columns)
        elif relation.replica_identity == "NOTHING":
            assert relation.key_indexes == ()


@SERVERS
def test_via_the_root_a_partitions_changes_are_the_roots(server: str) -> None:
    seen = {event.relation.name for event in events(f"{server}/06_partition.root", RelationSeen)}
    changed = {c.relation.name for c in changes(f"{server}/06_partition.root") if c.relation}

    assert changed < seen


@SERVERS
def test_a_domain_carries_its_base_types_name(server: str) -> None:
    types = [(e.type.namespace, e.type.name) for e in events(f"{server}/02_types.v1t", TypeSeen)]

    assert ("pg_catalog", "int4") in types
    assert ("app", "_mood") in types


@SERVERS
def test_a_toasted_key_is_in_the_key_tuple_alone(server: str) -> None:
    found = [
        change
        for change in changes(f"{server}/01_identity.v1t")
        if change.op == "U"
        and change.old_kind == "K"
        and isinstance(change.new, list)
        and UNCHANGED in change.new
    ]
    assert any(
        new is UNCHANGED and isinstance(old, str)
        for change in found
        for old, new in zip(change.old or (), change.new or (), strict=True)  # type: ignore[arg-type]
    )


@SERVERS
def test_under_full_the_old_row_holds_what_was_not_sent_again(server: str) -> None:
    assert any(
        new is UNCHANGED and isinstance(old, str)
        for change in changes(f"{server}/01_identity.v1t")
        if change.old_kind == "O" and change.op == "U"
        for old, new in zip(change.old or (), change.new or (), strict=True)  # type: ignore[arg-type]
    )


@SERVERS
def test_a_key_tuple_holds_the_key_and_no_nulls_beside_it(server: str) -> None:
    for change in changes(f"{server}/01_identity.v1t"):
        if change.old_kind == "K":
            assert change.relation is not None
            for column, value in zip(change.relation.columns, change.old or (), strict=True):
                assert (value is NOT_SENT) == (not column.is_key)


@SERVERS
def test_row_filters_turn_updates_into_inserts_and_deletes(server: str) -> None:
    operations = [change.op for change in changes(f"{server}/07_filters_columns.v1t", "rf")]

    assert operations == ["I", "U", "I", "D", "D", "T"]


@SERVERS
def test_a_truncate_is_a_change_of_each_table(server: str) -> None:
    truncations = [c for c in changes(f"{server}/03_truncate.v1t") if c.op == "T"]

    assert {change.new for change in truncations} == {
        Truncation(cascade, restart) for cascade in (False, True) for restart in (False, True)
    }
    assert any(change.seq > 1 for change in truncations)


@SERVERS
def test_a_type_without_a_binary_form_comes_as_text(server: str) -> None:
    first = next(changes(f"{server}/02b_no_binary.v1b"))

    assert named(first)["acl"] == "postgres=r/postgres"


@SERVERS
def test_commit_times_may_be_infinite_or_before_2000(server: str) -> None:
    name = f"{server}/04_messages_origin.v1t"
    times = {event.commit_time_us for event in events(name, TransactionCommitted)}

    assert times >= {INFINITY_US, MINUS_INFINITY_US}
    assert any(MINUS_INFINITY_US < time < 0 for time in times)
    assert datetime_from_us(INFINITY_US) is None
    assert datetime_from_us(MINUS_INFINITY_US) is None


@SERVERS
def test_a_gid_may_be_long_and_used_again(server: str) -> None:
    prepared = events(f"{server}/09_twophase.v3p", TransactionPrepared)
    gids = [event.gid for event in prepared]

    assert max(len(gid.encode()) for gid in gids) == 199
    assert len(set(gids)) < len(gids)
    assert len({(e.gid, e.transaction.xid, e.prepare_lsn) for e in prepared}) == len(prepared)


@SERVERS
def test_a_prepared_rollback_gives_the_end_of_its_prepare(server: str) -> None:
    prepared = {
        (event.gid, event.transaction.xid): event
        for event in events(f"{server}/09_twophase.v3p", TransactionPrepared)
    }
    rollbacks = events(f"{server}/09_twophase.v3p", PreparedRolledBack)

    assert rollbacks
    for rollback in rollbacks:
        assert rollback.prepare_end_lsn == prepared[rollback.gid, rollback.xid].end_lsn


@SERVERS
def test_a_two_phase_slot_prepares_without_being_asked(server: str) -> None:
    assert events(f"{server}/09_twophase.tp_off", TransactionPrepared)
    assert events(f"{server}/09_twophase.tp_off", PreparedCommitted)


@SERVERS
def test_a_streamed_transaction_gets_its_gid_when_prepared(server: str) -> None:
    prepared = events(f"{server}/11_stream_twophase.v3s", TransactionPrepared)
    streamed = [event.transaction for event in prepared if event.transaction.kind == "streamed"]

    assert streamed
    assert all(t.gid and t.prepare_lsn for t in streamed)


def test_a_column_list_that_flips_comes_with_a_relation_each_time() -> None:
    shapes = [
        event.relation.names
        for event in events("pg18/10b_stream_pub.v4s", RelationSeen)
        if event.relation.name == "s" and event.changed
    ]

    assert ("id", "v", "w") in shapes
    assert len(shapes) > len(set(shapes))


def test_generated_columns_appear_only_when_published() -> None:
    without = {e.relation.names for e in events("pg18/08_generated.v1t", RelationSeen)}
    published = {e.relation.names for e in events("pg18/08_generated.gen", RelationSeen)}

    assert published - without


def test_an_abort_of_a_transaction_never_seen_is_nothing_to_do() -> None:
    # PostgreSQL 18.4 sends these, even under protocol 1.
    abort = wire.xlogdata_frame(0x900, struct.pack(">cII", b"A", 800, 801))
    [event] = Assembler(proto_version=1).feed([abort])

    assert event == UnknownAborted(800, 801, None, None)  # type: ignore[arg-type]


def test_a_position_is_taken_from_the_first_message_that_has_one() -> None:
    frames = [wire.begin(), wire.relation(1), wire.insert([b"1"], lsn=0x77)]
    frames[0] = wire.xlogdata_frame(0, frames[0][25:])
    opened = Assembler(proto_version=1).feed(frames)[0]

    assert isinstance(opened, TransactionOpened)
    assert opened.transaction.first_lsn == 0x77


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([wire.relation(1), wire.insert([b"1"])], "inside a transaction"),
        ([wire.commit()], "inside a transaction"),
        ([wire.begin(), wire.begin()], "outside transaction 727"),
        ([wire.begin(), wire.commit(0x200)], "as in its Begin"),
        ([wire.begin(), wire.stream_stop()], "the end of a plain transaction"),
        ([wire.stream_start(first=False)], "the first segment of 727"),
        ([wire.stream_start(), wire.stream_stop(), wire.stream_start()], "a later segment"),
        ([wire.stream_start(), wire.commit()], "the end of a streamed transaction"),
        ([wire.begin(), wire.relation(2), wire.insert([b"1"])], "2 columns, as in its Relation"),
        ([b"k" + bytes(17)], "XLogData"),
        ([wire.begin(), wire.relation(1601)], "at most 1600 columns, not 1601"),
        ([wire.begin(), wire.relation(2).replace(b"c1", b"c0")], "columns of different names"),
        ([wire.begin(), wire.relation(1).replace(b"c0", b"c" * 253)], "column of at most 63 char"),
        ([wire.begin(), wire.relation(1).replace(b"public", b"s" * 253)], "schema of at most 63"),
    ],
)
def test_messages_out_of_place_are_refused(frames: list[bytes], expected: str) -> None:
    with pytest.raises(ProtocolError, match=expected):
        Assembler(proto_version=2, streaming="on").feed(frames)


@pytest.mark.parametrize(("proto_version", "streaming"), [(1, "on"), (3, "parallel"), (5, "off")])
def test_options_no_server_accepts_are_refused(proto_version: int, streaming: str) -> None:
    with pytest.raises(ValueError, match="proto"):
        Assembler(proto_version=proto_version, streaming=streaming)  # type: ignore[arg-type]


def test_a_prepared_transaction_streamed_again_is_forgotten_with_its_end() -> None:
    """PostgreSQL 18 may stream a prepared transaction again after a reconnect; K or r ends it."""
    decoder = Assembler(proto_version=4, streaming="parallel")
    ended = struct.pack(">cBQQqI", b"K", 0, 0x100, 0x108, 0, wire.XID) + b"gid\0"
    decoder.feed([wire.stream_start(), wire.stream_stop()])

    [event] = decoder.feed([wire.xlogdata_frame(0x100, ended)])

    assert isinstance(event, PreparedCommitted)
    assert decoder.open_streams == ()
    # Its xid may come again, after a wraparound.
    assert decoder.feed([wire.stream_start()])


def test_an_abort_without_a_record_has_no_position_and_no_time() -> None:
    """A server that crashed finds it aborted, and sends 0/0 in 2000."""
    decoder = Assembler(proto_version=4, streaming="parallel")
    abort = struct.pack(">cIIQq", b"A", wire.XID, wire.XID, 0, 0)

    events = decoder.feed([wire.stream_start(), wire.stream_stop(), wire.xlogdata_frame(0, abort)])

    assert isinstance(events[-1], TransactionAborted)
    assert (events[-1].abort_lsn, events[-1].abort_time_us) == (None, None)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("together", [True, False])
def test_a_transaction_that_tells_nothing_makes_no_event(fast: bool, together: bool) -> None:
    """Servers before 15 send the begin and the end of whatever wrote to no published table."""
    frames = [
        *(wire.begin(), wire.commit()),
        *(wire.begin(0x200), wire.relation(1), wire.insert([b"1"]), wire.commit(0x200)),
        *(wire.begin(0x300), wire.commit(0x300)),
    ]
    decoder = Assembler(proto_version=1, fast=fast)

    portions = [frames] if together else [[frame] for frame in frames]
    events = [event for portion in portions for event in decoder.feed(portion)]

    opened, *between, committed = [event for event in events if not isinstance(event, RelationSeen)]
    assert isinstance(opened, TransactionOpened)
    assert [type(event) for event in between] == [ChangeRun]
    assert isinstance(committed, TransactionCommitted)
    assert committed.end_lsn == 0x208
    assert decoder.passed_lsn == 0x308
    assert not decoder.in_transaction
    assert decoder.feed([wire.begin(0x400)]) == []
    assert decoder.in_transaction
