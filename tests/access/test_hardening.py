"""Attacks are refused: at the login, in requests, in links, in names of files."""

import asyncio
import io
import json
import logging
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection, transaction
from django.http import Http404
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from replview.access import shares
from replview.access.shares import BoundedShares
from replview.live.sockets import websocket_urlpatterns
from replview.management.commands.up import check_hardened
from replview.runtime.logs import JSONFormatter, PlainFormatter
from replview.runtime.machine import StackProblem
from replview.ui.middleware import ApiFailureMiddleware, SlowStatementMiddleware
from replview.ui.serving import BoundedRequests
from tests import audit
from tests.support.people import make_user

ROOT = Path(__file__).parents[2]
KEY = "a-key-of-this-test-alone-which-is-long-enough-to-be-used-0123456789"


@pytest.fixture
def admin(db) -> Client:
    """A browser with every right, to whom a forged link or form would be worth most."""
    client = Client()
    client.force_login(make_user("root", "admin"))
    return client


_ASK = """
import json, os, django
from django.conf import settings
django.setup()
from django.core.checks import run_checks
from django.core.management import call_command
call_command("check", "--deploy", "--fail-level", "WARNING")
names = ["SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE",
         "SESSION_COOKIE_HTTPONLY", "SECURE_HSTS_SECONDS", "SECURE_SSL_REDIRECT", "DEBUG",
         "SERVES_PAGES"]
print(json.dumps({n: getattr(settings, n) for n in names}
                 | {"limit": settings.WEB_STATEMENT_SECONDS}))
"""


def test_production_settings_pass_django_s_own_check() -> None:
    given = {
        "REPLVIEW_HTTPS": "1",
        "REPLVIEW_SECRET_KEY": KEY,
        "REPLVIEW_ALLOWED_HOSTS": "replview.example",
        "REPLVIEW_STORE_URL": "postgresql://store.example/replview",
        "REPLVIEW_DB_POOL": "1",
        "DJANGO_SETTINGS_MODULE": "replview.settings",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REPLVIEW_")}
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        cwd=ROOT, env={**kept, **given}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["SESSION_COOKIE_NAME"].startswith("__Host-")
    assert told["CSRF_COOKIE_NAME"].startswith("__Host-")
    for name in ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY",
                 "SECURE_SSL_REDIRECT"):  # fmt: skip
        assert told[name], name
    assert not told["DEBUG"]
    assert told["SECURE_HSTS_SECONDS"] >= 31_536_000
    # A request's statements on the store have a time limit, and addresses typed here are bounded.
    assert told["limit"] == 30
    assert told["SERVES_PAGES"]


