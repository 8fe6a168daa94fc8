"""Each scenario of the shop, as a real slot sends it: nothing the demo promises is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
import pytest

from replview.demo.workload.scenarios import SCENARIOS
from replview.demo.workload.schema import TABLES
from replview.demo.workload.seed import prepare
from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.demo.every_scenario import run_every_scenario_once
from tests.support.copied_clusters import copied

pytestmark = pytest.mark.slow

INSERT_ONLY = {"public.page_views", "public.receipts", "warehouse.sensor_readings"}

PUBLICATIONS = f"""
CREATE PUBLICATION shop FOR TABLE {", ".join(sorted(set(TABLES) - INSERT_ONLY))};
CREATE PUBLICATION shop_inserts FOR TABLE {", ".join(sorted(INSERT_ONLY))}
    WITH (publish = 'insert, truncate');
"""

PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes('shop', NULL, NULL, 'proto_version', '4',
    'publication_names', 'shop,shop_inserts', 'messages', 'on', 'streaming', 'on')
"""


@dataclass
class Stream:
    """The messages that a slot sent, counted by kind, and what the tests look for in them."""

    #: By tag; those sent between Stream Start and Stream Stop also as ``stream X``.
    tags: Counter[str] = field(default_factory=Counter)
    #: (operation, table, kind of old tuple or '')
    changes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    #: Tables of which a change had a value sent as unchanged.
    not_sent: set[str] = field(default_factory=set)
    #: Column names of each table, one entry for each shape.
    shapes: dict[str, set[tuple[tuple[str, int], ...]]] = field(default_factory=dict)
    #: (flags, prefix) of logical messages.
    messages: Counter[tuple[int, str]] = field(default_factory=Counter)
    origins: set[str] = field(default_factory=set)
    identities: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class Cursor:
    data: bytes
    at: int = 0

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "big")

    def letter(self) -> str:
        self.at += 1
        return chr(self.data[self.at - 1])

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        start, self.at = self.at, end + 1
        return self.data[start:end].decode()

    def tuple_letters(self) -> str:
        letters = ""
        for _ in range(self.number(2)):
            letters += self.letter()
            if letters[-1] == "t":
                length = self.number(4)
                self.at += length
        return letters


def read_stream(payloads: list[bytes]) -> Stream:
    stream, names, streaming = Stream(), dict[int, str](), False
    for payload in payloads:
        cursor = Cursor(payload)
        tag = cursor.letter()
        stream.tags[tag] += 1
        if tag in "SE":
            streaming = tag == "S"
        elif streaming:
            stream.tags[f"stream {tag}"] += 1
        if streaming and tag in "RYIUDTM":
            cursor.number(4)
        if tag == "R":
            read_relation(cursor, stream, names)
        elif tag in "IUD":
            read_change(tag, cursor, stream, names)
        elif tag == "M":
            flags, _ = cursor.number(1), cursor.number(8)
            stream.messages[flags, cursor.text()] += 1
        elif tag == "O":
            cursor.number(8)
            stream.origins.add(cursor.text())
    return stream


def read_relation(cursor: Cursor, stream: Stream, names: dict[int, str]) -> None:
    oid = cursor.number(4)
    name = names[oid] = f"{cursor.text()}.{cursor.text()}"
    stream.identities.setdefault(name, set()).add(cursor.letter())
    columns = []
    for _ in range(cursor.number(2)):
        cursor.number(1)
        columns.append((cursor.text(), cursor.number(4)))
        cursor.number(4)
    stream.shapes.setdefault(name, set()).add(tuple(columns))


def read_change(tag: str, cursor: Cursor, stream: Stream, names: dict[int, str]) -> None:
    table = names[cursor.number(4)]
    kind = cursor.letter()
    if kind in "KO":
        cursor.tuple_letters()
        if tag == "U":
            assert cursor.letter() == "N"
    if tag != "D" and "u" in cursor.tuple_letters():
        stream.not_sent.add(table)
    stream.changes[tag, table, kind if kind in "KO" else ""] += 1


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    settings = {"logical_decoding_work_mem": "64kB", "track_commit_timestamp": "on"}
    with copied(settings=settings) as server:
        server.create_database("shop")
        yield server


