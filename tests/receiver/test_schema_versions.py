"""Versions recorded from real DDL, and what the schema history makes of them."""

import re
import time

import pytest
from django.test import Client
from django.utils import timezone

from replview.access.visibility import forget, reading_session
from replview.catalog.connections import connected
from replview.catalog.published import publication_facts, read_published
from replview.catalog.tables import read_tables
from replview.features.relations.carried_values import values_carried
from replview.features.relations.history_page import read_evidence, read_now, read_schema_page
from replview.features.relations.schema_history import SchemaHistory, schema_history
from replview.features.relations.source_now import SourceNow
from replview.store.looks import store_publication_look
from replview.store.models import (
    ActivityMark,
    Grant,
    MaskRule,
    PublicationLook,
    Relation,
    RelationActivity,
    RelationVersion,
    SlotEvent,
)
from replview.store.read.changes.of_transaction import changes_of
from replview.store.read.row_history.as_of import RowState, row_as_of
from replview.store.read.row_history.before_images import before_images
from replview.store.read.rows import signed_hash
from replview.store.sums.activity import roll
from replview.store.sums.relation_sums import RelationSum, sums_of_slot
from replview.ui.versions import shape_of, summary
from tests.support.people import make_user
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ORDERS = """
    CREATE TYPE order_status AS ENUM ('draft', 'paid');
    CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
    CREATE TABLE orders (id int PRIMARY KEY, status text, memo text, total numeric(10,2));
"""
#: Every change is streamed at once (PostgreSQL 16).
IMMEDIATE = "debug_logical_replication_streaming = immediate"


def history_of(table: str) -> SchemaHistory:
    return schema_history(Relation.objects.get(table=table))


def now_of(table: str) -> SourceNow:
    """Ask the source about a table, as its page does."""
    return read_now(read_schema_page(Relation.objects.get(table=table), {}))


def lines(history: SchemaHistory) -> list[str]:
    """Return a summary of each version's changes, oldest version first."""
    told = []
    for version in reversed(history.versions):
        before = history.before(version)
        told.append(
            summary(shape_of(before.version) if before else None, shape_of(version.version))
        )
    return told


@pytest.fixture
def page(transactional_db) -> Client:
    client = Client()
    client.force_login(make_user("alice"))
    return client


def text_of(response) -> str:
    assert response.status_code == 200
    return response.content.decode()


def test_each_kind_of_ddl_is_told(source, record, page: Client) -> None:
    source.run(ORDERS)
    recording = record(source)
    ddl = [
        "ALTER TABLE orders ALTER total TYPE numeric(12,2)",
        "ALTER TABLE orders RENAME memo TO note",
        "ALTER TABLE orders ADD quantity positive",
        "ALTER TABLE orders ALTER status TYPE order_status USING status::order_status",
        "ALTER TABLE orders DROP quantity",
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (id, status)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "ALTER TABLE orders RENAME TO deals",
    ]
    source.run("INSERT INTO orders VALUES (0, 'draft', 'm', 1)")
    for number, statement in enumerate(ddl, start=1):
        table = "deals" if "deals" in statement else "orders"
        source.run(statement, f"INSERT INTO {table} (id, status) VALUES ({number}, 'paid')")
        recording.caught_up()
    history = history_of("deals")

    assert lines(history) == [
        "first seen",
        "total numeric(10,2) → numeric(12,2)",
        "memo → note likely renamed",
        "+ quantity positive",
        "status text → order_status",
        "− quantity",
        "status key, rows known by id → id, status",
        "replica identity DEFAULT → FULL",
        "renamed from orders",
    ]
    assert [v.counts.changes for v in history.versions] == [1] * 9
    assert all(p.found and p.found.first_lsn for p in history.periods)
    data = read_schema_page(history.relation, {"from": "4", "to": "5"})
    assert data.diff is not None
    [row] = data.diff.changed
    assert row.before is not None
    assert row.after is not None
    assert (row.before.type, row.after.type) == ("text", "order_status")
    assert row.evidence == "a custom type"
    html = text_of(page.get(f"/relations/{history.relation.pk}/?from=4&to=5"))
    assert "<del>text</del>" in html
    assert "<ins>order_status</ins>" in html