@pytest.mark.parametrize(
    ("key", "debug", "host", "why"),
    [
        ("not-for-production-set-REPLVIEW_SECRET_KEY", False, "127.0.0.1", "placeholder"),
        ("changeme-changeme-changeme-changeme", False, "127.0.0.1", "placeholder"),
        ("short", False, "127.0.0.1", "fewer than"),
        ("abab" * 20, False, "127.0.0.1", "only a few different"),
        (KEY, True, "0.0.0.0", "REPLVIEW_DEBUG=1"),
        (KEY, True, "::", "REPLVIEW_DEBUG=1"),
        (KEY, True, "replview.example", "REPLVIEW_DEBUG=1"),
    ],
)
def test_up_refuses_what_may_not_face_others(settings, key, debug, host, why) -> None:
    settings.SECRET_KEY, settings.DEBUG = key, debug
    with pytest.raises(StackProblem, match=why):
        check_hardened(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_up_takes_a_good_key_and_a_debugger_for_oneself(settings, host: str) -> None:
    settings.SECRET_KEY, settings.DEBUG = KEY, True
    check_hardened(host)


def test_no_template_has_anything_inline() -> None:
    found = []
    for path in sorted((ROOT / "templates").rglob("*.html")):
        text = re.sub(r"{#.*?#}|{% comment %}.*?{% endcomment %}", "", path.read_text(), flags=re.S)
        for pattern in (
            r"<script(?![^>]*\bsrc=)[^>]*>(?!\s*</script>)",
            r"<style\b",
            r"\sstyle\s*=",
            r"<[^>]*\son[a-z]+\s*=",
            r"javascript:",
            r"""\ssrc\s*=\s*["'](?:https?:)?//""",
        ):
            found += [f"{path.name}: {hit}" for hit in re.findall(pattern, text)]
    assert found == []


def test_every_answer_says_what_browsers_may_not(admin: Client) -> None:
    for path in ("/", "/login/", "/static/js/ui/shell.js", "/nowhere/", "/api/v1/slots"):
        headers = admin.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "camera=()" in headers["Permissions-Policy"]
        # The browser's "back" shows nothing of it after the sign-out.
        assert ("no-store" in headers["Cache-Control"]) == (not path.startswith("/static/"))
    assert admin.get("/")["X-Frame-Options"] == "DENY"


EVIL = [
    "https://evil.example/", "//evil.example", "///evil.example", "/\\evil.example",
    "\\\\evil.example", "/\t/evil.example", "https:evil.example", "javascript:alert(1)",
    "http://testserver@evil.example", "\x00//evil.example",
]  # fmt: skip


def leaves(location: str) -> bool:
    """Return True if a browser would follow this location to another host."""
    plain = re.sub(r"[\t\r\n\0]", "", location).replace("\\", "/").strip()
    return plain.startswith("//") or bool(re.match(r"[a-z][a-z0-9+.-]*:", plain, re.I))


@pytest.mark.parametrize("evil", EVIL)
def test_a_login_leads_to_no_other_host(db, evil: str) -> None:
    make_user("alice", password="a-good-password-1")
    told = {"username": "alice", "password": "a-good-password-1", "next": evil}
    response = Client().post("/login/", told)

    assert response.status_code == 302, response.content.decode()[:300]
    assert not leaves(response["Location"]), response["Location"]


def _is_plain(pattern: URLPattern) -> bool:
    return not pattern.pattern.converters and not pattern.pattern.regex.groups


def plain_addresses() -> list[str]:
    """Every address without a parameter in its path."""
    found = []

    def walk(patterns: list[Any], namespace: str) -> None:
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
                walk(pattern.url_patterns, inner)
            elif isinstance(pattern, URLPattern) and pattern.name and _is_plain(pattern):
                found.append(reverse(f"{namespace}{pattern.name}"))

    walk(get_resolver().url_patterns, "")
    return sorted(set(found))


def test_no_address_leads_to_a_host_that_a_link_names(admin: Client) -> None:
    words = ("next", "url", "return", "back", "to", "q", "redirect_to", "page", "query", "slot")
    asked = 0
    for path in plain_addresses():
        if path in (reverse("logout"),) or "oidc" in path or "openapi" in path:
            continue
        response = admin.get(path, dict.fromkeys(words, "//evil.example"))
        asked += 1
        assert response.status_code < 500, path
        if "Location" in response.headers:
            assert not leaves(response["Location"]), path
    assert asked > 30


@pytest.mark.parametrize("evil", EVIL[:4])
def test_a_saved_filter_leads_back_to_its_page(admin: Client, evil: str) -> None:
    path = reverse("saved-filter-save", args=["find"])
    response = admin.post(path, {"name": "mine", "query": evil})

    assert response["Location"].startswith("/find/?")


def unsafe_operations() -> list[tuple[str, str]]:
    """Method and address of every call of the API that is no mere look."""
    from replview.urls import api

    found = []
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method in methods:
            if method.upper() not in ("GET", "HEAD", "OPTIONS"):
                found.append((method.upper(), re.sub(r"{[^}]*}", "1", path)))
    return found


def test_another_site_s_form_calls_nothing_that_changes_something(db) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("root", "admin"))
    asked = unsafe_operations()
    assert asked
    for method, path in asked:
        response = client.generic(method, path, "{}", content_type="application/json")
        assert response.status_code in (401, 403), (method, path, response.status_code)


