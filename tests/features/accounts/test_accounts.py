"""Accounts: made, changed, closed; passwords, sessions, tokens, limits; the first admin."""

import datetime as dt
import html
import re
import threading
import time

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from replview.access import first_admin
from replview.access.accounts import AccountProblem, close_account, sessions_of
from replview.access.rights import (
    Role,
    admins,
    ensure_roles,
    may,
    role_of,
    sees_source,
    table_patterns,
    users_with_rights,
    visible_sources,
)
from replview.access.session_policy import forget_ended
from replview.access.tokens import good_token, make_token
from replview.features.accounts.pages import OwnPage, build_account_page, build_accounts_page
from replview.store.models import AccessRecord, ApiToken, Grant, SetupCode, Source
from replview.ui.sentence import Sentence
from tests.support.commands import run  # noqa: F401
from tests.support.people import make_user
from tests.support.searching import columns_holding

GOOD = "long-enough-and-odd-4711"


@pytest.fixture
def admin(db) -> Client:
    """The browser of an admin."""
    client = Client()
    client.force_login(make_user("root", "admin", password=GOOD))
    return client


def text_of(answer) -> str:
    """Return a page's text without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())


class TestRights:
    """Grants give roles and visibility."""

    def test_they_add_up_over_groups_and_are_read_in_one_query(
        self, db, django_assert_num_queries
    ) -> None:
        shop, bank = (Source.objects.create(name=name, conninfo="") for name in ("shop", "bank"))
        user = make_user("vera", "viewer", sources=[shop], tables=["public.*"])
        team = Group.objects.create(name="team")
        user.groups.add(team)
        Grant.objects.create(group=team, source=bank, tables=[])

        with django_assert_num_queries(1):
            user = users_with_rights().get(pk=user.pk)
            assert visible_sources(user) == {shop.pk, bank.pk}
            assert table_patterns(user) == {shop.pk: ("public.*",), bank.pk: ("*",)}
            assert may(user, Role.VIEWER, shop.pk)
            assert not may(user, Role.OPERATOR, shop.pk)

    def test_patterns_for_every_source_count_for_each(self, db) -> None:
        shop = Source.objects.create(name="shop", conninfo="")
        user = make_user("vera", "viewer", sources=[])
        Grant.objects.create(user=user, source=None, tables=["public.a*"])
        Grant.objects.create(user=user, source=shop, tables=["s.b"])
        assert visible_sources(user) is None
        assert table_patterns(user) == {shop.pk: ("public.a*", "s.b")}

    def test_without_a_grant_nothing_is_seen_and_an_admin_sees_all(self, db) -> None:
        nobody, root = make_user("n", "operator", sources=[]), make_user("r", "admin")
        assert visible_sources(nobody) == frozenset()
        assert table_patterns(nobody) == {}
        assert not sees_source(nobody, 1)
        assert visible_sources(root) is None

    def test_a_closed_account_may_nothing(self, db) -> None:
        user = make_user("gone", "admin")
        user.is_active = False
        assert role_of(user) is None


def test_an_admin_makes_changes_and_closes_accounts(admin: Client) -> None:
    weak = admin.post("/accounts/", {"name": "vera", "role": "viewer", "password": "12345"})
    assert weak.status_code == 422
    assert "too short" in text_of(weak)
    admin.post("/accounts/", {"name": "vera", "role": "viewer", "password": GOOD})
    vera = User.objects.get(username="vera")
    assert role_of(vera) is Role.VIEWER

    admin.post(f"/accounts/{vera.pk}/role/", {"role": "operator"})
    assert role_of(User.objects.get(pk=vera.pk)) is Role.OPERATOR
    browser = Client()
    assert browser.login(username="vera", password=GOOD, request=_request()) is True
    assert browser.get("/").status_code == 200
    token, _ = make_token(vera, "script")
    assert good_token(token) is not None
    admin.post(f"/accounts/{vera.pk}/active/", {"active": "0"})
    assert browser.get("/").status_code == 302
    acts = AccessRecord.objects.filter(action="changed_settings", subject="account vera")
    assert [row.details["act"] for row in acts.order_by("pk")] == [
        "account created", "role changed", "account closed",
    ]  # fmt: skip
    [row] = [row for row in build_accounts_page().rows if row.user == vera]
    assert (row.user.is_active, row.role) == (False, "")
    assert "closed" in text_of(admin.get("/accounts/"))
    closed = build_account_page(User.objects.get(pk=vera.pk)).sentence
    assert (closed.level, closed.title) == ("idle", "vera is closed.")
    admin.post(f"/accounts/{vera.pk}/active/", {"active": "1"})
    assert good_token(token) is None


def _request():
    from django.test import RequestFactory

    return RequestFactory().post("/login/")


def test_the_list_says_who_lacks_a_role(admin: Client) -> None:
    make_user("<b>vera", "viewer")
    page = build_accounts_page()
    assert page.sentence == Sentence(level="ok", title="2 accounts.", cause="1 admin among them.")
    assert [(row.user.username, row.role) for row in page.rows] == [
        ("<b>vera", "viewer"), ("root", "admin"),
    ]  # fmt: skip
    assert [row.role for row in page.groups] == list(Role)
    make_user("new", None)
    sentence = build_accounts_page().sentence
    assert (sentence.level, sentence.title) == ("look", "1 account has no role yet.")
    assert sentence.next == "give each a role, or close unused accounts."
    shown = admin.get("/accounts/").text
    assert "1 account has no role yet." in shown
    assert "&lt;b&gt;vera</a>" in shown
    assert "<b>vera" not in shown


def test_an_account_says_what_it_may_and_where_it_is_used(admin: Client) -> None:
    shop = Source.objects.create(name="<i>shop", conninfo="")
    vera = make_user("<b>vera", "viewer", sources=[shop])
    make_token(vera, "<u>script")
    page = build_account_page(vera)
    assert page.sentence == Sentence(level="ok", title="<b>vera has the role viewer.")
    assert (page.groups, page.sessions, page.failures, page.issuers) == ([], [], 0, [])
    assert [token.name for token in page.tokens] == ["<u>script"]
    assert [grant.source for grant in page.own_grants] == [shop]
    nobody = build_account_page(make_user("new", None)).sentence
    assert (nobody.level, nobody.title) == ("look", "new has no role and sees nothing.")
    shown = admin.get(f"/accounts/{vera.pk}/").text
    assert "&lt;b&gt;vera has the role viewer." in shown
    assert "&lt;u&gt;script" in shown
    assert "&lt;i&gt;shop" in shown
    assert not any(tag in shown for tag in ("<b>vera", "<u>script", "<i>shop"))


def test_the_last_admin_stays(admin: Client) -> None:
    root = User.objects.get(username="root")
    for url, data in (("role", {"role": "viewer"}), ("active", {"active": "0"})):
        answer = admin.post(f"/accounts/{root.pk}/{url}/", data)
        assert answer.status_code == 422
        assert "last admin" in text_of(answer)
    make_user("second", "admin")
    assert admin.post(f"/accounts/{root.pk}/role/", {"role": "viewer"}).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_close_each_other_at_once_leave_one() -> None:
    one, two = make_user("one", "admin"), make_user("two", "admin")
    refused: list[AccountProblem] = []

    def close_the_first() -> None:
        try:
            close_account(User.objects.get(pk=one.pk))
        except AccountProblem as problem:
            refused.append(problem)
        finally:
            connection.close()

    with transaction.atomic():
        close_account(two)
        other = threading.Thread(target=close_the_first)
        other.start()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type='Lock'")
                if cursor.fetchone() != (0,):
                    break
            time.sleep(0.02)
    other.join(10)

    assert len(refused) == 1
    assert list(admins()) == [one]


def test_a_name_is_taken_in_whatever_letters_it_is_written(admin: Client) -> None:
    make_user("fido", "viewer")
    answer = admin.post("/accounts/", {"name": "\ufb01do", "role": "viewer", "password": GOOD})
    assert (answer.status_code, "an account fido already" in text_of(answer)) == (422, True)


def test_grants_are_given_and_taken(admin: Client) -> None:
    shop = Source.objects.create(name="shop", conninfo="")
    vera = make_user("vera", "viewer", sources=[])
    wrong = admin.post("/accounts/grants/", {"user": vera.pk, "source": "shop", "tables": "x"})
    assert "write schema.table" in text_of(wrong)
    assert 'aria-describedby="id_tables_helptext id_tables_error"' in wrong.text
    admin.post("/accounts/grants/", {"user": vera.pk, "source": "shop", "tables": "public.*"})
    grant = Grant.objects.get(user=vera)
    assert (grant.source, grant.tables, grant.created_by) == (shop, ["public.*"], "root")
    assert build_account_page(vera).own_grants == [grant]
    assert "public.*" in text_of(admin.get(f"/accounts/{vera.pk}/"))
    admin.post(f"/accounts/grants/{grant.pk}/remove/")
    assert not Grant.objects.filter(user=vera).exists()
    admin.post("/accounts/grants/", {"group": "team", "source": "shop", "tables": ""})
    assert Grant.objects.get(group__name="team").source == shop
    admin.post("/accounts/grants/", {"group": "crew", "source": "shop", "tables": "x"})
    assert not Group.objects.filter(name="crew").exists()


def own_page(user: User) -> OwnPage:
    """The page of somebody's own account."""
    client = Client()
    client.force_login(user)
    page = client.get("/accounts/me/").context["page"]
    assert isinstance(page, OwnPage)
    return page


