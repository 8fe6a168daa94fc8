"""Everybody tries everything: every address, every call of the API, every socket.

Whoever adds an address whose view has no ``@page`` fails here, and so does whoever lets somebody in
who lacks the role, or shows a value to somebody without the right on its table.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import Client
from django.urls import resolve

from replview.access import shares
from replview.access.page import EVERYONE, SIGNED_IN, Nav, page_named, page_of
from replview.access.rights import Role
from replview.access.visibility import forget
from replview.live.events import NO_SUCH_SLOT, NOT_ALLOWED, NOT_SIGNED_IN, TOO_MANY
from replview.live.sockets import websocket_urlpatterns
from replview.store.models import (
    AccessRecord,
    AlertRule,
    MaskRule,
    Relation,
    Source,
)
from replview.urls import api
from tests.features.accounts.matrix import (
    HIDDEN,
    NUMBER,
    SHOP,
    SHOWN,
    Tried,
    addresses,
    body_of,
    build,
    needed,
    of_a_source,
    said_of,
    words_of,
)
from tests.support.sockets import WebsocketCommunicator

REFUSED = {401, 403, 404}


@pytest.fixture
def tried(db) -> Tried:
    """Return a store with two sources, one of which the tried accounts may not see."""
    return build()


def test_every_address_says_who_may_open_it() -> None:
    assert [name for name, _ in addresses() if page_named(name) is None] == []


def test_every_word_of_an_address_is_known_and_no_other() -> None:
    said: dict[str, set[str]] = {}
    for name, route in addresses():
        said.setdefault(name, words_of(route))
        assert words_of(route) == set(said_of(name).of), name


def test_every_part_of_a_page_stands_below_an_entry_of_the_navigation() -> None:
    for name, _ in addresses():
        entry = said_of(name).nav
        if isinstance(entry, str) and entry:
            assert isinstance(said_of(entry).nav, Nav), name


def test_every_call_of_the_api_that_changes_something_needs_an_operator() -> None:
    named = [(name, route) for name, route in addresses() if name.startswith("api:")]
    names = {route.split("api/v1")[1]: name for name, route in reversed(named)}
    for path, calls in api.get_openapi_schema()["paths"].items():
        route = re.sub(r"\{(\w+)\}", r"<\1>", path.removeprefix("/api/v1"))
        match = [name for known, name in names.items() if re.sub(r"<\w+:", "<", known) == route]
        assert match, path
        for method in set(calls) - {"get"}:
            assert needed(match[0], method.upper()) >= Role.OPERATOR, (method, path)


def test_every_socket_says_who_may_open_it() -> None:
    for one in websocket_urlpatterns:
        said = page_of(one.callback)
        assert said is not None, one
        assert isinstance(said.role, Role), one


def test_an_address_whose_view_has_no_page_is_refused(tried: Tried, monkeypatch) -> None:
    admin = tried.client("root", "admin")
    view = resolve("/store/").func
    assert page_of(view) is not None
    monkeypatch.delattr(view, "replview_page")

    assert admin.get("/store/").status_code == 403


def test_anonymous_visitors_see_the_login_alone(tried: Tried) -> None:
    client = Client()
    for name, route in addresses():
        if said_of(name).role == EVERYONE:
            continue
        answer = client.get(tried.url(route))
        if name.startswith("api:") and name != "api:openapi-view":
            assert answer.status_code == 401, name
        else:
            assert answer.status_code == 302, name
            assert answer["Location"].startswith("/login/?next="), name


@pytest.mark.slow
def test_an_account_without_a_role_sees_its_own_page_alone(tried: Tried) -> None:
    client = tried.client("nobody", None)
    for name, route in addresses():
        if said_of(name).role not in (EVERYONE, SIGNED_IN):
            assert client.get(tried.url(route)).status_code == 403, name
    assert "has no role yet" in client.get("/").content.decode()
    assert client.get("/accounts/me/").status_code == 200


@pytest.mark.slow
def test_nobody_does_what_is_above_their_role(tried: Tried) -> None:
    people = {
        Role.VIEWER: tried.client("vera", "viewer"),
        Role.OPERATOR: tried.client("otto", "operator"),
    }
    for role, client in people.items():
        for name, route in addresses():
            # Who may not even look is refused by the same rule as who may not change.
            method = next((one for one in ("GET", "POST") if needed(name, one) > role), None)
            if method is not None:
                answer = client.generic(method, tried.url(route))
                assert answer.status_code in REFUSED, (role.word, method, name)


@pytest.mark.slow
def test_of_a_hidden_source_nothing_is_there(tried: Tried) -> None:
    bank = Source.objects.get(name="bank")
    client = tried.client("otto", "operator", sources=[bank])
    lists = 0
    for name, route in addresses():
        if said_of(name).role in (EVERYONE, SIGNED_IN) or needed(name, "GET") > Role.OPERATOR:
            continue
        url, of_it = tried.url(route), of_a_source(name)
        answers = [client.get(url, {} if of_it else {"slot": f"{SHOP}/replview"})]
        if of_it:
            answers.append(client.post(url))
            assert answers[0].status_code == 404, name
            assert answers[1].status_code in (403, 404), name
        else:
            answers.append(client.get(url))
            lists += answers[1].status_code == 200
        for answer in answers:
            body = body_of(answer)
            assert HIDDEN not in body, name
            assert SHOWN not in body, name
            # An answer may repeat the requested name, but may not add a hidden one.
            assert of_it or answer is answers[0] or SHOP not in body, name
    assert lists > 25


def test_a_rule_for_every_source_is_not_for_who_sees_some(tried: Tried) -> None:
    client = tried.client("otto", "operator", sources=[Source.objects.get(name="bank")])
    rule = AlertRule.objects.create(name="all", kind="lag", threshold=1)

    assert client.post(f"/alerts/rules/{rule.pk}/change/", {"action": "off"}).status_code == 403
    rule.refresh_from_db()
    assert rule.enabled


def asked(tried: Tried) -> Iterator[str]:
    """Yield addresses that show rows, with the hidden table named in them."""
    slot, people = f"{SHOP}/replview", "public.people"
    yield f"/rows/?slot={slot}&table={people}&key.id={NUMBER}"
    yield f"/find/?slot={slot}&tables={people}"
    yield f"/transactions/?slot={slot}&tables={people}"
    yield f"/api/v1/changes?slot={slot}&tables={people}"
    yield f"/api/v1/history?slot={slot}"
    yield f"/api/v1/rows?slot={slot}&table={people}&key.id={NUMBER}"
    yield f"/api/v1/rows/as-of?slot={slot}&table={people}&key.id={NUMBER}"
    for name, route in addresses():
        if needed(name, "GET") <= Role.VIEWER and said_of(name).role != EVERYONE:
            yield tried.url(route)


@pytest.mark.slow
def test_a_value_of_a_table_without_a_right_is_in_no_answer(tried: Tried) -> None:
    shop = tried.history.slot.source
    admin = tried.client("root", "admin")
    viewer = tried.client("vera", "viewer", sources=[shop], tables=["public.orders"])
    leaks, seen, allowed = [], 0, 0
    for url in asked(tried):
        body = body_of(viewer.get(url))
        allowed += SHOWN in body
        if HIDDEN in body:
            leaks.append(url)
    for url in ("/find/", "/api/v1/changes", f"/transactions/{tried.words['transaction_id']}/"):
        seen += HIDDEN in body_of(admin.get(url, {"slot": f"{SHOP}/replview"}))
    assert leaks == []
    # Both can be seen by those who may.
    assert seen == 3
    assert allowed > 0


@pytest.mark.slow
def test_no_page_of_a_table_tells_from_its_catalog_what_is_hidden(tried: Tried, source) -> None:
    """No page shows a default, a check or an index of the catalog that quotes a hidden value."""
    source.run(
        f"CREATE TABLE people (id int PRIMARY KEY, name text DEFAULT '{HIDDEN}',"
        f" CHECK (name <> '{HIDDEN}'))",
        f"CREATE INDEX ON people (id) WHERE name = '{HIDDEN}'",
    )
    with source.connect() as connection:
        asked_of = "SELECT 'people'::regclass::oid, system_identifier FROM pg_control_system()"
        [(oid, system)] = connection.execute(asked_of).fetchall()
    pk, shop = tried.words["relation_id"], tried.history.slot.source
    Relation.objects.filter(pk=pk).update(oid=oid, system_identifier=system)
    Source.objects.filter(pk=shop.pk).update(conninfo=source.dsn)
    of_tables = [tried.url(route) for _, route in addresses() if "relation_id" in words_of(route)]
    admin = tried.client("root", "admin")
    viewer = tried.client("vera", "viewer", sources=[shop], tables=["public.orders"])

    def telling(client: Client) -> list[str]:
        return [url for url in of_tables if HIDDEN in body_of(client.get(url, {"whole": "1"}))]

    assert f"/relations/{pk}/now/" in telling(admin)
    assert telling(viewer) == []
    MaskRule.objects.create(table_pattern="public.people", column_pattern="name", when="display")
    forget()
    assert telling(admin) == []
    forget()


@pytest.mark.slow
def test_a_look_notes_what_its_page_says_and_nothing_else(tried: Tried) -> None:
    admin = tried.client("root", "admin")
    noted: dict[str, set[str]] = {}
    urls = [*asked(tried), *(tried.url(route) for _, route in addresses())]
    for url in urls:
        name = resolve(urlsplit(url).path).view_name
        if name == "logout":
            continue
        last = AccessRecord.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        body_of(admin.get(url))
        new = AccessRecord.objects.filter(pk__gt=last)
        noted.setdefault(name, set()).update(new.values_list("action", flat=True))

    wrong = {
        name: (actions, said_of(name).record)
        for name, actions in noted.items()
        if not actions <= set(said_of(name).record)
    }
    assert wrong == {}
    assert sum(map(bool, noted.values())) > 15


@pytest.mark.django_db(transaction=True)
def test_sockets_are_closed_to_those_who_may_not() -> None:
    tried = build()
    bank = Source.objects.get(name="bank")
    browsers = {
        "anonymous": Client(),
        "nobody": tried.client("nobody", None),
        "viewer": tried.client("vera", "viewer"),
        "operator": tried.client("otto", "operator", sources=[bank]),
    }
    cookies = {who: cookie_of(client) for who, client in browsers.items()}
    slot_id = str(tried.history.slot.pk)
    paths = [f"/{one.pattern}".replace("<int:slot_id>", slot_id) for one in websocket_urlpatterns]
    live = f"/ws/live/{slot_id}/"

    async def codes() -> dict[tuple[str, str], int | None]:
        found = {}
        for who, cookie in cookies.items():
            for path in paths:
                found[who, path] = await close_code(path, cookie)
        return found

    found = asyncio.run(codes())

    for path in paths:
        assert found["anonymous", path] == NOT_SIGNED_IN
        assert found["nobody", path] == NOT_ALLOWED
    assert found["viewer", "/ws/exports/"] == NOT_ALLOWED
    assert found["viewer", "/ws/samples/"] is None
    assert found["operator", live] == NO_SUCH_SLOT
    assert found["operator", "/ws/exports/"] is None


def cookie_of(client: Client) -> str:
    """The session's cookie; none before the login."""
    morsel = client.cookies.get(settings.SESSION_COOKIE_NAME)
    return f"{settings.SESSION_COOKIE_NAME}={morsel.value}" if morsel else "a=b"


