"""The second factor: set up, asked for at the login, lost, turned off."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pyotp
import pytest
from axes.models import AccessAttempt
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import connection
from django.http import HttpResponse
from django.test import Client, RequestFactory

from replview.access import second_factor
from replview.access.accounts import sessions_of
from replview.access.first_admin import new_code
from replview.access.tokens import make_token
from replview.features.accounts.attempts import wrong_code
from replview.store.models import AccessRecord, AssignedPassword, SecondFactor
from replview.store.secrets import rotate_all, unseal
from tests.support.commands import run  # noqa: F401
from tests.support.people import make_user
from tests.support.searching import columns_holding

GOOD = "long-enough-and-odd-4711"
LOGIN = {"username": "vera", "password": GOOD}
SECRET = pyotp.random_base32()
SET_UP, OFF = "/accounts/me/second-factor/", "/accounts/me/second-factor/off/"


def code(*, steps: int = 0, secret: str = SECRET) -> str:
    """Return the code that the app shows ``steps`` times 30 seconds from now."""
    return pyotp.TOTP(secret).at(time.time() + 30 * steps)


@pytest.fixture
def vera(db) -> User:
    """An account with a password and no second factor."""
    return make_user("vera", "viewer", password=GOOD)


@pytest.fixture
def codes(vera: User) -> list[str]:
    """The recovery codes of vera, who has set up a second factor a minute ago."""
    codes = second_factor.set_up(vera, SECRET, code())
    SecondFactor.objects.update(last_step=int(time.time()) // 30 - 2)
    return codes


def is_signed_in(client: Client) -> bool:
    return client.get("/accounts/me/").status_code == 200


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def after_the_password() -> Client:
    client = Client()
    assert client.post("/login/", LOGIN)["Location"] == "/login/code/"
    return client


def secret_of(answer: HttpResponse) -> str:
    """The secret that a page offers."""
    found = re.search(r'data-copy="([A-Z2-7 ]{39})"', answer.content.decode())
    assert found is not None
    return found[1].replace(" ", "")


def shown_codes(answer: HttpResponse) -> list[str]:
    return re.findall(r"\b\d{6}(?:-\d{6}){5}\b", answer.content.decode())[:10]


def acts() -> list[str]:
    rows = AccessRecord.objects.filter(action="changed_settings").order_by("pk")
    return [row.details["act"] for row in rows]


class TestSetUp:
    """On one's own account."""

    def test_an_app_is_proved_and_recovery_codes_are_shown_once(self, vera: User) -> None:
        here, there = signed_in(vera), signed_in(vera)
        assert "Set up a second factor" in here.get("/accounts/me/").text
        page = here.get(SET_UP)
        secret = secret_of(page)
        assert secret_of(here.get(SET_UP)) == secret
        assert 'src="data:image/svg+xml' in page.text
        assert secret not in str(dict(here.session.items()))
        key = here.session.session_key

        done = here.post(SET_UP, {"old": GOOD, "code": code(secret=secret)})

        codes = shown_codes(done)
        assert len(set(codes)) == second_factor.RECOVERY_CODES
        assert (is_signed_in(here), is_signed_in(there)) == (True, False)
        assert here.session.session_key != key
        assert here.get(SET_UP)["Location"] == "/accounts/me/"
        own = here.get("/accounts/me/").text
        assert "10 recovery" in own
        assert not any(one in own for one in (*codes, secret))
        factor = SecondFactor.objects.get()
        assert unseal(factor.sealed_secret) == secret
        for one in (secret, *codes, codes[0].replace("-", "")):
            assert columns_holding(one) == []
        assert acts() == ["second factor set up"]

    def test_the_image_says_which_account_of_which_replview(self, vera: User) -> None:
        uri = pyotp.TOTP(SECRET).provisioning_uri(name="vera", issuer_name="replview db.example")
        assert unquote(uri).startswith("otpauth://totp/replview db.example:vera?")
        image = second_factor.qr_code(SECRET, vera, "db.example:8642")
        assert "style" not in image
        assert "script" not in image

    def test_it_takes_the_password_and_the_app_s_code(self, vera: User) -> None:
        client = signed_in(vera)
        secret = secret_of(client.get(SET_UP))
        wrong = client.post(SET_UP, {"old": "guess", "code": code(secret=secret)})
        assert (wrong.status_code, "current password is wrong" in wrong.text) == (422, True)
        for other in ("", "000", "12345a", code(secret=pyotp.random_base32())):
            answer = client.post(SET_UP, {"old": GOOD, "code": other})
            assert (answer.status_code, "not the code of this secret" in answer.text) == (422, True)
            assert secret_of(answer) == secret
        assert not second_factor.is_on(vera)

    def test_the_first_code_signs_nobody_in(self, vera: User) -> None:
        client = signed_in(vera)
        secret = secret_of(client.get(SET_UP))
        first = code(secret=secret)
        client.post(SET_UP, {"old": GOOD, "code": first})
        assert after_the_password().post("/login/code/", {"code": first}).status_code == 422

    def test_who_has_no_password_here_needs_none(self, vera: User) -> None:
        vera.set_unusable_password()
        vera.save()
        client = signed_in(vera)
        assert "Second factor" not in client.get("/accounts/me/").text
        assert client.get(SET_UP)["Location"] == "/accounts/me/"

    def test_a_changed_secret_key_takes_it_along(self, codes, settings) -> None:
        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
        settings.SECRET_KEY = "another-key-that-is-long-enough-to-be-one-0123456789"
        assert rotate_all() == (1, [])
        settings.SECRET_KEY_FALLBACKS = []
        assert unseal(SecondFactor.objects.get().sealed_secret) == SECRET