class TestOnesOwn:
    """One's own account."""

    def test_it_says_what_the_account_may_and_sees(self, db) -> None:
        shop = Source.objects.create(name="<i>shop", conninfo="")
        user = make_user("vera", "viewer", sources=[shop])
        make_token(user, "<u>script")
        page = own_page(user)
        assert page.sentence == Sentence(level="ok", title="vera, you have the role viewer.")
        assert (page.everything, [grant.source for grant in page.grants]) == (False, [shop])
        assert [token.name for token in page.tokens] == ["<u>script"]
        assert [session.is_here for session, _ in page.sessions] == [True]
        assert "operate" not in [scope for scope, _ in page.token_form.scopes]
        nobody = own_page(make_user("new", None))
        assert nobody.sentence.title == "Your account has no role yet."
        assert own_page(make_user("ann", "admin")).everything
        client = Client()
        client.force_login(user)
        shown = client.get("/accounts/me/").text
        assert "vera, you have the role viewer." in shown
        assert "&lt;u&gt;script" in shown
        assert "&lt;i&gt;shop" in shown
        assert "<u>script" not in shown
        assert "<i>shop" not in shown

    def test_each_error_stands_beside_its_field(self, db) -> None:
        client = Client()
        client.force_login(make_user("vera", "viewer", password=GOOD))
        token = {"name": "", "scope": "all", "days": "0"}
        typed = {"old": "x", "password": GOOD, "again": "other"}
        for address, sent, errors in (
            ("tokens", token, {"name": "Enter a name, such", "scope": "Choose a scope.",
                               "days": "Days from 1 to 3650"}),
            ("password", typed, {"old": "password is wrong", "again": "The two passwords differ."}),
        ):  # fmt: skip
            answer = client.post(f"/accounts/me/{address}/", sent)
            assert answer.status_code == 422
            page = " ".join(answer.text.split())
            for name, error in errors.items():
                assert f'aria-describedby="id_{name}_error"' in page
                assert error in page.partition(f'id="id_{name}_error"')[2][:600]
            assert GOOD not in page

    def test_a_new_password_signs_every_other_browser_out(self, db) -> None:
        user = make_user("vera", "viewer", password=GOOD)
        here, there = Client(), Client()
        here.force_login(user)
        there.force_login(user)
        token, _ = make_token(user, "script")
        wrong = here.post("/accounts/me/password/", {"old": "x", "password": GOOD, "again": GOOD})
        assert wrong.status_code == 422
        assert good_token(token) is not None
        new = "another-long-odd-0815"

        here.post("/accounts/me/password/", {"old": GOOD, "password": new, "again": new})

        assert User.objects.get().check_password(new)
        assert here.get("/accounts/me/").status_code == 200
        assert there.get("/accounts/me/").status_code == 302
        assert len(sessions_of(user)) == 1
        assert good_token(token) is None
        here.post("/accounts/me/sign-out/")
        assert sessions_of(user) == []

    def test_whoever_ends_their_own_session_is_sent_to_the_login(self, admin: Client) -> None:
        make_user("second", "admin")
        root = User.objects.get(username="root")
        acts = ("/accounts/me/sign-out/", {}), (f"/accounts/{root.pk}/sign-out/", {}), (
            f"/accounts/{root.pk}/password/", {"password": GOOD + "!"}), (
            f"/accounts/{root.pk}/active/", {"active": "0"})  # fmt: skip
        for address, sent in acts:
            admin.force_login(root)
            session = admin.session
            # Move the session's last activity back, so that this request notes it anew.
            session["active_at"] -= 3600
            session.save()
            answer = admin.post(address, sent, follow=True)
            assert answer.status_code == 200, address
            assert answer.redirect_chain[-1][0].startswith("/login/"), address

    def test_a_token_is_shown_once_and_never_exceeds_the_role(self, db) -> None:
        vera = Client()
        vera.force_login(make_user("vera", "viewer"))
        wanted = {"name": "feed", "scope": "export", "days": "30"}
        assert "needs the role operator" in text_of(vera.post("/accounts/me/tokens/", wanted))
        answer = vera.post("/accounts/me/tokens/", wanted | {"scope": "read"})
        token = re.search(r"rv_[\w-]{20,}", answer.content.decode())[0]
        assert token not in vera.get("/accounts/me/").content.decode()
        program = Client(headers={"Authorization": f"Bearer {token}"})
        assert program.get("/api/v1/slots").status_code == 200
        row = ApiToken.objects.get()
        assert row.expires_at is not None
        vera.post(f"/accounts/me/tokens/{row.pk}/revoke/")
        assert program.get("/api/v1/slots").status_code == 401
        vera.post("/accounts/me/tokens/", wanted)
        assert ApiToken.objects.get().pk == row.pk, "what was refused took nothing away"

    def test_anothers_token_is_not_ones_own(self, db) -> None:
        _, row = make_token(make_user("otto"), "x")
        vera = Client()
        vera.force_login(make_user("vera", "viewer"))
        assert vera.post(f"/accounts/me/tokens/{row.pk}/revoke/").status_code == 404


