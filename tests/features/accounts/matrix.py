"""Every address, and a store with a source that is hidden, for tests that try all of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils import timezone

from replview.access.page import Page, page_named
from replview.access.rights import Role
from replview.store.models import (
    Alert,
    AlertRule,
    Export,
    Lake,
    LakeRelation,
    Slot,
    SlotPeek,
    Source,
    WatchedSlot,
)
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.people import make_user

#: In a row of a table that nobody but the admin has a right on, and in one that the viewer has.
HIDDEN, SHOWN = "planted-where-nobody-looks", "planted-for-the-viewer"
#: A source that the operator of another one must never hear of.
SHOP = "hidden-shop"
NUMBER = 77


def addresses() -> Iterator[tuple[str, str]]:
    """Every address's full name, and its route."""

    def walk(patterns: list[Any], space: str, route: str) -> Iterator[tuple[str, str]]:
        for pattern in patterns:
            here = route + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
                yield from walk(pattern.url_patterns, inner, here)
            else:
                yield f"{space}{pattern.name}", here

    return walk(get_resolver().url_patterns, "", "/")


def said_of(name: str, method: str = "GET") -> Page:
    """Return what ``@page`` declares for the view of this URL name."""
    found = page_named(name, method)
    assert found is not None, f"the view of {name} has no @page"
    return found


def words_of(route: str) -> set[str]:
    """The words of a path."""
    return set(re.findall(r"<(?:\w+:)?(\w+)>", route))


def of_a_source(name: str) -> bool:
    """Return True if the URL name's view shows an object that belongs to a source."""
    return any(model is not None for model in said_of(name).of.values())


@dataclass
class Tried:
    """A store with two sources, and what its addresses' words stand for."""

    history: History
    words: dict[str, Any] = field(default_factory=dict)

    def url(self, route: str) -> str:
        """The route with its words filled in by what there is of the hidden source."""
        return re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(self.words[found[1]]), route)

    def client(self, name: str, role: str | None, **more: Any) -> Client:
        """Somebody's browser."""
        client = Client()
        client.force_login(make_user(name, role, **more))
        return client


def build() -> Tried:
    """The hidden source with a row of each kind, and another source."""
    make_partitions()
    history = History()
    source = history.slot.source
    Source.objects.filter(pk=source.pk).update(name=SHOP)
    source.name = SHOP
    people = history.table("people", 16385, ["id", "name"])
    row = {"id": str(NUMBER), "name": HIDDEN}
    secret = history.commit({"op": "I", "new": row, "version": people}, actor="app")
    history.commit(insert(1), insert(2, new={"id": "2", "status": SHOWN, "note": None}))
    other = Source.objects.create(name="bank", conninfo="")
    Slot.objects.create(source=other, name="replview")
    now = timezone.now()
    watched = WatchedSlot.objects.create(id=9001, source=source, name="theirs")
    rule = AlertRule.objects.create(name="x", kind="lag", threshold=1, slot=watched)
    alert = Alert.objects.create(
        rule=rule, subject="source:1", source=source, began_at=now, fired_at=now, state="firing"
    )
    export = Export.objects.create(
        slot=history.slot, slot_name=str(history.slot), slice={}, target="/nowhere",
        requested_by="somebody", requested_how="page",
    )  # fmt: skip
    lake = Lake.objects.create(
        name=f"of-{SHOP}", slot=history.slot, slot_name=str(history.slot), format="delta",
        root="/nowhere",
    )  # fmt: skip
    LakeRelation.objects.create(lake=lake, name="public.people")
    peek = SlotPeek.objects.create(source=source, slot_name="theirs", max_changes=1, max_seconds=1)
    words = {
        "source_name": SHOP, "slot_name": "replview", "slot_id": history.slot.pk,
        "transaction_id": secret, "seq": 1, "relation_id": people.relation_id,
        "version_id": people.pk, "export_id": export.pk, "lake_id": lake.pk, "alert_id": alert.pk,
        "rule_id": rule.pk, "peek_id": peek.pk, "page": "transactions", "kind": "record",
        "name": "load", "action": "begin", "code": "nothing",
    }  # fmt: skip
    more = {word for _, route in addresses() for word in words_of(route)}
    words |= dict.fromkeys(more - set(words), 1)
    return Tried(history, words)


def needed(name: str, method: str) -> Role:
    """The role of an address that asks for one; for every account, a viewer's."""
    found = said_of(name, method).role_for(method)
    return found if isinstance(found, Role) else Role.VIEWER


def body_of(answer: Any) -> str:
    """All of an answer."""
    whole = answer.content if not answer.streaming else b"".join(answer.streaming_content)
    return whole.decode(errors="replace")