def test_back_to_a_former_shape_is_an_interval(source, record, page: Client) -> None:
    source.run(ORDERS)
    recording = record(source)
    source.run("INSERT INTO orders VALUES (1, 'x', 'm', 1)")
    for identity in ("FULL", "DEFAULT"):
        source.run(f"ALTER TABLE orders REPLICA IDENTITY {identity}",
                   "UPDATE orders SET memo = memo || 'n'")  # fmt: skip
    recording.caught_up()
    history = history_of("orders")

    assert [v.version.number for v in history.versions] == [2, 1]
    assert history.current is history.versions[1]
    assert len(history.current.periods) == 2
    assert [v.counts.changes for v in history.versions] == [1, 2]
    data = read_schema_page(history.relation, {})
    assert [(entry.number, entry.current) for entry in data.entries] == [(2, False), (1, True)]
    assert [len(entry.again) for entry in data.entries] == [0, 1]
    assert data.identity is not None
    assert data.identity.cause.startswith("Replica identity DEFAULT sends no old values")
    html = text_of(page.get(f"/relations/{history.relation.pk}/"))
    assert "public.orders is at version 1" in html
    assert "in force again" in html


def test_another_primary_key_under_full_is_another_version(source, record) -> None:
    """The stream tells of such a table the same as before: what its key is, only the catalog."""
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, other int NOT NULL, a text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    recording = record(source)
    for statements in (
        ["INSERT INTO t VALUES (1, 10, 'x')"],
        ["ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (other)",
         "INSERT INTO t VALUES (2, 20, 'y')"],
        ["ALTER TABLE t DROP CONSTRAINT t_pkey", "INSERT INTO t VALUES (3, 20, 'z')"],
        ["INSERT INTO t VALUES (4, 40, 'z')"],
    ):  # fmt: skip
        source.run(*statements)
        recording.caught_up()
    recording.end()

    changes = [change for t in recording.transactions() for change in recording.changes(t)]
    versions = {v.pk: v for v in RelationVersion.objects.filter(relation__table="t")}
    told = [(versions[c.version_id].key_columns, c.key_hash) for c in changes]
    expected = [(["id"], signed_hash(["1"])), (["other"], signed_hash(["20"])), ([], None)]
    assert told == [*expected, ([], None)]


def test_a_key_under_full_that_was_made_later_is_none_of_the_changes_before(source, record) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, other int NOT NULL)",
               "ALTER TABLE t REPLICA IDENTITY FULL")  # fmt: skip
    recording = record(source, start=False)
    source.run("INSERT INTO t VALUES (1, 10), (2, 10)", "DELETE FROM t WHERE id = 2",
               "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (other)",
               "INSERT INTO t VALUES (2, 20)")  # fmt: skip
    recording.start()
    recording.caught_up()
    recording.end()

    hashes = [c.key_hash for t in recording.transactions() for c in recording.changes(t)]
    assert hashes == [None, None, None, signed_hash(["20"])]


def test_stored_rows_tell_a_rename_from_a_new_column(source, record) -> None:
    source.run("CREATE TABLE renamed (id int PRIMARY KEY, a text)",
               "CREATE TABLE replaced (id int PRIMARY KEY, a text)")  # fmt: skip
    recording = record(source)
    rows = "SELECT n, 'value ' || n FROM generate_series(1, 5) n"
    source.run(
        f"INSERT INTO renamed {rows}",
        f"INSERT INTO replaced {rows}",
    )
    recording.caught_up()
    source.run(
        "ALTER TABLE renamed RENAME a TO b",
        "ALTER TABLE renamed ADD c int",
        "UPDATE renamed SET c = 1",
        "ALTER TABLE replaced DROP a, ADD b text",
        "UPDATE replaced SET b = 'other'",
    )
    recording.caught_up()
    carried = {}
    for table in ("renamed", "replaced"):
        history = history_of(table)
        before, after = history.versions[1], history.versions[0]
        carried[table] = values_carried(history.relation.pk, before, after, [("a", "b")])

    assert carried == {"renamed": {("a", "b"): (5, 5)}, "replaced": {("a", "b"): (5, 0)}}