@pytest.mark.parametrize(
    ("scope", "reads", "exports", "operates"),
    [("metrics", 403, 403, 403), ("read", 200, 403, 403), ("export", 200, 400, 403),
     ("operate", 200, 400, 404)],
)  # fmt: skip
def test_a_token_is_good_for_its_scope_alone(db, scope, reads, exports, operates) -> None:
    token, _ = make_token(make_user("otto"), "x", scope=scope)
    program = Client(headers={"Authorization": f"Bearer {token}"})
    json = "application/json"
    assert program.get("/api/v1/slots").status_code == reads
    assert program.post("/api/v1/exports", {"x": 1}, content_type=json).status_code == exports
    asked = program.post("/api/v1/slots/a/b/stop", {}, content_type=json)
    assert asked.status_code == operates
    # Pages are for browsers.
    assert program.get("/slots/").status_code == 302


def test_a_token_of_somebody_whose_role_was_taken_is_good_for_nothing(db) -> None:
    user = make_user("otto")
    token, _ = make_token(user, "x")
    program = Client(headers={"Authorization": f"Bearer {token}"})
    user.groups.clear()
    assert program.get("/api/v1/slots").status_code == 403


class TestSessions:
    """A login ends by age and by idleness."""

    @pytest.mark.parametrize(("name", "seconds"), [("signed_in_at", 8 * 86400),
                                                   ("active_at", 2 * 86400)])  # fmt: skip
    def test_it_ends_by_age_and_by_idleness(self, db, name, seconds) -> None:
        client = Client()
        client.force_login(make_user("vera", "viewer"))
        assert client.get("/slots/").status_code == 200
        session = client.session
        session[name] -= seconds
        session.save()
        assert client.get("/slots/").status_code == 302
        assert not Session.objects.exists()

    def test_a_program_with_a_token_is_no_session(self, db) -> None:
        user = make_user("otto")
        token, _ = make_token(user, "x")
        client = Client()
        client.force_login(user)
        session = client.session
        session["signed_in_at"] -= 8 * 86400
        session.save()
        headers = {"Authorization": f"Bearer {token}"}
        assert client.get("/api/v1/slots", headers=headers).status_code == 200
        assert Session.objects.exists()

    def test_a_page_that_asks_by_itself_keeps_nobody_signed_in(self, db) -> None:
        client = Client()
        client.force_login(make_user("vera", "viewer"))
        session = client.session
        session["active_at"] -= 3600
        session.save()
        before = client.session["active_at"]
        client.get("/shell/health/")
        polled = {"HX-Request": "true", "HX-Current-URL": "http://testserver/slots/?x=1"}
        client.get("/slots/", headers=polled)
        assert client.session["active_at"] == before
        client.get("/slots/")
        assert client.session["active_at"] > before