class TestLogin:
    """The code after the password."""

    def test_the_password_alone_opens_nothing(self, vera: User, codes) -> None:
        client = after_the_password()
        page = client.get("/login/code/").text
        for word in (
            'autocomplete="one-time-code"',
            'inputmode="numeric"',
            '<label for="id_code">',
            'aria-describedby="id_code_helptext"',
        ):
            assert word in page
        assert not is_signed_in(client)
        assert client.get("/api/v1/slots").status_code == 401
        assert sessions_of(vera) == []
        assert not AccessRecord.objects.filter(action="signed_in").exists()
        assert client.post("/accounts/me/password/", {"old": GOOD}).status_code == 302

    @pytest.mark.parametrize("steps", [-1, 0, 1])
    def test_the_app_s_code_signs_in_by_a_session_of_a_new_key(self, codes, steps: int) -> None:
        client = Client()
        client.post("/login/", LOGIN | {"next": "/slots/"})
        key = client.session.session_key

        answer = client.post("/login/code/", {"code": code(steps=steps)})

        assert answer["Location"] == "/slots/"
        assert is_signed_in(client)
        assert client.session.session_key != key
        assert AccessRecord.objects.filter(action="signed_in").count() == 1
        assert client.get("/login/code/")["Location"] == "/login/?late"

    @pytest.mark.parametrize("steps", [-3, 3])
    def test_the_code_of_another_time_does_not(self, codes, steps: int) -> None:
        client = after_the_password()
        SecondFactor.objects.update(last_step=0)
        answer = client.post("/login/code/", {"code": code(steps=steps)})
        assert (answer.status_code, "This code is wrong" in answer.text) == (422, True)
        assert not is_signed_in(client)
        row = AccessRecord.objects.get(action="sign_in_failed")
        assert (row.user_name, row.details) == ("vera", {"step": "second factor"})

    def test_no_code_is_good_twice(self, codes) -> None:
        used = code()
        assert after_the_password().post("/login/code/", {"code": used}).status_code == 302
        again = after_the_password()
        assert again.post("/login/code/", {"code": used}).status_code == 422
        # The one before it was not used, and is over all the same.
        assert again.post("/login/code/", {"code": code(steps=-1)}).status_code == 422
        assert again.post("/login/code/", {"code": code(steps=1)}).status_code == 302

    def test_each_recovery_code_signs_in_once(self, codes) -> None:
        assert after_the_password().post("/login/code/", {"code": codes[3]}).status_code == 302
        spaced = codes[4].replace("-", "  ")
        assert after_the_password().post("/login/code/", {"code": spaced}).status_code == 302
        again = after_the_password()
        assert again.post("/login/code/", {"code": codes[3]}).status_code == 422
        assert not is_signed_in(again)
        assert len(SecondFactor.objects.get().recovery_digests) == 8
        used = AccessRecord.objects.filter(details__act="recovery code used").order_by("pk")
        assert [row.details["codes_left"] for row in used] == [9, 8]
        assert columns_holding(codes[3]) == []

    def test_wrong_codes_lock_like_wrong_passwords(self, codes) -> None:
        client = after_the_password()
        for _ in range(5):
            answer = client.post("/login/code/", {"code": "PLANTED"})
        assert answer.status_code == 429
        assert "Too many failed attempts. Try again in" in answer.text
        assert int(answer["Retry-After"]) > 800
        # Neither the right code nor another start with the password is let through.
        assert client.post("/login/code/", {"code": code()}).status_code == 429
        assert client.post("/login/code/", {"code": codes[0]}).status_code == 429
        assert Client().post("/login/", LOGIN).status_code == 429
        assert columns_holding("PLANTED") == []
        # From elsewhere she is not locked out.
        there = Client(REMOTE_ADDR="10.1.1.1")
        there.post("/login/", LOGIN)
        assert there.post("/login/code/", {"code": code()}).status_code == 302

    def test_starting_again_with_the_password_forgets_no_wrong_code(self, codes) -> None:
        for _ in range(4):
            after_the_password().post("/login/code/", {"code": "000000"})
        assert after_the_password().post("/login/code/", {"code": "000000"}).status_code == 429

    def test_many_wrong_codes_from_everywhere_leave_the_recovery_codes(self, codes) -> None:
        SecondFactor.objects.update(failures=second_factor.MOST_FAILURES)
        client = after_the_password()
        answer = client.post("/login/code/", {"code": code()})
        assert "Use a recovery code" in answer.text
        assert client.post("/login/code/", {"code": codes[0]}).status_code == 302
        assert SecondFactor.objects.get().failures == 0

    def test_without_the_secret_key_recovery_codes_are_good(self, codes, settings) -> None:
        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
        client = after_the_password()
        SecondFactor.objects.update(sealed_secret="x")
        answer = client.post("/login/code/", {"code": code()})
        assert "REPLVIEW_SECRET_KEY has changed" in answer.text
        assert client.post("/login/code/", {"code": codes[0]}).status_code == 302

    def test_a_program_with_a_token_is_asked_for_none(self, vera: User, codes, settings) -> None:
        settings.REQUIRE_SECOND_FACTOR = "all"
        token, _ = make_token(vera, "script")
        program = Client(headers={"Authorization": f"Bearer {token}"})
        assert program.get("/api/v1/slots").status_code == 200

    def test_another_password_of_an_admin_leaves_it_on(self, vera: User, codes) -> None:
        admin = signed_in(make_user("root", "admin"))
        admin.post(f"/accounts/{vera.pk}/password/", {"password": GOOD + "!"})
        client = Client()
        answer = client.post("/login/", LOGIN | {"password": GOOD + "!"})
        assert answer["Location"] == "/login/code/"
        assert client.get("/login/password/")["Location"] == "/login/?late"
        assert client.post("/login/code/", {"code": code()})["Location"] == "/login/password/"
        new = {"password": GOOD + "?", "again": GOOD + "?"}
        assert client.post("/login/password/", new)["Location"] == "/"
        assert is_signed_in(client)


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_with_one_code_one_is_let_in() -> None:
    vera = make_user("vera", "viewer", password=GOOD)
    second_factor.set_up(vera, SECRET, code())
    SecondFactor.objects.update(last_step=0)
    used, start = code(), threading.Barrier(4)

    def enter(_: int) -> str:
        request = RequestFactory().post("/login/code/")
        start.wait(10)
        try:
            return wrong_code(request, vera, used)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        refusals = list(pool.map(enter, range(4)))

    assert refusals.count("") == 1
    assert AccessAttempt.objects.get().failures_since_start == 3