@pytest.mark.pg(13)
@pytest.mark.parametrize("via_root", [False, True])
def test_partitions_come_as_leaves_or_as_their_root(
    source, record, page: Client, via_root: bool
) -> None:
    source.run("""
        CREATE TABLE events (day date, id int, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
        CREATE TABLE events_2026 PARTITION OF events
            FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')
    """)
    recording = record(source, start=False)
    source.run(f"ALTER PUBLICATION {recording.slot.name} "
               f"SET (publish_via_partition_root = {via_root})")  # fmt: skip
    recording.start()
    source.run("INSERT INTO events VALUES ('2026-05-05', 1)")
    recording.caught_up()

    with connected(source.dsn) as connection:
        chosen, published = read_published(connection, recording.slot.publications)
        facts = publication_facts(
            chosen, published, read_tables(connection), connection.info.server_version
        )
    store_publication_look(recording.slot, facts, timezone.now())
    counts = {
        row.table: sums_of_slot(recording.slot.pk).by_relation.get(row.pk, RelationSum()).changes
        for row in Relation.objects.all()
    }
    html = text_of(page.get(f"/relations/?slot={recording.slot}"))

    if via_root:
        # The shape of the leaf is sent all the same.
        assert counts == {"events": 1, "events_2026": 0}
        assert "comes as its root" in html
    else:
        assert counts == {"events_2026": 1}
        assert "partition of" in html
        assert "public.events" in html


def test_the_sums_and_the_rest_agree_on_each_version(source, record) -> None:
    source.run(ORDERS)
    recording = record(source)
    with source.connect() as session:
        for number in range(1, 700):
            session.execute("INSERT INTO orders (id, total) VALUES (%s, 1)", [number])
        # One that comes later cannot tell that ``extra`` was not rewritten.
        recording.caught_up()
        # The new shape within the transaction that makes it.
        session.execute("BEGIN")
        session.execute("UPDATE orders SET total = 2 WHERE id = 1")
        session.execute("ALTER TABLE orders ADD extra int")
        session.execute("UPDATE orders SET extra = 2 WHERE id < 4")
        session.execute("COMMIT")
        for number in range(700, 1100):
            session.execute("INSERT INTO orders (id, total) VALUES (%s, 1)", [number])
    recording.caught_up()
    before = {v.version.number: v.counts.changes for v in history_of("orders").versions}
    roll(time.monotonic() + 30)
    after = {v.version.number: v.counts.changes for v in history_of("orders").versions}

    assert ActivityMark.objects.get().rolled_seq == 999
    assert RelationActivity.objects.count() == 2
    assert sum(before.values()) == sum(after.values()) == 1103
    # Not summed up yet, the transaction that changes the shape counts for the new one.
    assert before == {1: 699, 2: 404}
    assert after == {1: 700, 2: 403}


def test_a_line_of_the_log_leads_to_the_comparison(source, record, page: Client) -> None:
    source.run(ORDERS)
    recording = record(source)
    source.run("INSERT INTO orders VALUES (1)", "ALTER TABLE orders ADD extra int",
               "INSERT INTO orders VALUES (2)")  # fmt: skip
    recording.caught_up()
    event = SlotEvent.objects.get(kind="schema")
    html = text_of(page.get(f"/slots/{recording.slot}/"))
    link = re.search(r'href="(/relations/versions/\d+/)">Compare', html)

    assert link is not None
    answer = page.get(link[1])
    relation = event.detail["relation_id"]
    assert answer.headers["Location"] == f"/relations/{relation}/?to=2"
    data = read_schema_page(Relation.objects.get(pk=relation), {"to": "2"})
    assert data.diff is not None
    assert data.diff.counts()[0] == (1, "added")
    assert "<b>1</b> added" in text_of(page.get(answer.headers["Location"]))


