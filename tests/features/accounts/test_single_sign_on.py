"""Single sign-on against a provider that runs: the whole code flow, and what is refused."""

import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client

from replview.access import single_sign_on
from replview.access.accounts import give_grant
from replview.access.rights import role_of
from replview.store.models import Source
from tests.features.accounts.provider import CLIENT, SECRET, Provider, running
from tests.support.people import make_user


@pytest.fixture
def provider(db, settings) -> Iterator[Provider]:
    """A provider that this replview is configured for."""
    with running() as server:
        settings.OIDC_ISSUER = server.issuer
        settings.OIDC_RP_CLIENT_ID, settings.OIDC_RP_CLIENT_SECRET = CLIENT, SECRET
        settings.OIDC_ROLES = "admin=dba;operator=dev,sre;viewer=staff"
        settings.AUTHENTICATION_BACKENDS = [
            *settings.AUTHENTICATION_BACKENDS,
            "replview.access.single_sign_on.SingleSignOn",
        ]
        single_sign_on._configurations.clear()
        yield server


def sign_in(client: Client, start: str = "/login/other/") -> HttpResponse:
    """Sign in as a browser does: follow the redirect to the provider, and the one back."""
    there = client.get(start)
    assert there.status_code == 302
    back = requests.get(there["Location"], allow_redirects=False, timeout=5).headers["Location"]
    parts = urlsplit(back)
    return client.get(f"{parts.path}?{parts.query}")


def test_the_login_page_offers_it_only_where_it_is_configured(db, provider, settings) -> None:
    assert "Sign in with single sign-on" in Client().get("/login/").content.decode()
    settings.OIDC_ISSUER = ""
    assert "single sign-on" not in Client().get("/login/").content.decode()
    assert Client().get("/login/other/").status_code == 404


def test_somebody_signs_in_and_gets_the_role_of_their_groups(provider: Provider) -> None:
    provider.person["groups"] = ["dev", "staff"]
    client = Client()

    answer = sign_in(client, "/login/other/?next=/slots/")

    assert answer["Location"] == "/slots/"
    assert "oidc_login_next" not in client.session
    user = User.objects.get()
    assert (user.username, role_of(user).word) == ("ada", "operator")
    assert not user.has_usable_password()
    assert client.get("/slots/").status_code == 200

    # The provider's word counts at each login.
    provider.person["groups"] = ["staff"]
    sign_in(Client())
    assert role_of(User.objects.get()).word == "viewer"
    provider.person["groups"] = []
    late = Client()
    sign_in(late)
    assert role_of(User.objects.get()) is None
    assert late.get("/").status_code == 403


def test_groups_of_the_provider_carry_grants(provider: Provider) -> None:
    shop = Source.objects.create(name="shop", conninfo="")
    give_grant(Group.objects.create(name="shop-team"), shop, ["public.*"])
    provider.person["groups"] = ["staff", "shop-team"]

    sign_in(Client())

    assert {group.name for group in User.objects.get().groups.all()} == {"viewer", "shop-team"}


def test_an_account_with_a_password_is_not_taken_over(provider: Provider) -> None:
    make_user("ada", "admin", password="of-somebody-else")
    provider.person["groups"] = ["dba"]
    client = Client()

    answer = sign_in(client)

    assert answer["Location"] == "/login/?sso=refused"
    assert "_auth_user_id" not in client.session
    assert "ask an admin" in client.get(answer["Location"]).content.decode()


@pytest.mark.parametrize("name", ["\ufb01do", "Fido"])
def test_nor_is_one_whose_name_only_looks_the_same(provider: Provider, name: str) -> None:
    user = make_user("fido", None)
    provider.person["preferred_username"] = name

    assert "sso=refused" in sign_in(Client())["Location"]
    assert not user.identities.exists()
    assert User.objects.count() == 1