class TestRequired:
    """REPLVIEW_REQUIRE_SECOND_FACTOR."""

    @pytest.mark.parametrize(
        ("required", "role", "step"),
        [("", "admin", "/"), ("admins", "viewer", "/"),
         ("admins", "admin", "/login/second-factor/"), ("all", "viewer", "/login/second-factor/")],
    )  # fmt: skip
    def test_it_says_who_has_to(self, db, settings, required, role, step) -> None:
        settings.REQUIRE_SECOND_FACTOR = required
        make_user("vera", role, password=GOOD)
        assert Client().post("/login/", LOGIN)["Location"] == step

    def test_it_is_set_up_before_anything_else(self, vera: User, settings) -> None:
        settings.REQUIRE_SECOND_FACTOR = "all"
        client = Client()
        client.post("/login/", LOGIN | {"next": "/slots/"})
        assert not is_signed_in(client)
        secret = secret_of(client.get("/login/second-factor/"))
        wrong = client.post("/login/second-factor/", {"code": "123"})
        assert (wrong.status_code, secret_of(wrong)) == (422, secret)
        key = client.session.session_key

        done = client.post("/login/second-factor/", {"code": code(secret=secret)})

        assert len(shown_codes(done)) == 10
        assert 'href="/slots/"' in done.text
        assert is_signed_in(client)
        assert client.session.session_key != key
        assert Client().post("/login/", LOGIN)["Location"] == "/login/code/"

    def test_after_the_password_that_an_admin_set(self, vera: User, settings) -> None:
        settings.REQUIRE_SECOND_FACTOR = "all"
        signed_in(make_user("root", "admin")).post(
            f"/accounts/{vera.pk}/password/", {"password": GOOD + "!"}
        )
        client = Client()
        answer = client.post("/login/", LOGIN | {"password": GOOD + "!"})
        assert answer["Location"] == "/login/password/"
        assert client.get("/login/second-factor/")["Location"] == "/login/?late"
        new = {"password": GOOD + "?", "again": GOOD + "?"}
        assert client.post("/login/password/", new)["Location"] == "/login/second-factor/"
        assert not AssignedPassword.objects.exists()
        assert not is_signed_in(client)

    def test_the_first_admin_too(self, db, settings) -> None:
        settings.REQUIRE_SECOND_FACTOR = "admins"
        client = Client()
        form = {"name": "root", "password": GOOD, "again": GOOD}
        answer = client.post(f"/setup/{new_code()}/", form)
        assert answer["Location"] == "/login/second-factor/"
        assert client.get("/").status_code == 302

    def test_without_it_nobody_has_to(self) -> None:
        assert django_settings.REQUIRE_SECOND_FACTOR == ""

    def test_another_word_is_refused(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", "import replview.settings"],
            env={**os.environ, "REPLVIEW_REQUIRE_SECOND_FACTOR": "everybody"},
            capture_output=True,
            text=True,
        )
        assert "REPLVIEW_REQUIRE_SECOND_FACTOR is 'admins', 'all' or empty" in done.stderr