def test_the_source_now_is_held_against_the_versions(source, record, page: Client) -> None:
    source.run(ORDERS, "CREATE INDEX ON orders (status)")
    recording = record(source)
    source.run("INSERT INTO orders VALUES (1)")
    recording.caught_up()
    recording.slot.source.conninfo = source.dsn
    recording.slot.source.save()
    address = f"/relations/{Relation.objects.get().pk}/now/"

    assert now_of("orders").columns == "equal to version 1"
    source.run("ALTER TABLE orders ADD discount numeric(12,2) DEFAULT 0")
    now = now_of("orders")
    assert now.columns == "unlike version 1: + discount numeric(12,2)"
    assert now.constraints == "1 primary key"
    assert ("discount", "0") in now.defaults
    html = text_of(page.get(address))
    assert "unlike version 1: + discount numeric(12,2)" in html
    assert "unknown: not in the stream" in html
    source.run("DROP TABLE orders")
    assert "it was dropped" in now_of("orders").absent
    assert "it was dropped" in text_of(page.get(address))


def test_a_source_out_of_reach_is_told_with_its_cause(source, record, page: Client) -> None:
    source.run(ORDERS)
    recording = record(source)
    source.run("INSERT INTO orders VALUES (1)")
    recording.caught_up()
    recording.slot.source.conninfo = "host=127.0.0.1 port=1 dbname=x user=y"
    recording.slot.source.save()
    began = time.monotonic()
    now = now_of("orders")
    assert time.monotonic() - began < 60

    assert (now.table, now.absent) == (None, "")
    assert now.trouble is not None
    assert "no server answers at 127.0.0.1:1" in now.trouble.cause
    html = text_of(page.get(f"/relations/{Relation.objects.get().pk}/now/"))
    assert "no server answers at 127.0.0.1:1" in html


def test_what_full_would_cost_is_reckoned_from_stored_rows(source, record, page: Client) -> None:
    source.run(ORDERS)
    recording = record(source)
    source.run("INSERT INTO orders SELECT n, repeat('x', 90), repeat('y', 100), 1"
               " FROM generate_series(10, 59) n")  # fmt: skip
    recording.caught_up()
    evidence = read_evidence(Relation.objects.get())

    assert evidence.cost is not None
    # 2 + 90 + 100 + 4 characters, of which 2 are the key's.
    words = "about 196\xa0B more WAL for each update, 194\xa0B for each delete"
    assert evidence.cost.words == words
    assert evidence.cost.basis == "an estimate from 50 stored rows, values as text"
    assert evidence.coverage.recorded_since is not None
    part = text_of(page.get(f"/relations/{Relation.objects.get().pk}/evidence/"))
    assert '<div id="full-cost" hx-swap-oob="innerHTML">' in part
    assert words in part
    assert "Recorded since" in part
    whole = text_of(page.get(f"/relations/{Relation.objects.get().pk}/?whole=1"))
    assert words in whole
    assert "hx-swap-oob" not in whole.split('id="evidence"')[1].split("</main>")[0]


def test_the_source_now_shows_no_value_of_a_masked_column(source, record, page: Client) -> None:
    source.run(
        "CREATE TABLE staff (id int PRIMARY KEY, pay int DEFAULT 48151, note text DEFAULT 'open',"
        " half int GENERATED ALWAYS AS (pay + 48152) STORED, CHECK (pay <> 48153))",
        "CREATE INDEX ON staff (id) WHERE pay > 48154",
        "CREATE INDEX ON staff (id) WHERE note = 'open'",
    )
    if source.version >= 15:
        source.run("CREATE PUBLICATION rich FOR TABLE staff WHERE (pay > 48155)")
    recording = record(source)
    source.run("INSERT INTO staff VALUES (1, 1)")
    recording.caught_up()
    recording.slot.source.conninfo = source.dsn
    recording.slot.source.save()
    relation = Relation.objects.get()
    PublicationLook.objects.create(
        slot=recording.slot, digest="1", first_seen_at=timezone.now(), last_seen_at=timezone.now(),
        facts={"tables": [{
            "schema": "public", "table": "staff", "oid": relation.oid, "operations": "IUDT",
            "unpublished_columns": [], "row_filter": "(pay > 48155)",
        }]},
    )  # fmt: skip
    address = f"/relations/{relation.pk}/"
    coverage = f"/api/v1/coverage?slot={recording.slot}&table=public.staff"
    pages = (f"{address}now/", f"{address}evidence/", f"{address}?whole=1", coverage)
    assert "".join(page.get(each).text for each in pages).count("4815") >= 7
    MaskRule.objects.create(table_pattern="public.staff", column_pattern="pay", when="display")
    forget()
    shown = "".join(page.get(each).text for each in pages)
    assert "4815" not in shown
    assert shown.count("withheld: it may hold a value that is not shown") >= 7
    assert "PRIMARY KEY (id)" in shown
    assert "note = &#x27;open&#x27;" in shown
    MaskRule.objects.all().delete()
    Grant.objects.all().delete()
    forget()
    viewer = Client()
    user = make_user("vera", "viewer")
    Grant.objects.create(user=user, source=recording.slot.source, tables=["public.other"])
    viewer.force_login(user)
    shown = "".join(viewer.get(each).text for each in pages)
    assert "4815" not in shown
    assert "no right to see values" in shown
    forget()