class TestLimits:
    """Failed logins."""

    def test_who_fails_too_often_is_told_when_to_try_again(self, db) -> None:
        make_user("vera", "viewer", password=GOOD)
        client = Client()
        for _ in range(5):
            answer = client.post("/login/", {"username": "vera", "password": "wrong"})
        assert answer.status_code == 429
        assert "Try again in 14 min" in text_of(answer) or "15 min" in text_of(answer)
        assert int(answer["Retry-After"]) > 800
        good = {"username": "vera", "password": GOOD}
        assert client.post("/login/", good).status_code == 429
        # From elsewhere she is not locked out.
        assert Client(REMOTE_ADDR="10.1.1.1").post("/login/", good).status_code == 302
        AccessAttempt.objects.update(attempt_time=timezone.now() - dt.timedelta(minutes=16))
        assert client.post("/login/", good).status_code == 302

    def test_what_was_typed_is_kept_nowhere(self, db) -> None:
        make_user("vera", "viewer", password=GOOD)
        at = "/login/?next=/rows/%3Fkey.mail%3DPLANTED-key"
        Client().post(at, {"username": "vera", "password": "PLANTED-1", "next": "/?q=PLANTED-2"})
        own = Client()
        own.force_login(User.objects.get())
        typed = {"old": "PLANTED-3", "password": "PLANTED-4", "again": "PLANTED-5"}
        assert own.post("/accounts/me/password/", typed).status_code == 422
        assert AccessAttempt.objects.get().failures_since_start == 2
        assert columns_holding("PLANTED") == []
        # Attempts and sessions that have ended are deleted.
        forget_ended()
        assert (AccessAttempt.objects.count(), own.get("/").status_code) == (1, 200)
        AccessAttempt.objects.update(attempt_time=timezone.now() - dt.timedelta(minutes=16))
        Session.objects.update(expire_date=timezone.now() - dt.timedelta(minutes=1))
        forget_ended()
        assert (AccessAttempt.objects.count(), Session.objects.count()) == (0, 0)

    def test_a_name_that_is_too_long_is_an_unknown_one(self, db) -> None:
        wrong = {"username": "a" * 300, "password": "x"}
        codes = [Client().post("/login/", wrong).status_code for _ in range(6)]
        assert codes == [200] * 4 + [429] * 2

    def test_a_session_guesses_the_password_no_more_often_than_the_login(self, db) -> None:
        user = make_user("vera", "viewer", password=GOOD)
        client = Client()
        client.force_login(user)
        new = GOOD + " anew"
        for _ in range(5):
            client.post("/accounts/me/password/", {"old": "x", "password": new, "again": new})
        right = client.post("/accounts/me/password/", {"old": GOOD, "password": new, "again": new})
        assert "Too many failed attempts. Try again in" in text_of(right)
        assert User.objects.get().check_password(GOOD)

    def test_one_address_that_tries_many_names_is_stopped(self, db, settings) -> None:
        settings.LOGIN_FAILURES_OF_ADDRESS = 6
        client = Client()
        codes = [
            client.post("/login/", {"username": f"n{number}", "password": "x"}).status_code
            for number in range(7)
        ]
        assert codes == [200, 200, 200, 200, 200, 429, 429]

    def test_an_admin_unlocks(self, admin: Client) -> None:
        vera = make_user("vera", "viewer", password=GOOD)
        AccessAttempt.objects.create(
            username="vera", ip_address="127.0.0.1", failures_since_start=5, user_agent="x",
            http_accept="x", path_info="/login/", get_data="", post_data="",
        )  # fmt: skip
        good = {"username": "vera", "password": GOOD}
        assert Client().post("/login/", good).status_code == 429
        admin.post(f"/accounts/{vera.pk}/unlock/")
        assert Client().post("/login/", good).status_code == 302