def test_no_page_changes_anything_on_a_form_of_another_site(db) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("root", "admin"))
    for path in plain_addresses():
        if path.startswith(("/api/", "/metrics")) or "oidc" in path:
            continue
        assert client.post(path, {"name": "x"}).status_code in (403, 405), path


def asgi_request(path: str, *, length: int | None = None) -> dict[str, Any]:
    headers = [(b"host", b"testserver"), (b"content-type", b"text/plain")]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    return {
        "type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": b"/",
        "query_string": b"", "headers": headers, "client": ["127.0.0.1", 1], "server": ["x", 80],
        "scheme": "http",
    }  # fmt: skip


class Reader:
    """An application that reads its request's body, and says how much came."""

    def __init__(self) -> None:
        self.read = 0
        self.gone = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                return
            self.read += len(message["body"])
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


async def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    reader = Reader()
    asked = ApplicationCommunicator(BoundedRequests(reader, 100), asgi_request("/", length=101))
    answer = await asked.receive_output(5)
    assert answer["status"] == 413
    assert b"content-security-policy" in dict(answer["headers"])
    assert reader.read == 0


async def test_one_that_does_not_say_is_cut_off_where_it_is_too_large() -> None:
    reader = Reader()
    asked = ApplicationCommunicator(BoundedRequests(reader, 100), asgi_request("/"))
    for _ in range(5):
        await asked.send_input({"type": "http.request", "body": b"x" * 40, "more_body": True})
    assert (await asked.receive_output(5))["status"] == 413
    assert reader.gone
    assert reader.read <= 100


async def test_one_that_drips_is_given_up() -> None:
    reader = Reader()
    bounded = BoundedRequests(reader, 100, patience_seconds=0.1)
    asked = ApplicationCommunicator(bounded, asgi_request("/"))
    await asked.send_input({"type": "http.request", "body": b"x", "more_body": True})
    assert (await asked.receive_output(5))["status"] == 408


async def test_one_that_is_small_goes_through_and_long_polls_are_not_cut() -> None:
    bounded = BoundedRequests(Reader(), 100, patience_seconds=0.1)
    asked = ApplicationCommunicator(bounded, asgi_request("/", length=4))
    await asked.send_input({"type": "http.request", "body": b"four", "more_body": False})
    assert (await asked.receive_output(5))["status"] == 200
    assert (await asked.receive_output(5))["body"] == b"done"


def test_the_web_server_itself_takes_little(settings) -> None:
    from replview.runtime.programs import web

    argv = web("127.0.0.1", 1).argv
    for option in ("--ws-max-size", "--limit-concurrency", "--h11-max-incomplete-event-size"):
        assert int(argv[argv.index(option) + 1]) > 0
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE <= 1_000_000


def test_no_header_moves_a_browser_where_no_proxy_is_declared(monkeypatch) -> None:
    from replview.runtime.programs import web

    for name in ("REPLVIEW_HTTPS", "FORWARDED_ALLOW_IPS"):
        monkeypatch.delenv(name, raising=False)
        assert "--no-proxy-headers" in web("127.0.0.1", 1).argv
    for name in ("REPLVIEW_HTTPS", "FORWARDED_ALLOW_IPS"):
        with monkeypatch.context() as declared:
            declared.setenv(name, "1")
            assert "--no-proxy-headers" not in web("127.0.0.1", 1).argv


