"""Commands against a real store and a real source."""

from io import StringIO

import pytest
from django.core.management import call_command

from replview.store.models import Source


@pytest.fixture(autouse=True)
def an_instance(settings, request) -> None:
    """The test's store counts as a running instance."""
    settings.STORE_URL = "postgresql://the-test-store/"


@pytest.fixture
def run(db):
    """``run("slot", "list")`` → what it wrote."""

    def run(*words: str, **options: object) -> str:
        out = StringIO()
        call_command(*words, stdout=out, stderr=out, **options)
        return out.getvalue()

    return run


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
