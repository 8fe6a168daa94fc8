"""Whatever a page offers to somebody may be followed by them: no link and no button is refused.

Every page is looked at, as a viewer and as an operator of one source, who sees one table of it.
"""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve

from replview.access.page import EVERYONE
from replview.access.rights import Role
from replview.store.models import Baseline, HistoryJob, Quarantine
from tests.features.accounts.matrix import Tried, addresses, body_of, build, needed, said_of

#: These end what is walked with.
ENDING = {"logout", "me-sign-out", "me-password"}
#: Attributes that hold an address, and how it is asked for.
ASKED_BY = {"href": "GET", "hx-get": "GET", "data-open": "GET", "hx-post": "POST"}


class Offers(HTMLParser):
    """The addresses that a page's links and usable buttons lead to, each with its method."""

    def __init__(self, here: str) -> None:
        super().__init__()
        self.here = here
        self.found: set[tuple[str, str]] = set()
        self._form: tuple[str, str] | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        usable = "disabled" not in values and values.get("aria-disabled") != "true"
        for name, method in ASKED_BY.items():
            if usable and tag not in ("link", "use") and (address := values.get(name)):
                self._add(method, address)
        if tag == "form":
            method = (values.get("method") or "get").upper()
            self._form = (method, values.get("action") or self.here)
        # A form without a button that works is one that is only shown.
        elif tag == "button" and usable and self._form and values.get("type") != "button":
            method, action = self._form
            self._add(method, values.get("formaction") or action)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None

    def _add(self, method: str, address: str) -> None:
        address = urljoin(self.here, address).partition("#")[0]
        if address.startswith("/") and not address.startswith("/static/"):
            self.found.add((method, address))


def furnish(tried: Tried) -> None:
    """Create objects with buttons: a baseline, a quarantine, a history job of another user."""
    slot = tried.history.slot
    Baseline.objects.create(slot=slot, schema="public", table="orders", state="failed")
    stopped = Quarantine.objects.create(
        slot=slot, incarnation=tried.history.incarnation, xid=7, raw=b"x", raw_bytes=1, cause="c",
        remedy="r",
    )  # fmt: skip
    job = HistoryJob.objects.create(job="churn", words={}, root="/nowhere", requested_by="other")
    tried.words |= {"quarantine_id": stopped.pk, "job_id": job.pk}


def pages(tried: Tried, role: Role) -> Iterator[str]:
    """Every page that this role may look at."""
    for name, route in addresses():
        if said_of(name).role == EVERYONE or name.startswith("api:"):
            continue
        if needed(name, "GET") <= role:
            yield tried.url(route)


def ask(client: Client, method: str, address: str) -> int:
    """Send a request and return its status, rolling back its effects."""
    with transaction.atomic():
        answer: Any = client.generic(method, address)
        body_of(answer)
        transaction.set_rollback(True)
    return int(answer.status_code)


@pytest.mark.slow
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_nothing_is_offered_that_is_refused(db, role: Role) -> None:
    tried = build()
    furnish(tried)
    shop = tried.history.slot.source
    some = {"sources": [shop], "tables": ["public.orders"]} if role is Role.OPERATOR else {}
    client = tried.client("somebody", role.word, **some)
    offered: dict[tuple[str, str], tuple[str, str]] = {}
    known: dict[tuple[str, str], int] = {}
    for page in pages(tried, role):
        answer = client.get(page)
        if answer.status_code < 400:
            known["GET", page] = answer.status_code
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            offers = Offers(page)
            offers.feed(answer.content.decode())
            for method, address in offers.found:
                offered.setdefault((method, urlsplit(address).path), (address, page))

    refused = []
    for (method, path), (address, page) in offered.items():
        try:
            name = resolve(path).view_name
        except Resolver404:
            refused.append((method, address, page, "no such address"))
            continue
        if name in ENDING:
            continue
        status = known.get((method, path)) or ask(client, method, address)
        # A form that is sent empty may name nothing; a link that is followed must.
        if status == 403 or (status == 404 and method == "GET"):
            refused.append((method, address, page, status))

    assert refused == []
    assert len(offered) > 45
