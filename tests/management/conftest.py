"""Commands against a real store and a real source."""

import pytest

from replview.store.models import Source
from tests.support.commands import an_instance as an_instance
from tests.support.commands import run as run


@pytest.fixture
def shop(source):
    """A source with a table that has a key and one that has none."""
    source.run(
        "CREATE TABLE orders (id int PRIMARY KEY, status text, note text)",
        "CREATE TABLE audit (at timestamptz, what text)",
    )
    return source


@pytest.fixture
def registered(shop, run) -> Source:
    """The shop, added as the source ``shop``."""
    run("source", "add", "shop", "--dsn", shop.dsn)
    return Source.objects.get(name="shop")