def test_a_statement_that_took_too_long_is_told_as_that(db) -> None:
    def ask() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 20")
            cursor.execute("SELECT pg_sleep(5)")

    with pytest.raises(OperationalError) as slow:
        ask()
    middleware = SlowStatementMiddleware(lambda request: None)
    page = middleware.process_exception(RequestFactory().get("/find/"), slow.value)
    program = middleware.process_exception(RequestFactory().get("/api/v1/changes"), slow.value)

    assert page.status_code == program.status_code == 503
    assert "30 seconds" in page.content.decode()
    assert "narrow the request" in json.loads(program.content)["error"]
    assert middleware.process_exception(RequestFactory().get("/"), ValueError()) is None


def test_a_zero_byte_is_no_failure_of_ours(admin: Client) -> None:
    for path in ("/sources/a%00b/", "/api/v1/sources/a%00b"):
        assert admin.get(path).status_code == 404, path
    for path in ("/sources/new/record/?source=a%00b", "/api/v1/changes?slot=a/%00"):
        assert admin.get(path).status_code == 400, path
    assert Client().post("/login/", {"username": "a\0", "password": "x"}).status_code == 400


def test_what_somebody_asked_for_begins_no_line_of_the_log() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 1, "Not Found: %s",
                               ("/a\nINFO root: all is well\x1b[2J",), None)  # fmt: skip
    line = PlainFormatter("%(message)s").format(record)

    assert line == "Not Found: /a\\nINFO root: all is well\\x1b[2J"


def test_a_known_vulnerability_fails_the_audit_and_nobody_to_ask_does_not(capsys) -> None:
    safe = {"name": "django", "version": "5.2.9", "vulns": []}
    bad = {"name": "h11", "version": "0.1", "vulns": [
        {"id": "GHSA-1", "aliases": ["CVE-1"], "fix_versions": ["0.16"]}]}  # fmt: skip
    skipped = {"name": "replview", "skip_reason": "not on the index"}

    assert audit.judge({"dependencies": [safe, skipped]}) == 0
    assert audit.judge({"dependencies": [safe, bad]}) == 1
    assert "h11 0.1: GHSA-1, mended in 0.16" in capsys.readouterr().out
    assert audit.cannot("it", "ConnectionError: Max retries exceeded") == 0
    assert "NOT AUDITED" in capsys.readouterr().out
    assert audit.cannot("it", "usage: no such option") == 2


@pytest.mark.parametrize(
    ("failure", "status"),
    [(OperationalError("a secret value"), 503), (ZeroDivisionError("a secret value"), 500)],
)
def test_a_program_is_told_of_failures_in_json(caplog, failure: Exception, status: int) -> None:
    middleware = ApiFailureMiddleware(lambda request: None)
    answer = middleware.process_exception(RequestFactory().get("/api/v1/slots"), failure)

    assert answer is not None
    assert answer.status_code == status
    assert json.loads(answer.content)["error"]
    assert b"secret" not in answer.content
    assert status == 500 or "secret" not in caplog.text


@pytest.mark.parametrize(
    ("path", "failure"),
    [
        ("/api/v1/slots", PermissionDenied()),
        ("/api/v1/slots", Http404()),
        ("/slots/", OperationalError()),
    ],
)
def test_what_is_refused_keeps_its_answer_and_pages_have_theirs(path, failure) -> None:
    middleware = ApiFailureMiddleware(lambda request: None)

    assert middleware.process_exception(RequestFactory().get(path), failure) is None


