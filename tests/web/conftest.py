"""A signed-in browser's stand-in, and the invented sources."""

import pytest
from django.core.cache import cache
from django.test import Client

from tests.people import make_user
from tests.web.scene import Scene, build_scene


@pytest.fixture
def signed_in(db) -> Client:
    """A client whose user has signed in."""
    cache.clear()
    client = Client()
    client.force_login(make_user("alice"))
    return client


@pytest.fixture
def scene(db) -> Scene:
    """Five sources, worst: billing-eu."""
    return build_scene()
