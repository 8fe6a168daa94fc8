"""``replview token``."""

import json

import pytest
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from replview.access.tokens import good_token
from tests.support.people import make_user


@pytest.fixture
def alice(db) -> User:
    return make_user("alice")


def test_a_token_is_shown_once_and_works(run, alice) -> None:
    token = run("token", "create", "export").splitlines()[0]

    found = good_token(token)
    assert found is not None
    assert found.user == alice
    assert token not in run("token", "list") + run("token", "list", "--format", "json")


def test_a_revoked_one_makes_room_for_its_successor(run, alice) -> None:
    first = run("token", "create", "export").splitlines()[0]
    with pytest.raises(CommandError, match="revoke export"):
        run("token", "create", "export")

    run("token", "revoke", "export")
    second = run("token", "create", "export", "--days", "2").splitlines()[0]

    assert good_token(first) is None
    assert good_token(second) is not None
    assert "good until" in json.loads(run("token", "list", "--format", "json"))[0]["state"]


def test_whose_it_is_must_be_said_where_there_are_several(run, alice) -> None:
    make_user("bob")
    with pytest.raises(CommandError, match="--user"):
        run("token", "create", "export")

    run("token", "create", "export", "--user", "bob")

    assert "bob" in run("token", "list")


def test_without_a_user_it_says_what_to_do(run) -> None:
    with pytest.raises(CommandError, match="createsuperuser"):
        run("token", "create", "export")
    assert "replview token create" in run("token", "list")


def test_an_unknown_one_cannot_be_revoked(run) -> None:
    with pytest.raises(CommandError, match="no token export"):
        run("token", "revoke", "export")