async def close_code(path: str, cookie: str) -> int | None:
    """The code it is closed with at once; None: it would stay open."""
    async with socket(path, cookie) as code:
        return code


@asynccontextmanager
async def socket(path: str, cookie: str) -> AsyncIterator[int | None]:
    """An open socket; gives the code it is closed with at once, None where it stays open."""
    from replview.asgi import application

    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    scope = {"type": "websocket", "path": path, "query_string": b"", "subprotocols": [],
             "headers": [*headers, (b"cookie", cookie.encode())]}  # fmt: skip
    opened = WebsocketCommunicator(application, scope)
    assert (await opened.connect())[0]
    try:
        await opened.send_to('{"type": "ping", "t": 1}')
        answer = await opened.receive_output(5)
        yield answer["code"] if answer["type"] == "websocket.close" else None
    finally:
        await opened.disconnect()


@pytest.mark.django_db(transaction=True)
def test_an_account_has_only_so_many_sockets(monkeypatch) -> None:
    monkeypatch.setattr(shares, "MOST_OF_ACCOUNT", {"http": 50, "websocket": 2})
    tried = build()
    vera, otto = (cookie_of(tried.client(name, "viewer")) for name in ("vera", "otto"))

    async def opened() -> list[int | None]:
        async with AsyncExitStack() as stack:
            codes = [await stack.enter_async_context(socket("/ws/samples/", vera))
                     for _ in range(3)]  # fmt: skip
            codes.append(await stack.enter_async_context(socket("/ws/samples/", otto)))
        return [*codes, await close_code("/ws/samples/", vera)]

    assert asyncio.run(opened()) == [None, None, TOO_MANY, None, None]