class TestFirstAdmin:
    """The address that is printed once."""

    def test_it_makes_one_admin_and_is_good_no_more(self, db) -> None:
        code = first_admin.new_code()
        assert code not in str(list(SetupCode.objects.values()))
        client = Client()
        form = {"name": "root", "password": GOOD, "again": GOOD}
        short = client.post(f"/setup/{code}/", form | {"password": "x", "again": "x"})
        assert short.status_code == 422
        form_shown = short.context["form"]
        assert (list(form_shown.errors), form_shown["name"].value()) == (["password"], "root")
        other = client.post(f"/setup/{code}/", form | {"again": "other"})
        assert other.status_code == 422
        assert other.context["form"].errors == {"again": ["The two passwords differ."]}

        assert client.post(f"/setup/{code}/", form)["Location"] == "/"

        assert role_of(User.objects.get()) is Role.ADMIN
        assert client.get("/accounts/").status_code == 200
        assert Client().get(f"/setup/{code}/").status_code == 404
        assert first_admin.new_code() is None

    def test_its_page_renders(self, db) -> None:
        address = f"/setup/{first_admin.new_code()}/"
        assert "Create the first admin" in Client().get(address).text
        form = {"name": "<b>", "password": GOOD, "again": "other"}
        page = Client().post(address, form).text
        assert 'value="&lt;b&gt;"' in page
        assert "The two passwords differ." in page
        assert GOOD not in page

    def test_an_old_or_wrong_one_is_good_for_nothing(self, db) -> None:
        first = first_admin.new_code()
        second = first_admin.new_code()
        assert Client().get(f"/setup/{first}/").status_code == 404
        assert Client().get(f"/setup/{second}/").status_code == 200
        SetupCode.objects.update(expires_at=timezone.now())
        assert Client().get(f"/setup/{second}/").status_code == 404
        assert Client().get("/setup/guess/").status_code == 404

    def test_none_where_there_is_an_admin_already(self, db) -> None:
        code = first_admin.new_code()
        make_user("root", "admin")
        form = {"name": "eve", "password": GOOD, "again": GOOD}
        assert Client().post(f"/setup/{code}/", form).status_code == 404
        assert not User.objects.filter(username="eve").exists()


