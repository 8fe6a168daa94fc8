"""A shop with one table of every kind that matters to publications."""

import pytest

SHOP = """
    CREATE TABLE orders (id int PRIMARY KEY, status text, note text);
    CREATE TABLE audit (at timestamptz, what text);
    CREATE TABLE silent (id int PRIMARY KEY);
    ALTER TABLE silent REPLICA IDENTITY NOTHING;
    CREATE TABLE whole (a int, b text);
    ALTER TABLE whole REPLICA IDENTITY FULL;
    CREATE TABLE by_index (code text NOT NULL UNIQUE, n int);
    ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_code_key;
    CREATE TABLE events (day date, id int, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
    CREATE TABLE events_2026 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
"""


@pytest.fixture
def shop(source):
    """The shop on PostgreSQL 18."""
    source.run(SHOP)
    return source


@pytest.fixture
def any_shop(any_source):
    """The shop on each version in turn."""
    any_source.run(SHOP)
    return any_source


@pytest.fixture
def make_role(source):
    """``make_role(name, attributes)``: a role with the password ``geheim``; gone at the end."""
    made = []

    def make(name: str, attributes: str = "") -> str:
        source.run(f"CREATE ROLE {name} LOGIN {attributes} PASSWORD 'geheim'")
        made.append(name)
        return source.server.dsn(source.name, user=name, password="geheim")

    yield make
    for name in made:
        source.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
