"""Management commands, run in the test's process."""

from io import StringIO

import pytest
from django.core.management import call_command


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
