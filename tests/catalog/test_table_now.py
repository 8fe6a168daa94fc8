"""One table in the catalog now."""

import psycopg
import pytest

from replview.catalog.connections import connected
from replview.catalog.problems import SourceProblem
from replview.catalog.table_now import TableNow, look_at_table, read_table_now


def oid_of(source, name: str) -> int:
    with source.connect() as session:
        row = session.execute("SELECT %s::regclass::oid::bigint", [name]).fetchone()
    return row[0]


def read(source, name: str) -> TableNow:
    with connected(source.dsn) as connection:
        found = read_table_now(connection, oid_of(source, name))
    assert found is not None
    return found


def test_columns_with_types_and_defaults(any_source) -> None:
    any_source.run("""
        CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            status varchar(40) NOT NULL DEFAULT 'draft', total numeric(12,2),
            gross numeric GENERATED ALWAYS AS (total * 1.2) STORED)
    """)
    table = read(any_source, "orders")

    assert [(c.name, c.type_name) for c in table.columns] == [
        ("id", "integer"), ("status", "character varying(40)"), ("total", "numeric(12,2)"),
        ("gross", "numeric"),
    ]  # fmt: skip
    identity, status, total, gross = table.columns
    assert identity.identity
    assert (status.not_null, status.expression) == (True, "'draft'::character varying")
    assert total.expression is None
    assert gross.generated


def test_constraints_and_indexes(any_shop) -> None:
    any_shop.run(
        "ALTER TABLE orders ADD CHECK (id > 0)",
        "CREATE TABLE items (id int PRIMARY KEY, of int REFERENCES orders)",
        "CREATE INDEX by_status ON orders (status)",
        "INSERT INTO orders SELECT n FROM generate_series(1, 1000) n",
    )
    orders, items = read(any_shop, "orders"), read(any_shop, "items")

    assert [c.kind for c in orders.constraints if c.kind != "not null"] == ["primary key", "check"]
    assert [c.definition for c in items.constraints if c.kind == "foreign key"] == [
        "FOREIGN KEY (of) REFERENCES public.orders(id)"
    ]
    assert [(i.name, i.primary, i.valid) for i in orders.indexes] == [
        ("orders_pkey", True, True), ("by_status", False, True),
    ]  # fmt: skip
    assert all(i.size_bytes > 0 for i in orders.indexes)


def test_replica_identity(any_shop) -> None:
    names = ("orders", "silent", "whole", "by_index")

    assert [read(any_shop, name).replica_identity for name in names] == [
        "DEFAULT", "NOTHING", "FULL", "INDEX",
    ]  # fmt: skip
    assert [i.identity for i in read(any_shop, "by_index").indexes] == [True]


def test_partitions_root_and_leaves(any_shop) -> None:
    any_shop.run("""
        CREATE TABLE events_2027 PARTITION OF events FOR VALUES FROM ('2027-01-01')
            TO ('2028-01-01') PARTITION BY RANGE (day);
        CREATE TABLE events_2027_h1 PARTITION OF events_2027 FOR VALUES FROM ('2027-01-01')
            TO ('2027-07-01')
    """)
    root, leaf = read(any_shop, "events"), read(any_shop, "events_2027_h1")

    assert root.partitioned
    assert root.leaves == (("public", "events_2026"), ("public", "events_2027_h1"))
    assert root.leaf_count == 2
    assert leaf.root == ("public", "events")
    assert leaf.ancestors == (("public", "events_2027"), ("public", "events"))
    assert read(any_shop, "orders").leaves == ()


def test_a_table_that_is_gone(source) -> None:
    with connected(source.dsn) as connection:
        assert read_table_now(connection, 4_000_000_000) is None


def test_rows_are_unknown_until_analyzed(source) -> None:
    source.run("CREATE TABLE t (a int)")
    assert read(source, "t").estimated_rows is None
    source.run("INSERT INTO t VALUES (1)", "ANALYZE t")
    assert read(source, "t").estimated_rows == 1


def test_the_source_is_named_with_its_answer(source) -> None:
    source.run("CREATE TABLE t (a int)")
    system_identifier, table = look_at_table(source.dsn, oid_of(source, "t"))

    assert table is not None
    with psycopg.connect(source.dsn) as session:
        row = session.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    assert system_identifier == str(row[0] % (1 << 64))


@pytest.mark.slow
def test_a_lock_on_the_table_is_not_waited_for_long(source) -> None:
    source.run("CREATE TABLE t (a int PRIMARY KEY)")
    oid = oid_of(source, "t")
    with source.connect() as session:
        session.execute("BEGIN")
        session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceProblem):
            look_at_table(source.dsn, oid)


@pytest.mark.parametrize("dsn", ["not a dsn =", "host=127.0.0.1 port=1 dbname=x user=y"])
def test_what_goes_wrong_is_named(dsn: str) -> None:
    with pytest.raises(SourceProblem):
        look_at_table(dsn, 1)
