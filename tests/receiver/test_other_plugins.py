"""Slots of test_decoding and wal2json, adopted: received like any other, what they cannot tell
marked unknown.
"""

import pytest

from replview.catalog.connections import connect
from replview.catalog.plan.new_slot import make_plan
from replview.catalog.plan.slot_request import SlotRequest
from replview.catalog.problems import SourceProblem
from replview.store.models import Relation, RelationVersion
from replview.store.read.rows import signed_hash
from tests.support.source_databases import SourceDatabase
from tests.support.waiting import wait_for

#: Each takes its seconds; make test runs them all.
pytestmark = pytest.mark.slow

TABLES = (
    "CREATE TABLE orders (id int PRIMARY KEY, price numeric(12,2), note text)",
    "CREATE TABLE audit (line varchar(40))",
    "CREATE TABLE keyed (a int, b text, v text, PRIMARY KEY (b, a))",
)
WORK = (
    "BEGIN; INSERT INTO orders VALUES (1, 9.50, 'é\"''x'), (2, NULL, ''); "
    "INSERT INTO audit VALUES ('two orders'); UPDATE orders SET price = 10 WHERE id = 1; COMMIT",
    "INSERT INTO keyed VALUES (1, 'x', 'old')",
    "UPDATE keyed SET a = 2",
    "DELETE FROM orders WHERE id = 2",
    "SELECT pg_logical_emit_message(true, 'replview', '{\"actor\": \"alice\"}')",
    "ALTER TABLE audit ADD at date",
    "INSERT INTO audit VALUES ('dated', '2026-11-20')",
)
PLUGINS = pytest.mark.parametrize(
    ("plugin", "options"),
    [
        ("test_decoding", {}),
        ("wal2json", {"format_version": 1}),
        ("wal2json", {"format_version": 2}),
    ],
    ids=["test_decoding", "wal2json 1", "wal2json 2"],
)
INTERFACES = pytest.mark.parametrize("interface", ["walsender", "sql"])


@PLUGINS
@INTERFACES
def test_the_record_is_the_same_as_through_pgoutput(
    source_15: SourceDatabase, record, plugin: str, options: dict, interface: str
) -> None:
    source_15.run(*TABLES)
    reference = record(source_15, two_phase=False)
    adopted = record(
        source_15, plugin=plugin, options=options, interface=interface, owned=False, two_phase=False
    )
    source_15.run(*WORK)
    for recording in (reference, adopted):
        recording.caught_up()

    told = [_told(recording) for recording in (reference, adopted)]
    assert told[1] == told[0]
    assert [t.commit_seq for t in adopted.transactions()] == list(range(1, 7))
    assert [t.actor for t in adopted.transactions()][4] == "alice"


def _told(recording) -> list[list[tuple]]:
    """Return the changes of each transaction, without what may depend on the plugin."""
    names = {relation.pk: str(relation) for relation in Relation.objects.all()}
    return [
        [
            (c.op, names.get(c.relation_id), c.new, c.key_hash)
            for c in recording.changes(transaction)
        ]
        for transaction in recording.transactions()
    ]


@PLUGINS
def test_names_lead_to_the_catalogs_oids_types_and_keys(
    source_15: SourceDatabase, record, plugin: str, options: dict
) -> None:
    source_15.run(*TABLES)
    adopted = record(source_15, plugin=plugin, options=options, owned=False, two_phase=False)
    source_15.run(*WORK[:3])
    adopted.caught_up()

    with source_15.connect() as session:
        [oid] = session.execute("SELECT 'orders'::regclass::oid").fetchone()
    orders = Relation.objects.get(slot=adopted.slot, table="orders")
    version = RelationVersion.objects.get(relation=orders)
    assert (orders.oid, version.key_columns) == (oid, ["id"])
    assert version.replica_identity == "UNKNOWN"
    assert [c["type"] for c in version.columns] == ["integer", "numeric(12,2)", "text"]
    inserted = adopted.changes(adopted.transactions()[0])[0]
    assert inserted.key_hash == signed_hash(["1"])


@PLUGINS
def test_a_table_that_is_gone_has_a_number_of_its_own(
    source_15: SourceDatabase, record, plugin: str, options: dict
) -> None:
    source_15.run(*TABLES)
    adopted = record(
        source_15, start=False, plugin=plugin, options=options, owned=False, two_phase=False
    )
    source_15.run("INSERT INTO audit VALUES ('last words')", "DROP TABLE audit")
    adopted.start()
    [transaction] = wait_for(lambda: adopted.transactions(state="committed", inserts=1))

    [change] = adopted.changes(transaction)
    assert change.new == {"line": "last words"}
    relation = Relation.objects.get(pk=change.relation_id)
    assert (str(relation), relation.oid < 0) == ("public.audit", True)


@INTERFACES
def test_prepared_transactions_come_through_test_decoding(
    source_15: SourceDatabase, record, interface: str
) -> None:
    source_15.run(*TABLES)
    adopted = record(
        source_15, plugin="test_decoding", interface=interface, owned=False, two_phase=True
    )
    source_15.run("BEGIN; INSERT INTO orders VALUES (1); PREPARE TRANSACTION 'p'")
    [prepared] = wait_for(lambda: adopted.transactions(state="prepared"))
    adopted.end()
    source_15.run("COMMIT PREPARED 'p'", "INSERT INTO orders VALUES (2)")
    adopted.start()
    adopted.caught_up()

    first, second = adopted.transactions()
    assert (first.pk, first.state, first.gid) == (prepared.pk, "committed", "p")
    assert (first.commit_seq, second.commit_seq) == (1, 2)


def test_a_slot_of_another_plugin_than_was_adopted_is_named(
    source_15: SourceDatabase, record
) -> None:
    source_15.run(*TABLES)
    recording = record(source_15, start=False, plugin="test_decoding", two_phase=False)
    type(recording.slot).objects.update(plugin="pgoutput")
    recording.start()
    assert "test_decoding" in recording.problem("slot_other_plugin").problem_cause


def test_adopting_tells_what_the_slot_speaks_and_refuses_publications(
    source_15: SourceDatabase, record
) -> None:
    source_15.run(*TABLES)
    name = record(source_15, start=False, plugin="test_decoding", two_phase=False).slot.name
    with connect(source_15.dsn) as connection:
        plan = make_plan(connection, SlotRequest(slot_name=name, adopt=True))
        with pytest.raises(SourceProblem, match="uses no publications"):
            make_plan(connection, SlotRequest(slot_name=name, adopt=True, all_tables=True))

    assert (plan.plugin, plan.owned, plan.statements, plan.publications) == (
        "test_decoding", False, (), (),
    )  # fmt: skip
    assert any("every table" in note.text for note in plan.notes)
