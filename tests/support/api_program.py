"""A program that calls the API with a token."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from replview.access.tokens import make_token
from tests.support.people import make_user


@pytest.fixture
def user(db) -> User:
    """Return the user whose token the program uses."""
    return make_user("alice")


@pytest.fixture
def program(user: User) -> Client:
    """A client that sends a good token and no cookie."""
    token, _ = make_token(user, "test", scope="export")
    return Client(headers={"Authorization": f"Bearer {token}"})