@pytest.fixture(scope="module")
def done_and_sent(server: EmbeddedPostgres) -> tuple[list[str], Stream]:
    """Every scenario once, and what a two-phase slot made of it."""
    with psycopg.connect(server.dsn("shop"), autocommit=True) as conn:
        assert prepare(conn)
        conn.execute(PUBLICATIONS)
        conn.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput', false, true)")
        done = run_every_scenario_once(server.dsn("shop"))
        payloads = [data for (data,) in conn.execute(PEEK)]
        conn.execute("SELECT pg_drop_replication_slot('shop')")
    return done, read_stream(payloads)


@pytest.fixture(scope="module")
def sent(done_and_sent: tuple[list[str], Stream]) -> Stream:
    return done_and_sent[1]


def test_every_registered_scenario_runs(done_and_sent: tuple[list[str], Stream]) -> None:
    assert sorted(done_and_sent[0]) == sorted(scenario.name for scenario in SCENARIOS)


def test_every_kind_of_message_occurs(sent: Stream) -> None:
    assert {*"BCORYIUDTM", *"SEcA", *"bPKrp"} - sent.tags.keys() == set()


def test_every_table_is_written_to(sent: Stream) -> None:
    assert set(TABLES) - {table for _, table, _ in sent.changes} == set()


@pytest.mark.parametrize(
    ("change", "shows"),
    [
        (("U", "public.orders", ""), "an update under DEFAULT sends no old values"),
        (("D", "public.order_items", "K"), "a delete under DEFAULT sends the key"),
        (("U", "public.order_items", "K"), "a changed composite key is sent"),
        (("U", "public.products", "K"), "a changed primary key is sent"),
        (("U", "public.carts", "K"), "a changed key under INDEX is sent"),
        (("D", "public.carts", "K"), "a delete under INDEX sends the index's columns"),
        (("U", "public.stock", "O"), "an update under FULL sends the old row"),
        (("D", "public.stock", "O"), "a delete under FULL sends the old row"),
        (("D", "public.audit_notes", "O"), "a delete under FULL sends the old row"),
        (("I", "public.page_views", ""), "an insert without a key"),
        (("I", "warehouse.sensor_readings", ""), "an insert under NOTHING"),
    ],
)
def test_changes_under_each_identity(
    sent: Stream, change: tuple[str, str, str], shows: str
) -> None:
    assert sent.changes[change] > 0, shows


def test_insert_only_tables_are_never_updated_or_deleted_from(sent: Stream) -> None:
    assert not [change for change in sent.changes if change[1] in INSERT_ONLY and change[0] != "I"]


def test_all_four_replica_identities_are_seen(sent: Stream) -> None:
    assert sent.identities["public.stock"] == {"f"}
    assert sent.identities["public.carts"] == {"d", "i"}
    assert sent.identities["public.products"] == {"d", "f"}
    assert sent.identities["warehouse.sensor_readings"] == {"n"}


@pytest.mark.parametrize("table", ["public.orders", "public.products", "public.audit_notes"])
def test_large_values_left_alone_are_not_sent(sent: Stream, table: str) -> None:
    assert table in sent.not_sent


def test_schema_changes_are_sent(sent: Stream) -> None:
    columns = {shape[-1] for shape in sent.shapes["public.customers"]}

    assert {name for name, _ in columns} == {"created_at", "newsletter", "marketing_opt_in"}
    assert len({kind for name, kind in columns if name == "marketing_opt_in"}) == 2


def test_messages_of_both_kinds_are_sent(sent: Stream) -> None:
    assert sent.messages[1, "replview"] > 0
    assert sent.messages[0, "till"] > 0


def test_an_origin_is_named(sent: Stream) -> None:
    assert sent.origins == {"pos_berlin"}


def test_streams_carry_changes_and_messages(sent: Stream) -> None:
    assert sent.tags["stream U"] > 5_000
    assert sent.tags["stream M"] > 0


def test_no_prepared_transaction_is_left(
    server: EmbeddedPostgres, done_and_sent: tuple[list[str], Stream]
) -> None:
    with psycopg.connect(server.dsn("shop")) as conn:
        assert conn.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