@pytest.mark.pg(14)
@pytest.mark.parametrize("before", [False, True], ids=["first recorded", "recorded before"])
@pytest.mark.parametrize("end", ["COMMIT", "PREPARE TRANSACTION 'it'"])
@pytest.mark.parametrize(
    ("alters", "after", "v"),
    [
        (["ALTER v TYPE text USING 'T' || v", "ADD w int DEFAULT 5"], "", "Tc"),
        (["DROP v, ADD v text DEFAULT 'dflt'"], "INSERT INTO ty VALUES (11, 'd')", "dflt"),
        (["DROP v"], "", None),
        (["ADD w int DEFAULT 5", "ALTER v SET NOT NULL"], "", "c"),
    ],
    ids=["rewritten", "replaced", "dropped", "as it was"],
)
def test_a_row_that_its_transaction_alters_after_it_was_streamed(
    source, record, alters: list[str], after: str, v: str | None, end: str, before: bool
) -> None:
    """Altered values of a row sent before its transaction altered the table are unknown.

    The stream described the table before it was altered, and does not describe it again.
    """
    source.run("CREATE TABLE ty (id int PRIMARY KEY, v text)")
    many = "INSERT INTO ty SELECT g, 'many' FROM generate_series(100, 2000) g"
    if source.version >= 16:
        many = ""
        source.run(f"ALTER DATABASE {source.name} SET {IMMEDIATE}")
    recording = record(source)
    if before:
        source.run("INSERT INTO ty VALUES (1, 'c')")
        recording.caught_up()
    with source.connect() as session:
        session.execute(f"BEGIN; INSERT INTO ty VALUES (10, 'c'); {many}")
        # Changes in progress are sent once they are flushed, which a commit does at once.
        source.run("COMMENT ON SCHEMA public IS 'flushed'")
        wait_for(lambda: recording.transactions(state="streaming"), 20)
        session.execute("; ".join([*(f"ALTER TABLE ty {each}" for each in alters), after]))
        session.execute(end)
    recording.caught_up()
    relation = Relation.objects.get(slot=recording.slot, table="ty")

    def row(number: int) -> RowState:
        return row_as_of(reading_session(), recording.slot, relation.pk, {"id": str(number)})

    if end != "COMMIT":
        source.run("COMMIT PREPARED 'it'")
        recording.caught_up()
    for number in (10, *([1] if before else [])):
        is_kept = v == "c"
        assert row(number).values == {"id": str(number), **({"v": "c"} if is_kept else {})}
        assert row(number).unknown.get("v") == (None if is_kept else "altered")
    # The next change of the table is of its present shape.
    source.run("UPDATE ty SET id = id")
    recording.caught_up()
    recording.end()
    assert row(10).values.get("v") == v
    update = recording.transactions()[-1]
    changes = changes_of(reading_session(), update.pk)
    image = before_images(reading_session(), changes[:1])[update.pk, changes[0].seq].image
    assert image.get("v") in (None, v)


