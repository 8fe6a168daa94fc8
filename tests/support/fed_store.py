"""A store that a feeder writes to, and the cookie of somebody who has signed in to see it."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from tests.support.feeder import Feeder
from tests.support.people import make_user


def store_dsn() -> str:
    """The test database's address."""
    given = connection.settings_dict
    return (
        f"host={given['HOST']} port={given['PORT']} user={given['USER']}"
        f" password={given['PASSWORD']} dbname={given['NAME']}"
    )


class RecordingPublisher:
    """Takes wake-ups for tests that send none."""

    def wake(self, *arguments: Any, **options: Any) -> None:
        """Forget it."""

    def slot_changed(self, slot_id: int) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def quiet_feeder(transactional_db: None) -> Iterator[Feeder]:
    """A feeder that sends no wake-ups."""
    feeder = Feeder(store_dsn(), publisher=RecordingPublisher())
    yield feeder
    feeder.close()


@pytest.fixture
def feeder(transactional_db: None, channel_layer_on_redis: None) -> Iterator[Feeder]:
    """A feeder whose wake-ups go through a real Redis."""
    feeder = Feeder(store_dsn())
    yield feeder
    feeder.close()


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """The cookie of a signed-in session."""
    user = make_user("watcher", password="watcher-password")
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
