"""test_decoding's rows, as captured and as they may be: what they become, what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.events import (
    ChangeRun,
    PreparedCommitted,
    PreparedRolledBack,
    RelationSeen,
    StandaloneMessage,
    TransactionCommitted,
    TransactionOpened,
    TransactionPrepared,
    Truncation,
)
from decoder.messages import NOT_SENT, UNCHANGED, Column, RelationMessage
from decoder.plugins.test_decoding import TestDecodingAssembler
from decoder.reader import ProtocolError
from decoder.scalars import LSN
from tests.decoder.agreement import REASONS, disagreements, explained_message, summary_of
from tests.decoder.captures import capture
from tests.decoder.plugin_captures import rows, scenarios, streamed_xids, whole_rows
from tests.decoder.plugin_readings import TEST_DECODING_DIFFERENCES
from tests.decoder.plugin_rows import changes_of, one_change, relations_of

#: For each scenario, the pgoutput capture of the same WAL and the reasons (see
#: ``REASONS``) by which what test_decoding said of it differs.
DIFFERENCES = {
    "01_identity": ("v1t", {"old null"}),
    "02_types": ("v1t", set()),
    "02b_no_binary": ("v1t", set()),
    "03_truncate": ("v1t", {"all key", "not published"}),
    "03b_truncate_root": ("v1t", {"not published"}),
    "04_messages_origin": ("v1m", {"not published", "cut content"}),
    "05_ddl": ("v1t", {"more columns", "not published"}),
    "06_partition": ("v1t", {"not published"}),
    "07_filters_columns": ("v1t", {"more columns", "not published", "row filter"}),
    "07b_insert_only": ("v1t", {"not published"}),
    "08_generated": ("v1t", {"more columns"}),
    "09_twophase": ("v3p", {"not published"}),
    "10_stream": ("v1m", {"more columns", "streamed"}),
    "10b_stream_pub": ("v1t", {"more columns", "streamed"}),
    "11_stream_twophase": ("v3p", {"streamed"}),
    "13_latin1": ("v3p", {"other encoding"}),
    "13b_latin1_noenc": ("v3p", {"other encoding"}),
    "14_gucs": ("v1t", {"settings"}),
    "20_pgbench": ("v1t", set()),
    "30_plugins": ("v3p", TEST_DECODING_DIFFERENCES),
}


def test_every_captured_scenario_is_compared() -> None:
    assert sorted(DIFFERENCES) == scenarios()
    assert set().union(*(reasons for _, reasons in DIFFERENCES.values())) <= set(REASONS)


def test_committed_changes_equal_those_of_pgoutput_but_for_listed_differences(
    subtests: pytest.Subtests,
) -> None:
    for scenario in (name for name in scenarios() if name != "14_gucs"):
        with subtests.test(scenario):
            variant, reasons = DIFFERENCES[scenario]
            expected = summary_of(capture(f"pg15/{scenario}.{variant}").events())
            actual = summary_of(TestDecodingAssembler().feed(whole_rows(scenario)))

            assert disagreements(expected, actual, streamed=streamed_xids(scenario)) == reasons


def test_transactions_begin_and_end_where_pgoutput_says(subtests: pytest.Subtests) -> None:
    for scenario in scenarios():
        with subtests.test(scenario):
            expected = summary_of(capture(f"pg15/{scenario}.{DIFFERENCES[scenario][0]}").events())
            actual = summary_of(TestDecodingAssembler().feed(whole_rows(scenario)))
            both = set(expected.committed) & set(actual.committed)

            assert both == set(expected.committed) - streamed_xids(scenario)
            for xid in both:
                assert actual.end_lsns[xid] == expected.end_lsns[xid]
                assert actual.commit_lsns[xid] is None
                # Only the last scenario was captured with include-timestamp.
                wanted = expected.times[xid] if scenario == "30_plugins" else None
                assert actual.times[xid] == wanted


def test_values_captured_under_other_settings_are_of_the_same_rows() -> None:
    expected = summary_of(capture("pg15/14_gucs.v1t").events())
    actual = summary_of(TestDecodingAssembler().feed(whole_rows("14_gucs")))

    assert list(actual.committed) == list(expected.committed)
    (change,) = actual.committed[1530]
    assert change.relation is not None
    assert change.relation.names == ("id", "d", "ts", "tstz", "iv", "f4", "f8", "b", "a")


@pytest.mark.parametrize("scenario", ["09_twophase", "13_latin1", "30_plugins"])
def test_prepared_transactions_end_as_pgoutput_says(scenario: str) -> None:
    expected = summary_of(capture(f"pg15/{scenario}.v3p").events())
    actual = summary_of(TestDecodingAssembler().feed(whole_rows(scenario)))

    assert expected.prepared
    assert {key: end for key, (end, _) in actual.prepared.items()} == {
        key: end for key, (end, _) in expected.prepared.items()
    }
    assert {key: end for key, (end, _) in actual.rolled_back.items()} == {
        key: end for key, (end, _) in expected.rolled_back.items()
    }


@pytest.mark.parametrize(
    ("scenario", "variant"),
    [("04_messages_origin", "v1m"), ("09_twophase", "v3p"), ("30_plugins", "v3p")],
)
def test_messages_outside_transactions_equal_those_of_pgoutput(scenario: str, variant: str) -> None:
    expected = summary_of(capture(f"pg15/{scenario}.{variant}").events()).messages
    actual = summary_of(TestDecodingAssembler().feed(whole_rows(scenario))).messages

    assert expected
    for message, wanted in zip(actual, expected, strict=True):
        assert explained_message(wanted, message) == []


def test_row_by_row_tells_the_same(subtests: pytest.Subtests) -> None:
    for scenario in scenarios():
        with subtests.test(scenario):
            assembler = TestDecodingAssembler()
            one_by_one = [event for row in whole_rows(scenario) for event in assembler.feed([row])]
            at_once = TestDecodingAssembler().feed(whole_rows(scenario))

            assert summary_of(one_by_one) == summary_of(at_once)
            assert not assembler.in_transaction
            assert assembler.open_streams == ()
            assert assembler.last_end_lsn is not None


def test_streamed_changes_without_values_are_refused() -> None:
    for _, _, text in rows("10_stream"):
        if text.startswith(("opening", "streaming", "committing", "aborting")):
            with pytest.raises(ProtocolError, match="stream-changes prints no values"):
                TestDecodingAssembler().feed([(1, 1, text)])


def test_a_shape_is_one_object_while_it_lasts(subtests: pytest.Subtests) -> None:
    for scenario in scenarios():
        with subtests.test(scenario):
            events = TestDecodingAssembler().feed(whole_rows(scenario))
            in_force: dict[tuple[str, str], RelationMessage] = {}
            for event in events:
                if isinstance(event, RelationSeen):
                    table = event.relation.namespace, event.relation.name
                    assert event.changed
                    assert in_force.get(table) != event.relation
                    in_force[table] = event.relation
                elif isinstance(event, ChangeRun):
                    for change in event.changes:
                        if change.relation is not None:
                            table = change.relation.namespace, change.relation.name
                            assert change.relation is in_force[table]


# Values.


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("null", None),
        ("unchanged-toast-datum", UNCHANGED),
        ("true", "t"),
        ("false", "f"),
        ("'null'", "null"),
        ("''", ""),
        ("''''", "'"),
        ("'it''s'", "it's"),
        ("''' new-tuple: a[text]:'''", "' new-tuple: a[text]:'"),
        ("'a\nb\\c\td'", "a\nb\\c\td"),
        ("B'101'", "101"),
        ("B''", ""),
        ("-12.50", "-12.50"),
        ("1e-07", "1e-07"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
    ],
)
def test_a_literal_is_undone(literal: str, value: object) -> None:
    change = one_change(f"table public.t: INSERT: a[text]:{literal} z[integer]:7")

    assert change.new == [value, "7"]


def test_odd_names_and_types_are_read_as_they_were_quoted() -> None:
    change = one_change(
        'table "Odd: schema"."Odd ""Table": INSERT: "a ""b]:"[integer]:1'
        ' m["Odd schema"."Mo""o]d"[]]:\'{a}\' "old-key:"[timestamp without time zone]:null'
    )

    assert change.relation is not None
    assert (change.relation.namespace, change.relation.name) == ("Odd: schema", 'Odd "Table')
    assert change.relation.columns == (
        Column('a "b]:', 0, -1, False, "integer"),
        Column("m", 0, -1, False, '"Odd schema"."Mo""o]d"[]'),
        Column("old-key:", 0, -1, False, "timestamp without time zone"),
    )


# Old rows and shapes.


def test_a_key_is_placed_in_the_known_shape() -> None:
    insert = "table public.t: INSERT: a[text]:'x' id[integer]:1"
    delete = "table public.t: DELETE: id[integer]:1"
    update = "table public.t: UPDATE: old-key: id[integer]:1 new-tuple: a[text]:'x' id[integer]:2"
    inserted, deleted, updated = changes_of(insert, delete, update)

    assert (deleted.old_kind, deleted.old, deleted.new) == ("K", [NOT_SENT, "1"], None)
    assert (updated.old_kind, updated.old, updated.new) == ("K", [NOT_SENT, "1"], ["x", "2"])
    assert inserted.relation is deleted.relation is updated.relation


def test_an_old_row_of_all_columns_is_the_whole_row() -> None:
    insert = "table public.t: INSERT: a[text]:'x' id[integer]:1"
    _, deleted = changes_of(insert, "table public.t: DELETE: a[text]:'x' id[integer]:1")

    assert (deleted.old_kind, deleted.old) == ("O", ["x", "1"])


def test_a_key_seen_first_is_a_shape_of_its_own_until_an_insert() -> None:
    deleted, inserted, again = changes_of(
        "table public.t: DELETE: id[integer]:1",
        "table public.t: INSERT: a[text]:'x' id[integer]:1",
        "table public.t: DELETE: id[integer]:1",
    )

    assert deleted.relation is not None
    assert deleted.relation.names == ("id",)
    assert (deleted.old_kind, deleted.old) == ("K", ["1"])
    assert inserted.relation is again.relation is not deleted.relation


def test_a_key_seen_first_takes_the_catalogs_shape_which_the_insert_keeps() -> None:
    asked: list[tuple[str, str]] = []

    def columns_of(schema: str, table: str) -> list[Column]:
        asked.append((schema, table))
        return [
            Column("v", 1043, 44, False, "character varying(40)"),
            Column("id", 1700, 786438, True, "numeric(12,2)"),
            Column("c", 1042, -1, False, "bpchar"),
        ]

    deleted, inserted = changes_of(
        "table public.t: DELETE: id[numeric]:1",
        "table public.t: INSERT: v[character varying]:'x' id[numeric]:1 c[character]:null",
        columns_of=columns_of,
    )

    assert asked == [("public", "t")]
    assert deleted.relation is inserted.relation
    assert (deleted.old_kind, deleted.old) == ("K", [NOT_SENT, "1", NOT_SENT])


def test_an_insert_after_alter_table_decides() -> None:
    before, deleted, after = changes_of(
        "table public.t: INSERT: id[integer]:1 a[text]:'x'",
        "table public.t: DELETE: id[integer]:1",
        "table public.t: INSERT: id[bigint]:1 a[text]:'x' b[text]:null",
    )

    assert before.relation is deleted.relation is not after.relation
    assert after.relation is not None
    assert after.relation.names == ("id", "a", "b")


def test_a_row_that_is_not_in_the_wal_has_no_values() -> None:
    relation = relations_of(
        "table public.t: DELETE: (no-tuple-data)",
        columns_of=lambda schema, table: [Column("id", 23, -1, False, "integer")],
    )[0]
    change = one_change("table public.t: DELETE: (no-tuple-data)")

    assert relation.names == ("id",)
    assert (change.op, change.old_kind, change.old, change.new) == ("D", None, None, None)


@pytest.mark.parametrize(
    ("flags", "how"),
    [
        ("(no-flags)", Truncation(cascade=False, restart_identity=False)),
        ("cascade", Truncation(cascade=True, restart_identity=False)),
        ("restart_seqs cascade", Truncation(cascade=True, restart_identity=True)),
    ],
)
def test_a_truncation_is_a_change_of_each_table(flags: str, how: Truncation) -> None:
    changes = changes_of(f'table public.t, "S"."u, v": TRUNCATE: {flags}')

    assert [(change.op, change.new) for change in changes] == [("T", how), ("T", how)]
    assert [change.relation and change.relation.name for change in changes] == ["t", "u, v"]


# Transactions.


def test_times_and_ends_of_each_kind() -> None:
    assembler = TestDecodingAssembler()
    events = assembler.feed(
        [
            (0x10, 7, "BEGIN 7"),
            (0x10, 7, "table public.t: INSERT: id[integer]:1"),
            (0x30, 7, "COMMIT 7 (at 2000-01-01 00:00:00.000001+00)"),
            (0x40, 8, "BEGIN 8"),
            (0x50, 8, "PREPARE TRANSACTION E'g\\\\''', txid 8 (at infinity)"),
            (0x60, 8, "COMMIT PREPARED E'g\\\\''', txid 8 (at 1999-12-31 23:59:59+00)"),
            (0x70, 9, "ROLLBACK PREPARED 'h', txid 9 (at -infinity)"),
        ]
    )
    committed = next(event for event in events if isinstance(event, TransactionCommitted))
    prepared = next(event for event in events if isinstance(event, TransactionPrepared))

    assert (committed.end_lsn, committed.commit_time_us) == (LSN(0x30), 1)
    assert committed.transaction.first_lsn == LSN(0x10)
    assert (prepared.gid, prepared.end_lsn, prepared.prepare_time_us) == (
        "g\\'",
        LSN(0x50),
        2**63 - 1,
    )
    assert (prepared.transaction.kind, prepared.transaction.gid) == ("prepared", "g\\'")
    assert events[-2] == PreparedCommitted("g\\'", prepared.transaction.xid, None, 0x60, -(10**6))
    assert events[-1] == PreparedRolledBack("h", 9, None, 0x70, None, -(2**63))
    assert assembler.last_end_lsn == LSN(0x70)


def test_an_empty_transaction_is_left_out_but_its_end_is_known() -> None:
    assembler = TestDecodingAssembler()
    assert assembler.feed([(0x10, 7, "BEGIN 7")]) == []
    assert assembler.in_transaction
    assert assembler.feed([(0x30, 7, "COMMIT 7")]) == []
    assert assembler.last_end_lsn == LSN(0x30)
    assert not assembler.in_transaction


def test_without_include_xids_the_rows_xid_counts() -> None:
    row = "table public.t: INSERT: id[integer]:1"
    events = TestDecodingAssembler().feed([(1, 7, "BEGIN"), (2, 7, row), (3, 7, "COMMIT")])

    assert isinstance(events[0], TransactionOpened)
    assert events[0].transaction.xid == 7
    with pytest.raises(ProtocolError, match="include-xids"):
        TestDecodingAssembler().feed([(1, 0, "BEGIN")])


@pytest.mark.parametrize(
    ("text", "prefix", "content"),
    [
        ("prefix: p, sz: 5 content:hello", "p", b"hello"),
        ("prefix: , sz: 0 content:", "", b""),
        ("prefix: p, sz: 3 content:a\nb", "p", b"a\nb"),
        ("prefix: p, sz: 17 content:, sz: 1 content:x", "p", b", sz: 1 content:x"),
        ("prefix: p, sz: 9 content:, sz: 1 content:x", "p, sz: 9 content:", b"x"),
        ("prefix: é, sz: 2 content:ü", "é", "ü".encode()),
        ("prefix: p, sz: 4 content:", "p", b""),
    ],
)
def test_a_message_is_split_where_its_size_is_right(text: str, prefix: str, content: bytes) -> None:
    (event,) = TestDecodingAssembler().feed([(9, 0, f"message: transactional: 0 {text}")])

    assert isinstance(event, StandaloneMessage)
    assert (event.message.prefix, event.message.content) == (prefix, content)
    assert (event.lsn, event.message.lsn) == (9, 9)


def test_runs_hold_ten_thousand_changes_at_most() -> None:
    row = (2, 7, "table public.t: INSERT: id[integer]:1")
    events = TestDecodingAssembler().feed([(1, 7, "BEGIN 7"), *[row] * 20_001, (3, 7, "COMMIT 7")])
    runs = [event for event in events if isinstance(event, ChangeRun)]

    assert [len(run.changes) for run in runs] == [10_000, 10_000, 1]
    assert [run.size_bytes for run in runs] == [len(row[2]) * n for n in (10_000, 10_000, 1)]
    assert runs[-1].changes[-1].seq == 20_001


# Malformed rows are refused.


@pytest.mark.parametrize(
    "text",
    [
        "",
        "BEGIN x",
        "BEGIN 4294967296",
        "table public.t: INSERT: id[integer]",
        "table public.t: INSERT: id[integer]:",
        "table public.t: INSERT: id[integer]:word",
        "table public.t: INSERT: id[integer]:'open",
        "table public.t: INSERT: id[]:1",
        "table public.t: INSERT: Id[integer]:1",
        "table public.t: INSERT: id[integer]:1 id[integer]:2",
        "table public.t: INSERT: id[integer]:1  a[integer]:2",
        "table public.t: UPDATE: old-key: id[integer]:1",
        "table public.t: UPDATE: old-key: x[integer]:1 new-tuple: id[integer]:1",
        "table public.t: TRUNCATE:",
        "table public.t: MERGE: id[integer]:1",
        "table t: INSERT: id[integer]:1",
        "COMMIT 8",
        "COMMIT 7 (at noon)",
        "COMMIT 7 (at 2000-01-01 00:00:00+00",
        "message: transactional: 2 prefix: p, sz: 1 content:x",
        "message: transactional: 1 prefix: p",
    ],
)
def test_a_malformed_row_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        TestDecodingAssembler().feed([(1, 7, "BEGIN 7"), (2, 7, text)])


@pytest.mark.parametrize(
    "text",
    [
        "table public.t: INSERT: id[integer]:1",
        "COMMIT 7",
        "PREPARE TRANSACTION 'g', txid 7",
        "message: transactional: 1 prefix: p, sz: 1 content:x",
    ],
)
def test_a_row_outside_a_transaction_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="begin of a transaction before"):
        TestDecodingAssembler().feed([(2, 7, text)])


CAPTURED = [row for scenario in scenarios() for row in rows(scenario)]


@given(text=st.text(max_size=80))
def test_any_text_decodes_or_raises_protocol_error(text: str) -> None:
    for beginning in ("", "table public.t: INSERT: ", "COMMIT 7 (at ", "message: transactional: 1"):
        with suppress(ProtocolError):
            TestDecodingAssembler().feed([(1, 7, "BEGIN 7"), (2, 7, beginning + text)])


@given(
    row=st.sampled_from(CAPTURED),
    at=st.integers(0, 400),
    cut=st.integers(0, 5),
    put=st.text("'\"[]: ,.aB1\\\n)(", max_size=3),
)
def test_a_captured_row_with_a_mutation_decodes_or_raises_protocol_error(
    row: tuple[int, int, str], at: int, cut: int, put: str
) -> None:
    lsn, xid, text = row
    at = min(at, len(text))
    mutated = (lsn, xid, text[:at] + put + text[at + cut :])
    begin = (
        [] if text.startswith(("BEGIN", "COMMIT P", "ROLLBACK")) else [(lsn, xid, f"BEGIN {xid}")]
    )
    with suppress(ProtocolError):
        TestDecodingAssembler().feed([*begin, mutated])