@pytest.mark.pg(16)
def test_a_savepoint_alters_what_one_inside_of_it_has_changed(source, record) -> None:
    """The savepoint that alters the table has a smaller xid than the one that inserted the row."""
    source.run(f"ALTER DATABASE {source.name} SET {IMMEDIATE}")
    source.run("CREATE TABLE ty (id int PRIMARY KEY, v text)", "CREATE TABLE other (n int)")
    recording = record(source, start=False)
    with source.connect() as session:
        session.execute("BEGIN; INSERT INTO other VALUES (1); SAVEPOINT a")
        session.execute("INSERT INTO other VALUES (2); SAVEPOINT b")
        session.execute("INSERT INTO ty VALUES (10, 'c'); RELEASE b")
        session.execute("ALTER TABLE ty ALTER v TYPE text USING 'T' || v; COMMIT")
    recording.start()
    recording.caught_up()
    recording.end()

    relation = Relation.objects.get(slot=recording.slot, table="ty")
    found = row_as_of(reading_session(), recording.slot, relation.pk, {"id": "10"})
    assert (found.values, found.unknown) == ({"id": "10"}, {"v": "altered"})


#: The ways to switch the identity: the key's column and the identity before and after, and
#: meanwhile.
SWITCHES = [("id", "DEFAULT", "u", "USING INDEX riu"), ("u", "USING INDEX riu", "id", "DEFAULT")]


@pytest.mark.parametrize(
    ("mine", "now", "other", "meanwhile"), SWITCHES, ids=["to an index", "to the key"]
)
@pytest.mark.parametrize(
    "how", ["in one", "in several", pytest.param("streamed", marks=pytest.mark.pg(16))]
)
@pytest.mark.parametrize(
    ("change", "there"),
    [
        ("UPDATE k SET {mine} = 4 WHERE {mine} = 3", {4: "x"}),
        ("UPDATE k SET v = 'y' WHERE {mine} = 3", {3: "y"}),
        ("DELETE FROM k WHERE {mine} = 3", {}),
        ("DELETE FROM k WHERE {mine} = 3; INSERT INTO k VALUES (3, 3, 'n')", {3: "n"}),
    ],
    ids=["moved", "changed", "deleted", "another"],
)
def test_what_became_of_a_row_while_the_identity_had_other_columns_is_unknown(
    source, record, mine: str, now: str, other: str, meanwhile: str,
    change: str, there: dict[int, str], how: str,
) -> None:  # fmt: skip
    """The key before the switch is unknown, and two keys may have the same values."""
    source.run(f"CREATE TABLE k ({mine} int NOT NULL, {other} int NOT NULL, v text)",
               "ALTER TABLE k ADD PRIMARY KEY (id)", "CREATE UNIQUE INDEX riu ON k (u)",
               "INSERT INTO k VALUES (3, 30, 'a'), (5, 50, 'b')",
               f"ALTER TABLE k REPLICA IDENTITY {now}")  # fmt: skip
    if how == "streamed":
        source.run(f"ALTER DATABASE {source.name} SET {IMMEDIATE}")
    recording = record(source)
    source.run(f"UPDATE k SET v = 'x' WHERE {mine} = 3")
    recording.caught_up()
    switched = [f"ALTER TABLE k REPLICA IDENTITY {meanwhile}", change.format(mine=mine),
                f"ALTER TABLE k REPLICA IDENTITY {now}"]  # fmt: skip
    if how != "in several":
        whole = ["BEGIN", "SAVEPOINT s", *switched, "RELEASE s", "COMMIT"]
        switched = ["; ".join(whole if how == "streamed" else [whole[0], *switched, whole[-1]])]
    source.run(*switched)
    source.run(f"UPDATE k SET v = 'z' WHERE {mine} = 5")
    recording.caught_up()
    relation = Relation.objects.get(slot=recording.slot, table="k")

    def row(number: int) -> RowState:
        return row_as_of(reading_session(), recording.slot, relation.pk, {mine: str(number)})

    assert [row(number).exists for number in (3, 4, 5)] == [None, None, True]
    assert row(5).values == {mine: "5", other: "50", "v": "z"}
    # The row after the update is known again, but the row before it is not.
    source.run(f"UPDATE k SET v = 'last' WHERE {mine} <= 4")
    recording.caught_up()
    recording.end()
    for number, v in there.items():
        state, update = row(number), recording.transactions()[-1]
        assert (state.exists, state.values["v"]) == (True, "last")
        assert update.updates == 1, [vars(each) for each in recording.transactions()]
        [changed] = changes_of(reading_session(), update.pk)
        before = before_images(reading_session(), [changed]).get((update.pk, changed.seq))
        assert before is None or before.image.get("v") in (None, v)