class TestEnd:
    """Turned off by its owner, or removed for somebody who lost the app."""

    def test_it_is_turned_off_by_who_has_the_password_and_a_code(self, vera: User, codes) -> None:
        here, there = signed_in(vera), signed_in(vera)
        for old, typed, why in (
            ("guess", code(), "password is wrong"),
            (GOOD, "1", "code is wrong"),
        ):
            answer = here.post(OFF, {"old": old, "code": typed})
            assert (answer.status_code, why in answer.text) == (422, True)
        assert second_factor.is_on(vera)

        assert here.post(OFF, {"old": GOOD, "code": code()})["Location"] == "/login/"

        assert not second_factor.is_on(vera)
        assert not is_signed_in(here)
        assert not is_signed_in(there)
        assert Client().post("/login/", LOGIN)["Location"] == "/"
        assert acts() == ["second factor set up", "second factor removed"]

    def test_a_recovery_code_turns_it_off_too(self, vera: User, codes) -> None:
        signed_in(vera).post(OFF, {"old": GOOD, "code": codes[0]})
        assert not second_factor.is_on(vera)

    def test_an_admin_removes_another_account_s(self, vera: User, codes) -> None:
        root = make_user("root", "admin", password=GOOD)
        admin, browser = signed_in(root), signed_in(vera)
        address = f"/accounts/{vera.pk}/second-factor/remove/"
        assert browser.post(address).status_code == 403
        assert "Remove it, sign out" in admin.get(f"/accounts/{vera.pk}/").text

        assert admin.post(address).status_code == 302

        assert not second_factor.is_on(vera)
        assert not is_signed_in(browser)
        record = AccessRecord.objects.get(details__act="second factor removed")
        assert (record.user_name, record.subject) == ("root", "account vera")
        again = admin.post(address)
        assert (again.status_code, "has no second factor" in again.text) == (422, True)

    def test_an_admin_s_own_takes_password_and_code(self, db) -> None:
        root = make_user("root", "admin", password=GOOD)
        second_factor.set_up(root, SECRET, code())
        admin = signed_in(root)
        answer = admin.post(f"/accounts/{root.pk}/second-factor/remove/")
        assert (answer.status_code, second_factor.is_on(root)) == (422, True)

    def test_the_command_is_for_the_last_admin(
        self,
        vera: User,
        codes,
        run: Callable[..., str],  # noqa: F811
        settings,
    ) -> None:
        settings.STORE_URL = "postgresql://the-test-store/"
        browser = signed_in(vera)
        assert "yes" in run("account", "list")
        assert "is signed out" in run("account", "remove-second-factor", "vera")
        assert (second_factor.is_on(vera), is_signed_in(browser)) == (False, False)
        assert AccessRecord.objects.get(details__act="second factor removed").via == "command"
        with pytest.raises(CommandError, match="no second factor"):
            run("account", "remove-second-factor", "vera")
