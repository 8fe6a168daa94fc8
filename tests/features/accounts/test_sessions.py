"""Sessions of one account: listed, ended one by one, and no more of them than are allowed."""

import time

import pytest
from django.contrib.auth.models import User
from django.test import Client

from replview.access.accounts import sessions_of
from replview.access.open_sessions import SIGNED_IN_AT, open_sessions
from tests.support.people import make_user

GOOD = "correct-horse-battery"


@pytest.fixture
def user(db) -> User:
    """An account with a password."""
    return make_user("vera", "viewer", password=GOOD)


def browser(user: User, **kept: int) -> Client:
    """A browser that is signed in, with something else in its session."""
    client = Client()
    client.force_login(user)
    session = client.session
    session.update(kept)
    session.save()
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/accounts/me/").status_code == 200


def test_one_session_of_several_is_ended_by_who_knows_the_password(user: User) -> None:
    here, there, third = browser(user), browser(user), browser(user)
    [name] = [one.name for one in open_sessions(user, there.session.session_key) if one.is_here]
    page = here.get("/accounts/me/").text
    assert page.count("End this session") == 2
    assert there.session.session_key not in page
    address = f"/accounts/me/sessions/{name}/end/"
    wrong = here.post(address, {"old": "a guess"})
    assert (wrong.status_code, "The current password is wrong" in wrong.text) == (422, True)
    assert is_signed_in(there)

    here.post(address, {"old": GOOD})

    assert [is_signed_in(one) for one in (here, there, third)] == [True, False, True]


def test_nobody_ends_a_session_of_another_account(user: User) -> None:
    mine, other = browser(user), make_user("olga", "viewer", password=GOOD)
    [name] = [one.name for one in open_sessions(user, None)]
    browser(other).post(f"/accounts/me/sessions/{name}/end/", {"old": GOOD})
    assert is_signed_in(mine)


def test_who_has_no_password_must_have_signed_in_lately(user: User) -> None:
    user.set_unusable_password()
    user.save()
    there, long_ago = browser(user), int(time.time()) - 3600
    here = browser(user, **{SIGNED_IN_AT: long_ago})
    names = [one.name for one in open_sessions(user, here.session.session_key) if not one.is_here]
    address = f"/accounts/me/sessions/{names[0]}/end/"
    assert "Sign in again first" in here.post(address).text
    assert is_signed_in(there)
    assert browser(user).post(address).status_code == 302
    assert not is_signed_in(there)


def test_one_session_too_many_ends_the_one_not_used_for_longest(user: User, settings) -> None:
    settings.SESSIONS_OF_ACCOUNT = 2
    now = int(time.time())
    longest, lately = browser(user, active_at=now - 50), browser(user, active_at=now - 10)
    third = browser(user)
    assert len(sessions_of(user)) == 2
    assert [is_signed_in(one) for one in (longest, lately, third)] == [False, True, True]
