"""Reading the API needs a token or a login."""

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from replview.access.tokens import good_token, make_token
from replview.store.models import ApiToken

SLOTS = "/api/v1/slots"


def test_without_a_token_nothing_is_told(db) -> None:
    answer = Client().get(SLOTS)

    assert answer.status_code == 401
    assert "replview token create" in answer.json()["remedy"]


def test_a_token_opens_the_api(program: Client) -> None:
    assert program.get(SLOTS).json() == []


def test_a_browser_that_has_signed_in_needs_no_token(user: User) -> None:
    browser = Client()
    browser.force_login(user)

    assert browser.get(SLOTS).status_code == 200


@pytest.mark.parametrize("word", ["", "rv_", "rv_unknown", "\0", "x" * 10_000])
def test_a_wrong_token_is_refused(db, word: str) -> None:
    assert Client(headers={"Authorization": f"Bearer {word}"}).get(SLOTS).status_code == 401


def test_a_revoked_token_is_good_for_nothing(program: Client) -> None:
    ApiToken.objects.update(revoked_at=timezone.now())

    assert program.get(SLOTS).status_code == 401


def test_an_expired_token_is_good_for_nothing(program: Client) -> None:
    ApiToken.objects.update(expires_at=timezone.now() - dt.timedelta(seconds=1))

    assert program.get(SLOTS).status_code == 401


def test_a_closed_account_closes_its_tokens(program: Client, user: User) -> None:
    User.objects.update(is_active=False)

    assert program.get(SLOTS).status_code == 401


def test_the_store_does_not_hold_the_token(user: User) -> None:
    token, row = make_token(user, "export", days=1)

    assert token not in str(ApiToken.objects.values().get())
    assert good_token(token) == row


def test_its_use_is_noted(program: Client) -> None:
    assert ApiToken.objects.get().last_used_at is None

    program.get(SLOTS)

    assert ApiToken.objects.get().last_used_at is not None


def test_the_documentation_needs_a_login(db, user: User) -> None:
    browser = Client()
    assert browser.get("/api/v1/docs").status_code == 302
    browser.force_login(user)

    page = browser.get("/api/v1/docs")

    assert page.status_code == 200
    assert b"http://" not in page.content
    assert b"https://" not in page.content


def test_every_call_is_described(program: Client) -> None:
    paths = program.get("/api/v1/openapi.json").json()["paths"]

    for path, calls in paths.items():
        assert set(calls) <= {"get", "post", "put", "patch", "delete"}, path
        assert all(call.get("description") for call in calls.values()), path