def test_an_identity_that_a_prepared_transaction_showed_first_and_that_was_rolled_back(
    source, record
) -> None:
    """A PREPARE counts as the switch of the keys although its transaction is rolled back later."""
    source.run("CREATE TABLE k (id int PRIMARY KEY, u int NOT NULL, v text)",
               "CREATE UNIQUE INDEX riu ON k (u)",
               "INSERT INTO k VALUES (3, 30, 'a'), (5, 50, 'b'), (9, 90, 'c')")  # fmt: skip
    recording = record(source)
    source.run("UPDATE k SET v = 'x'", "ALTER TABLE k REPLICA IDENTITY USING INDEX riu",
               "UPDATE k SET v = 'y' WHERE id = 3")  # fmt: skip
    with source.connect() as session:
        row = session.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
    source.run("UPDATE k SET id = 7 WHERE id = 5", "ALTER TABLE k REPLICA IDENTITY DEFAULT")
    source.run("BEGIN; UPDATE k SET v = 'p' WHERE id = 9; PREPARE TRANSACTION 'it'",
               "ROLLBACK PREPARED 'it'", "UPDATE k SET v = 'z' WHERE id = 7")  # fmt: skip
    recording.caught_up()
    recording.end()

    relation = Relation.objects.get(slot=recording.slot, table="k")
    at = {"lsn": int(row[0])}
    state = row_as_of(reading_session(), recording.slot, relation.pk, {"id": "7"}, **at)
    assert state.exists is None
    now = row_as_of(reading_session(), recording.slot, relation.pk, {"id": "7"})
    assert (now.exists, now.values["v"]) == (True, "z")


@pytest.mark.pg(16)
@pytest.mark.parametrize("second", ["COMMIT", "ROLLBACK"])
def test_an_identity_that_only_a_rolled_back_transaction_showed_first(
    source, record, second: str
) -> None:
    """The next transaction that sent the shape is where the keys were switched."""
    source.run("CREATE TABLE k (id int PRIMARY KEY, u int NOT NULL, v text)",
               "CREATE UNIQUE INDEX riu ON k (u)",
               "INSERT INTO k VALUES (3, 30, 'a'), (5, 50, 'b'), (9, 90, 'c')",
               f"ALTER DATABASE {source.name} SET {IMMEDIATE}")  # fmt: skip
    recording = record(source)
    source.run("UPDATE k SET v = 'x'", "ALTER TABLE k REPLICA IDENTITY USING INDEX riu")
    with source.connect() as one, source.connect() as two, source.connect() as three:
        for number, session in ((9, one), (3, two), (5, three)):
            session.execute(f"BEGIN; UPDATE k SET id = id + 1, v = 'y' WHERE id = {number}")
            # Changes in progress are sent once they are flushed, which a commit does at once.
            source.run("COMMENT ON SCHEMA public IS 'flushed'")
        wait_for(lambda: len(recording.transactions(state="streaming")) == 3, 20)
        for session, end in ((one, "ROLLBACK"), (two, second), (three, "COMMIT")):
            session.execute(end)
    recording.caught_up()
    recording.end()

    relation = Relation.objects.get(slot=recording.slot, table="k")
    brought = [
        v["intervals"][-1]["xid"] for v in relation.versions.order_by("pk").values("intervals")
    ]
    last = {t.xid: t.state for t in recording.transactions()}
    assert last[brought[-1]] == "committed"
    assert row_as_of(reading_session(), recording.slot, relation.pk, {"id": "5"}).exists is None