def test_the_command_does_what_the_page_does(db, run, settings, monkeypatch) -> None:  # noqa: F811
    settings.STORE_URL = "postgresql://the-test-store/"
    Source.objects.create(name="shop", conninfo="")
    monkeypatch.setattr("sys.stdin", type("In", (), {"readline": lambda self: GOOD + "\n"})())
    run("account", "add", "root", "--role", "admin", "--password-stdin")
    run("account", "add", "vera", "--role", "viewer", "--no-password")
    run("account", "revoke", "--group", "viewer", "--every-source")
    run("account", "grant", "vera", "--source", "shop", "--tables", "public.*,s.t")

    assert "shop: public.*, s.t" in run("account", "list")
    vera = User.objects.get(username="vera")
    assert User.objects.get(username="root").check_password(GOOD)
    assert not vera.has_usable_password()
    assert table_patterns(vera) == {Source.objects.get().pk: ("public.*", "s.t")}
    with pytest.raises(CommandError, match="last admin"):
        run("account", "disable", "root")
    run("account", "role", "vera", "none")
    assert role_of(User.objects.get(username="vera")) is None


def test_the_roles_default_grants_are_made_with_the_group_alone(db) -> None:
    groups = ensure_roles()
    Grant.objects.all().delete()
    assert ensure_roles() == groups
    assert not Grant.objects.exists()
