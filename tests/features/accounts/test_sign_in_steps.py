"""After the right password, a login may need a new password or a second factor."""

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from replview.access.accounts import change_password, create_account, sessions_of
from replview.access.rights import Role
from replview.features.accounts import sign_in_steps
from replview.features.accounts.pages import build_account_page
from replview.store.models import AccessRecord, AssignedPassword
from tests.support.commands import run  # noqa: F401
from tests.support.people import make_user

GIVEN, OWN = "given-by-an-admin-4711", "chosen-by-vera-0815-x"
LOGIN = {"username": "vera", "password": GIVEN}


@pytest.fixture
def vera(db) -> User:
    """An account whose password an admin set."""
    return create_account("vera", Role.VIEWER, GIVEN)


def is_signed_in(client: Client) -> bool:
    return client.get("/accounts/me/").status_code == 200


class TestAssignedPasswords:
    """A password that an admin set."""

    def test_it_is_changed_before_anything_else(self, vera: User) -> None:
        client = Client()
        answer = client.post("/login/?next=/slots/", LOGIN | {"next": "/slots/"})
        assert answer["Location"] == "/login/password/"
        assert client.get("/login/password/").status_code == 200
        assert not is_signed_in(client)
        assert client.get("/api/v1/slots").status_code == 401
        assert sessions_of(vera) == []
        key = client.session.session_key

        answer = client.post("/login/password/", {"password": OWN, "again": OWN})

        assert answer["Location"] == "/slots/"
        assert is_signed_in(client)
        assert client.session.session_key != key
        assert client.session.get_expire_at_browser_close() is False
        assert client.session.get_expiry_age() > 86400
        assert User.objects.get().check_password(OWN)
        assert not AssignedPassword.objects.exists()
        again = Client().post("/login/", LOGIN | {"password": OWN})
        assert again["Location"] == "/"

    def test_another_one_must_be_chosen(self, vera: User) -> None:
        client = Client()
        client.post("/login/", LOGIN)
        for new, again, why in (
            (GIVEN, GIVEN, "An admin knows this password."),
            (OWN, OWN + "x", "The two passwords differ."),
            ("short", "short", "too short"),
        ):
            answer = client.post("/login/password/", {"password": new, "again": again})
            assert (answer.status_code, why in answer.text) == (422, True)
        assert not is_signed_in(client)
        assert User.objects.get().check_password(GIVEN)

    def test_it_expires(self, vera: User) -> None:
        in_time = AssignedPassword.objects.get().expires_at - timezone.now()
        assert dt.timedelta(hours=71) < in_time <= dt.timedelta(hours=72)
        AssignedPassword.objects.update(expires_at=timezone.now())
        client = Client()

        answer = client.post("/login/", LOGIN)

        assert "has expired. Ask an admin to set another one." in answer.text
        assert not is_signed_in(client)
        record = AccessRecord.objects.get(action="sign_in_failed")
        assert (record.user_name, record.details) == ("vera", {"why": "password expired"})
        admin = Client()
        admin.force_login(make_user("root", "admin"))
        assert "has expired: set another one" in admin.get(f"/accounts/{vera.pk}/").text
        admin.post(f"/accounts/{vera.pk}/password/", {"password": GIVEN + "!"})
        again = client.post("/login/", LOGIN | {"password": GIVEN + "!"})
        assert again["Location"] == "/login/password/"

    def test_an_admin_who_sets_it_for_another_account_marks_it(self, db) -> None:
        root, vera = make_user("root", "admin"), make_user("vera", "viewer", password=OWN)
        admin = Client()
        admin.force_login(root)
        admin.post("/accounts/", {"name": "otto", "role": "viewer", "password": GIVEN})
        admin.post("/accounts/", {"name": "sso", "role": "viewer", "password": ""})
        admin.post(f"/accounts/{vera.pk}/password/", {"password": GIVEN})
        marked = AssignedPassword.objects.values_list("user__username", flat=True)
        assert set(marked) == {"otto", "vera"}
        assert build_account_page(vera).assigned_until is not None
        assert "has to change it at the next sign-in" in admin.get(f"/accounts/{vera.pk}/").text
        admin.post(f"/accounts/{root.pk}/password/", {"password": GIVEN})
        assert not AssignedPassword.objects.filter(user=root).exists()

    def test_commands_mark_it(self, db, run, settings, monkeypatch) -> None:  # noqa: F811
        settings.STORE_URL = "postgresql://the-test-store/"
        monkeypatch.setattr("sys.stdin", type("In", (), {"readline": lambda self: GIVEN})())
        monkeypatch.setattr("getpass.getpass", lambda **_: GIVEN)
        told = run("account", "add", "vera", "--role", "viewer", "--password-stdin")
        assert "has to change the password at the first sign-in" in told
        for words in (["account", "password", "vera", "--password-stdin"],
                      ["changepassword", "vera"]):  # fmt: skip
            AssignedPassword.objects.all().delete()
            run(*words)
            assert AssignedPassword.objects.get().user.username == "vera"


class TestUnfinished:
    """A sign-in that is not at its end."""

    def test_it_ends_when_it_takes_too_long(self, vera: User, monkeypatch) -> None:
        client = Client()
        client.post("/login/", LOGIN)
        monkeypatch.setattr(sign_in_steps, "_PENDING_SECONDS", -1)

        answer = client.post("/login/password/", {"password": OWN, "again": OWN}, follow=True)

        assert "Sign in again." in answer.text
        assert User.objects.get().check_password(GIVEN)

    def test_it_ends_when_the_account_changes(self, vera: User) -> None:
        for end in (
            lambda: change_password(vera, OWN, by_owner=False),
            lambda: User.objects.update(is_active=False),
        ):
            client = Client()
            client.post("/login/", LOGIN)
            assert client.get("/login/password/").status_code == 200
            end()
            assert client.get("/login/password/")["Location"] == "/login/?late"
            LOGIN["password"] = OWN
        LOGIN["password"] = GIVEN

    def test_nobody_is_at_a_step_without_a_password(self, db) -> None:
        assert Client().get("/login/password/")["Location"] == "/login/?late"

    def test_who_was_signed_in_is_so_no_more(self, vera: User) -> None:
        client = Client()
        client.force_login(make_user("otto"))
        client.post("/login/", LOGIN)
        assert not is_signed_in(client)
