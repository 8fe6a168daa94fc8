"""wal2json's rows, as captured and as they may be: what they become, what is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.events import (
    ChangeEvent,
    ChangeRun,
    Event,
    RelationSeen,
    StandaloneMessage,
    TransactionCommitted,
    Truncation,
)
from decoder.messages import NOT_SENT, UNCHANGED, Column
from decoder.plugins.collecting import PluginRow
from decoder.plugins.shapes import ColumnsOf
from decoder.plugins.wal2json import Wal2JsonAssembler, wal2json_options
from decoder.reader import ProtocolError
from decoder.scalars import LSN
from tests.decoder.agreement import disagreements, explained_message, summary_of
from tests.decoder.captures import capture
from tests.decoder.plugin_captures import rows
from tests.decoder.plugin_readings import WAL2JSON_DIFFERENCES
from tests.decoder.plugin_rows import changes_in

READINGS = ["wal2json_1", "wal2json_1_whole", "wal2json_2"]


def reader(reading: str) -> Wal2JsonAssembler:
    return Wal2JsonAssembler(format_version=2 if reading == "wal2json_2" else 1)


@pytest.mark.parametrize("reading", READINGS)
def test_committed_changes_equal_those_of_pgoutput_but_for_listed_differences(
    reading: str,
) -> None:
    expected = summary_of(capture("pg15/30_plugins.v3p").events())
    actual = summary_of(reader(reading).feed(rows("30_plugins", reading)))

    # Without the catalog, a table is not known before its first insert.
    assert disagreements(expected, actual) == WAL2JSON_DIFFERENCES[reading] | {"not seen yet"}
    for message, wanted in zip(actual.messages, expected.messages, strict=True):
        assert explained_message(wanted, message) == []


@pytest.mark.parametrize("reading", READINGS)
def test_transactions_end_where_and_when_pgoutput_says(reading: str) -> None:
    expected = summary_of(capture("pg15/30_plugins.v3p").events())
    actual = summary_of(reader(reading).feed(rows("30_plugins", reading)))

    assert set(expected.committed) <= set(actual.committed)
    for xid in expected.committed:
        assert actual.end_lsns[xid] == expected.end_lsns[xid]
        assert actual.times[xid] == expected.times[xid]
        known = expected.commit_lsns[xid] if reading == "wal2json_2" else None
        assert actual.commit_lsns[xid] == known
        assert actual.origins[xid] == ("#1" if expected.origins[xid] else None)


@pytest.mark.parametrize("reading", READINGS)
def test_row_by_row_tells_the_same(reading: str) -> None:
    assembler = reader(reading)
    one_by_one = [event for row in rows("30_plugins", reading) for event in assembler.feed([row])]

    assert summary_of(one_by_one) == summary_of(reader(reading).feed(rows("30_plugins", reading)))
    assert not assembler.in_transaction
    assert assembler.open_streams == ()


@pytest.mark.parametrize("reading", READINGS)
def test_a_shape_is_one_object_while_it_lasts(reading: str) -> None:
    in_force: dict[tuple[str, str], object] = {}
    for event in reader(reading).feed(rows("30_plugins", reading)):
        if isinstance(event, RelationSeen):
            table = event.relation.namespace, event.relation.name
            assert in_force.get(table) != event.relation
            in_force[table] = event.relation
        elif isinstance(event, ChangeRun):
            for change in event.changes:
                if change.relation is not None:
                    table = change.relation.namespace, change.relation.name
                    assert change.relation is in_force[table]


def test_the_formats_tell_the_same_shapes() -> None:
    shapes = [
        [
            # Format 1 tells the primary key only where it is the replica identity.
            (
                event.relation.name,
                [(c.name, c.type_oid, c.type_name) for c in event.relation.columns],
            )
            for event in reader(reading).feed(rows("30_plugins", reading))
            # Nor does it tell the first change of this table, a TRUNCATE.
            if isinstance(event, RelationSeen) and event.relation.name != "parted"
        ]
        for reading in READINGS
    ]

    assert shapes[0] == shapes[1] == shapes[2]


# Single rows, in both formats.


def column(name: str, type_name: str, type_oid: int, value: Any) -> dict[str, Any]:
    return {"name": name, "type": type_name, "typeoid": type_oid, "value": value}


def format_2(action: str, **parts: Any) -> str:
    row = {"action": action, "schema": "public", "table": "t", "pk": [{"name": "id"}]}
    return json.dumps(row | parts)


def format_1(kind: str, **parts: Any) -> str:
    row = {"kind": kind, "schema": "public", "table": "t", "pk": {"pknames": ["id"]}}
    return json.dumps(row | parts)


def in_transaction(version: Literal[1, 2], *texts: str) -> list[PluginRow]:
    begin, end = ('{"xid":7,"change":[', "]}") if version == 1 else ('{"action":"B","xid":7}', "")
    return [
        (0x10, 0, begin),
        *((0x20, 0, text) for text in texts),
        (0x30, 0, end or '{"action":"C","xid":7,"nextlsn":"0/30"}'),
    ]


def events_of(
    *texts: str, version: Literal[1, 2] = 2, columns_of: ColumnsOf | None = None
) -> list[Event]:
    assembler = Wal2JsonAssembler(format_version=version, columns_of=columns_of)
    return assembler.feed(in_transaction(version, *texts))


def changes_of(
    *texts: str, version: Literal[1, 2] = 2, columns_of: ColumnsOf | None = None
) -> list[ChangeEvent]:
    return changes_in(events_of(*texts, version=version, columns_of=columns_of))


ID = column("id", "integer", 23, 1)
BIG = column("big", "text", 25, "x")
NOTE = column("note", "character varying(40)", 1043, None)
INSERT = format_2("I", columns=[ID, BIG, NOTE])


@pytest.mark.parametrize(
    ("type_oid", "written", "value"),
    [
        (23, "null", None),
        (16, "true", "t"),
        (16, "false", "f"),
        (
            1700,
            "12345678901234567890.1234567890",
            "12345678901234567890.1234567890",
        ),
        (701, "1e-07", "1e-07"),
        (20, "-9223372036854775808", "-9223372036854775808"),
        (25, '"null"', "null"),
        (25, '"a\\nb\\\\c\\u0001\\"é"', 'a\nb\\c\x01"é'),
        (17, '"00ff"', "\\x00ff"),
        (17, '""', "\\x"),
        # A domain over bytea is another type, and whole.
        (16500, '"\\\\x0a"', "\\x0a"),
    ],
)
def test_a_value_is_the_servers_text(type_oid: int, written: str, value: object) -> None:
    columns = f'[{{"name":"a","type":"any","typeoid":{type_oid},"value":{written}}}]'
    row = f'{{"action":"I","schema":"public","table":"t","columns":{columns}}}'
    (by_object,) = changes_of(row)
    lists = f'"columnnames":["a"],"columntypes":["any"],"columntypeoids":[{type_oid}]'
    row = f'{{"kind":"insert","schema":"public","table":"t",{lists},"columnvalues":[{written}]}}'
    (by_list,) = changes_of(row, version=1)

    assert by_object.new == by_list.new == [value]
    assert by_object.relation == by_list.relation


def test_bytea_is_known_by_name_where_no_oid_is_told() -> None:
    row = format_2("I", columns=[{"name": "a", "type": "bytea", "value": "00ff"}])

    assert changes_of(row)[0].new == ["\\x00ff"]


@pytest.mark.parametrize(
    ("written", "type_name"),
    [
        ('"integer"', "integer"),
        ('"Mood"', "Mood"),
        ('"Odd schema"."Mo""od"', '"Odd schema"."Mo""od"'),
        ('"Odd schema".mood', '"Odd schema".mood'),
        ('"od""d"', '"od""d"'),
        ('"back\\slash"', '"back\\slash"'),
        ('"Geo"."m"(Point,4326)', '"Geo"."m"(Point,4326)'),
        ('"\\"Mood\\"[]"', '"Mood"[]'),
    ],
)
def test_a_type_name_that_is_no_json_is_read(written: str, type_name: str) -> None:
    columns = (
        f'[{{"name":"type","type":{written},"typeoid":-2,"value":"type"}},'
        f'{{"name":"b","type":{written},"typeoid":9,"value":"columntypes"}}]'
    )
    row = f'{{"action":"I","schema":"s","table":"t","columns":{columns},"pk":[]}}'
    (by_object,) = changes_of(row)
    lists = f'"columnnames":["type","b"],"columntypes":[{written},{written}]'
    row = (
        f'{{"kind":"insert","schema":"s","table":"t",{lists},"columntypeoids":[4294967294,9],'
        '"columnvalues":["type","columntypes"]}'
    )
    (by_list,) = changes_of(row, version=1)

    for change in (by_object, by_list):
        assert change.new == ["type", "columntypes"]
        assert change.relation is not None
        assert change.relation.columns == (
            Column("type", 2**32 - 2, -1, False, type_name),
            Column("b", 9, -1, False, type_name),
        )


def test_the_primary_key_is_flagged() -> None:
    for change in changes_of(INSERT):
        assert change.relation is not None
        assert change.relation.key_indexes == (0,)
        assert change.relation.replica_identity is None
        assert change.relation.oid == 0


def test_an_update_without_a_column_left_it_unchanged() -> None:
    update = format_2("U", columns=[ID, NOTE], identity=[ID])
    inserted, updated = changes_of(INSERT, update)

    assert updated.new == ["1", UNCHANGED, None]
    assert (updated.old_kind, updated.old) == (None, None)
    assert updated.relation is inserted.relation


def test_an_update_without_a_column_that_cannot_be_toasted_saw_it_dropped() -> None:
    number = column("n", "integer", 23, 5)
    inserted, updated = changes_of(
        format_2("I", columns=[ID, BIG, number]), format_2("U", columns=[ID], identity=[ID])
    )

    assert inserted.relation is not updated.relation
    assert updated.relation is not None
    assert updated.relation.names == ("id",)


def test_an_identity_that_differs_is_the_old_key() -> None:
    update = format_2("U", columns=[ID | {"value": 2}, BIG, NOTE], identity=[ID])
    _, updated = changes_of(INSERT, update)

    assert (updated.old_kind, updated.old) == ("K", ["1", NOT_SENT, NOT_SENT])


def test_a_toasted_key_is_taken_from_the_identity() -> None:
    key = column("big", "text", 25, "key")
    update = format_2("U", columns=[NOTE], identity=[key], pk=[{"name": "big"}])
    insert = format_2("I", columns=[key, NOTE], pk=[{"name": "big"}])
    for texts in ([insert, update], [update]):
        updated = changes_of(*texts)[-1]

        assert updated.new == [UNCHANGED, None]
        assert (updated.old_kind, updated.old) == ("K", ["key", NOT_SENT])


def test_a_whole_old_row_is_told_even_if_it_repeats_the_new_one() -> None:
    update = format_2("U", columns=[ID, BIG, NOTE], identity=[ID, BIG, NOTE])
    _, updated = changes_of(INSERT, update)

    assert (updated.old_kind, updated.old) == ("O", ["1", "x", None])


def test_a_delete_seen_first_takes_the_catalogs_shape_which_the_insert_keeps() -> None:
    asked: list[tuple[str, str]] = []

    def columns_of(schema: str, table: str) -> list[Column]:
        asked.append((schema, table))
        return [
            Column("id", 23, -1, True, "integer"),
            Column("e", 16400, -1, False, '"Mood"'),
            Column("v", 1043, 44, False, "character varying(40)"),
        ]

    columns = [ID, column("e", "Mood", 16400, "a"), column("v", "character varying(40)", 1043, "")]
    for first in (
        format_2("D", identity=[ID]),
        format_2("U", columns=[ID, columns[2]], identity=[ID]),
        '{"action":"T","schema":"public","table":"t"}',
    ):
        asked.clear()
        seen, inserted = changes_of(first, format_2("I", columns=columns), columns_of=columns_of)

        assert asked == [("public", "t")]
        assert seen.relation is inserted.relation


def test_parts_alone_make_a_shape_that_grows() -> None:
    seen = changes_of(
        format_2("U", columns=[ID, NOTE], identity=[ID]),
        format_2("D", identity=[ID]),
        format_2("U", columns=[ID, BIG, NOTE], identity=[ID]),
        format_2("U", columns=[ID], identity=[ID]),
    )
    names = [change.relation and change.relation.names for change in seen]

    assert names == [("id", "note"), ("id", "note"), ("id", "note", "big"), ("id", "note", "big")]
    assert seen[-1].new == ["1", UNCHANGED, UNCHANGED]


def test_old_keys_of_format_1() -> None:
    insert = format_1("insert", columnnames=["id", "v"], columnvalues=[1, "x"])
    old = {"keynames": ["id"], "keyvalues": [1]}
    same = format_1("update", columnnames=["id", "v"], columnvalues=[1, "y"], oldkeys=old)
    moved = format_1("update", columnnames=["id", "v"], columnvalues=[2, "y"], oldkeys=old)
    _, first, second, deleted = changes_of(
        insert, "," + same, "," + moved, "," + format_1("delete", oldkeys=old), version=1
    )

    assert (first.old_kind, first.old, first.new) == (None, None, ["1", "y"])
    assert (second.old_kind, second.old) == ("K", ["1", NOT_SENT])
    assert (deleted.old_kind, deleted.old, deleted.lsn) == ("K", ["1", NOT_SENT], 0x20)


def test_a_truncation_has_unknown_options() -> None:
    (change,) = changes_of('{"action":"T","schema":"public","table":"t"}')

    assert (change.op, change.new) == ("T", Truncation(None, None))


def test_a_message_after_a_transaction_may_come_with_a_comma_too_many() -> None:
    row = '{"change":[,{"kind":"message","transactional":false,"prefix":"p","content":"[,"}]}'
    (event,) = Wal2JsonAssembler(format_version=1).feed([(9, 7, row)])

    assert isinstance(event, StandaloneMessage)
    assert (event.lsn, event.message.content) == (9, b"[,")


def test_an_empty_transaction_is_left_out_but_its_end_is_known() -> None:
    for version in (1, 2):
        assembler = Wal2JsonAssembler(format_version=version)
        assert assembler.feed(in_transaction(version)) == []
        assert assembler.last_end_lsn == LSN(0x30)
        assert not assembler.in_transaction


def test_one_row_for_a_whole_transaction_comes_in_runs() -> None:
    insert = format_1("insert", columnnames=["id"], columnvalues=[1])
    whole = f'{{"xid":7,"change":[{",".join([insert] * 20_001)}]}}'
    events = Wal2JsonAssembler(format_version=1).feed([(0x30, 7, whole)])
    runs = [event for event in events if isinstance(event, ChangeRun)]

    assert [len(run.changes) for run in runs] == [10_000, 10_000, 1]
    assert sum(run.size_bytes for run in runs) == len(whole)
    assert isinstance(events[-1], TransactionCommitted)
    assert events[-1].end_lsn == LSN(0x30)


def test_one_row_through_a_walsender_must_tell_its_end() -> None:
    insert = format_1("insert", columnnames=["id"], columnvalues=[1])
    with pytest.raises(ProtocolError, match="give include-lsn"):
        Wal2JsonAssembler(format_version=1).feed([(9, 0, f'{{"xid":7,"change":[{insert}]}}')])


def test_the_options_are_of_their_format() -> None:
    assert wal2json_options(1)["format-version"] == "1"
    assert wal2json_options(2)["include-transaction"] == "true"
    with pytest.raises(ValueError, match="must be 1 or 2"):
        Wal2JsonAssembler(format_version=3)  # type: ignore[arg-type]


# Malformed rows are refused.


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "{",
        '{"action":"X"}',
        '{"action":["I"]}',
        '{"action":"I","schema":"s","table":"t"}',
        '{"action":"I","schema":"s","table":"t","columns":[1]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","value":NaN}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","value":[1]}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":["a"],"value":1}]}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":"x","value":1}]}',
        '{"action":"I","schema":"s","columns":[]}',
        '{"action":"T","schema":true,"table":"t"}',
        '{"action":"B","xid":8}',
        '{"action":"C","xid":8}',
        '{"action":"C","xid":7,"nextlsn":"0/0/0"}',
        '{"action":"C","xid":7,"timestamp":"noon"}',
        '{"action":"M","transactional":1,"prefix":"p","content":"x"}',
        '{"action":"I","schema":"s","table":"t","columns":[{"name":"a","type":"x"y","value":1}]}',
        "[" * 100_000,
    ],
)
def test_a_malformed_row_of_format_2_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        events_of(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":["insert"]}',
        '{"kind":"merge","schema":"s","table":"t"}',
        '{"kind":"insert","schema":"s","table":"t"}',
        '{"kind":"insert","schema":"s","table":"t","columnnames":["a"],"columnvalues":[]}',
        '{"kind":"insert","schema":"s","table":"t","columnnames":["a"],"columnvalues":[{}]}',
        '{"kind":"insert","schema":"s","table":"t","columnnames":["a"],"columntypes":[],'
        '"columnvalues":[1]}',
        '{"kind":"insert","schema":"s","table":"t","columnnames":["a","a"],"columnvalues":[1,2]}',
        '{"kind":"delete","schema":"s","table":"t","oldkeys":[]}',
        '{"kind":"delete","schema":"s","table":"t","pk":[],"oldkeys":{}}',
        '{"change":7}',
        '{"change":[7]}',
        '{"xid":8,"change":[]}',
        "{[",
    ],
)
def test_a_malformed_row_of_format_1_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        events_of(text, version=1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_row_outside_a_transaction_is_refused(version: Literal[1, 2]) -> None:
    for row in in_transaction(version, INSERT if version == 2 else format_1("delete"))[1:]:
        with pytest.raises(ProtocolError):
            Wal2JsonAssembler(format_version=version).feed([row])


CAPTURED = [(reading, row) for reading in READINGS for row in rows("30_plugins", reading)]


@given(text=st.text(max_size=60))
def test_any_text_decodes_or_raises_protocol_error(text: str) -> None:
    for beginning in ("", '{"action":"I",', '{"kind":"insert","schema":'):
        for version in (1, 2):
            with suppress(ProtocolError):
                events_of(beginning + text, version=version)


@given(
    captured=st.sampled_from(CAPTURED),
    at=st.integers(0, 500),
    cut=st.integers(0, 5),
    put=st.text('"[]{}:,\\ntruefals0-.', max_size=3),
)
def test_a_captured_row_with_a_mutation_decodes_or_raises_protocol_error(
    captured: tuple[str, PluginRow], at: int, cut: int, put: str
) -> None:
    reading, (lsn, xid, text) = captured
    at = min(at, len(text))
    mutated = text[:at] + put + text[at + cut :]
    with suppress(ProtocolError):
        reader(reading).feed([(lsn, xid, mutated)])
    with suppress(ProtocolError):
        events_of(mutated, version=2 if reading == "wal2json_2" else 1)