class Waiting:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.begun = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Take the account's share, too, as the guard does."""
        self.begun += 1
        account = scope["path"].removeprefix("/of/")
        status = 429
        if not account.isdigit() or shares.takes_share(scope, int(account)):
            await self.let_go.wait()
            status = 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def test_an_address_and_an_account_have_a_share_of_what_is_under_way(monkeypatch) -> None:
    monkeypatch.setattr(shares, "MOST", 6)
    monkeypatch.setattr(shares, "MOST_OF_ACCOUNT", {"http": 2})
    monkeypatch.setattr(shares, "MOST_OF_ADDRESS", {"http": 4, "reserve": 2})
    waiting = Waiting()
    bounded = BoundedShares(waiting, socket_code=4429)

    def ask(path: str, address: str = "192.0.2.1") -> ApplicationCommunicator:
        return ApplicationCommunicator(bounded, {**asgi_request(path), "client": [address, 1]})

    async def status(asked: ApplicationCommunicator) -> int:
        answer = await asked.receive_output(5)
        return int(answer["status"])

    async def held(*asked: ApplicationCommunicator) -> list[ApplicationCommunicator]:
        wanted = waiting.begun + len(asked)
        while waiting.begun < wanted:
            for each in asked:
                assert await each.receive_nothing(0.01)
        return list(asked)

    under_way = await held(ask("/of/1"), ask("/of/1"))
    # The account's share, from wherever; then the address's.
    assert await status(ask("/of/1", "192.0.2.2")) == 429
    under_way += await held(ask("/of/2"), ask("/of/2"))
    assert await status(ask("/of/3")) == 429
    # Then that of all together; who signs in, and a probe, has the reserve, and a share of that.
    under_way += await held(ask("/of/3", "192.0.2.3"), ask("/of/3", "192.0.2.3"))
    refused = ask("/of/4", "192.0.2.4")
    answer = await refused.receive_output(5)
    assert (answer["status"], dict(answer["headers"])[b"retry-after"]) == (429, b"2")
    under_way += await held(ask("/login/"), ask("/healthz"))
    assert await status(ask("/login/")) == 429
    under_way += await held(ask("/login/", "192.0.2.4"))
    waiting.let_go.set()
    assert [await status(each) for each in under_way] == [200] * 9
    for each in under_way:
        await each.wait(5)
    assert not bounded.counts


async def test_what_goes_away_gives_its_share_back() -> None:
    bounded = BoundedShares(Waiting(), socket_code=4429)
    asked = ApplicationCommunicator(bounded, asgi_request("/of/1"))
    assert await asked.receive_nothing(0.05)
    assert bounded.counts["http", 1] == 1
    asked.future.cancel()
    with suppress(asyncio.CancelledError):
        await asked.future
    assert not bounded.counts


@pytest.mark.parametrize("formatter", [PlainFormatter("%(message)s"), JSONFormatter()])
def test_a_refusal_is_a_line_of_the_log_and_no_traceback(db, formatter) -> None:
    viewer, written = Client(), io.StringIO()
    viewer.force_login(make_user("vera", "viewer"))
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    logging.getLogger("django").addHandler(handler)
    try:
        assert viewer.get("/accounts/").status_code == 403
        assert viewer.get("/sources/none/").status_code == 404
        assert viewer.get("/", headers={"host": "elsewhere.example"}).status_code == 400
    finally:
        logging.getLogger("django").removeHandler(handler)
    lines = written.getvalue().splitlines()
    assert len(lines) == 3
    assert "Forbidden" in lines[0]
    assert all("/, account vera" in line for line in lines[:2])
    assert ".py" not in written.getvalue()


def test_a_socket_that_is_refused_is_a_line_of_the_log(caplog) -> None:
    async def refused() -> None:
        scope = {
            "type": "websocket",
            "path": "/ws/samples/",
            "user": AnonymousUser(),
            "session": {},
        }
        sent = []

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await websocket_urlpatterns[0].callback(scope, receive, send)
        assert sent[-1]["code"] == 4401

    asyncio.run(refused())
    assert caplog.messages == ["a socket was refused (code 4401): /ws/samples/, account nobody"]


def test_signing_out_leaves_nothing_in_the_browser_s_cache(db) -> None:
    client = Client()
    client.force_login(make_user("vera", "viewer"))
    assert client.post("/logout/")["Clear-Site-Data"] == '"cache"'
    client.force_login(make_user("olga", "viewer"))
    assert client.post("/accounts/me/sign-out/")["Clear-Site-Data"] == '"cache"'