def test_one_without_a_password_is_and_a_closed_one_stays_closed(provider: Provider) -> None:
    user = make_user("ada", None)
    provider.person["groups"] = ["sre"]
    sign_in(Client())
    assert role_of(User.objects.get()).word == "operator"

    User.objects.filter(pk=user.pk).update(is_active=False)
    assert "sso=refused" in sign_in(Client())["Location"]


@pytest.mark.parametrize(
    "claims",
    [{"aud": "another-client"}, {"iss": "http://elsewhere"}, {"nonce": "another"}, {"exp": 1},
     {"aud": [CLIENT, "x"], "azp": "x"}],
)  # fmt: skip
def test_a_token_that_is_not_for_us_is_refused(provider: Provider, claims: dict) -> None:
    provider.person["groups"] = ["dba"]
    provider.claims = claims
    client = Client()

    answer = sign_in(client)

    assert answer.status_code == 400 or "sso=" in answer["Location"]
    assert "_auth_user_id" not in client.session
    assert not User.objects.exists()


def test_a_sign_in_must_be_as_strong_and_as_late_as_is_asked_for(
    provider: Provider, settings
) -> None:
    settings.OIDC_ACR, settings.OIDC_MAX_AGE_SECONDS = ["mfa", "phr"], 600
    asked = parse_qs(urlsplit(Client().get("/login/other/")["Location"]).query)
    assert (asked["acr_values"], asked["max_age"]) == (["mfa phr"], ["600"])
    now = int(time.time())
    for claims, is_good in (
        ({}, False),
        ({"acr": "mfa"}, False),
        ({"acr": "password", "auth_time": now}, False),
        ({"acr": "mfa", "auth_time": now - 3600}, False),
        ({"acr": "phr", "auth_time": now - 60}, True),
    ):
        provider.claims = claims
        client = Client()
        sign_in(client)
        assert ("_auth_user_id" in client.session) is is_good, claims


def test_a_forged_token_or_somebody_elses_facts_are_refused(provider: Provider) -> None:
    provider.userinfo = {"sub": "p-2", "preferred_username": "root", "groups": ["dba"]}
    assert "sso=refused" in sign_in(Client())["Location"]

    provider.userinfo = {}
    provider.signing_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    answer = sign_in(Client())
    assert answer.status_code == 400 or "sso=" in answer["Location"]
    assert not User.objects.exists()


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_without_the_provider_s_signature_is_refused(
    provider: Provider, monkeypatch, algorithm: str
) -> None:
    """Unsigned, or signed with what every client knows."""
    claims = {"iss": provider.issuer, "aud": CLIENT, "sub": "p-1", "exp": 9_999_999_999}
    key = SECRET * 3 if algorithm == "HS256" else None
    monkeypatch.setattr(
        provider, "token",
        lambda nonce: jwt.encode(
            {**claims, "nonce": nonce}, key, algorithm=algorithm, headers={"kid": "k1"}
        ),
    )  # fmt: skip

    answer = sign_in(Client())

    assert answer.status_code == 400 or "sso=" in answer["Location"]
    assert not User.objects.exists()


def test_a_callback_that_nobody_began_signs_nobody_in(provider: Provider) -> None:
    client = Client()
    answer = client.get("/login/other/back/", {"code": "x", "state": "y"})
    assert answer["Location"] == "/login/?sso=refused"


def test_a_link_of_another_site_signs_nobody_out(provider: Provider) -> None:
    client = Client()
    client.force_login(make_user("bob", "viewer"))
    answer = client.get("/login/other/back/", {"error": "access_denied", "state": "y"})
    assert answer["Location"] == "/login/?sso=refused"
    assert client.get("/slots/").status_code == 200


def test_a_provider_that_is_away_is_said(provider: Provider, settings) -> None:
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    answer = Client().get("/login/other/")
    assert answer["Location"] == "/login/?sso=away"
    assert "cannot be reached" in Client().get(answer["Location"]).content.decode()
