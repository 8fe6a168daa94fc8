"""The table of pages: ``@page`` on a view says all that holds of its address.

Its methods, who may see it, where it stands in the navigation, which words of its path name
something that must be visible, and what the access record notes of a look at it. The middlewares,
the navigation and the links of other pages read it from here. A view without it is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from django.http import Http404
from django.urls import URLPattern, URLResolver, get_resolver
from django.views.decorators.http import require_http_methods

from replview.access.rights import Role
from replview.store.models import AccessRecord, Alert, AlertRule, Source

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN
#: Before a login: the login itself, and what checks by itself who asks.
EVERYONE: Final = "everyone"
#: Every account, without a role too.
SIGNED_IN: Final = "signed in"
#: Methods that change nothing.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: What an address may be asked by.
GET, POST, GET_POST = ("GET",), ("POST",), ("GET", "POST")
SAFE, READ_POST = ("GET", "HEAD"), ("GET", "HEAD", "POST")

#: Words of a path → the model whose visible objects they name; None: they name nothing of a source,
#: or something that belongs to what another word names.
Words = Mapping[str, type[Any] | None]
OF_SOURCE: Words = {"source_name": Source}
OF_SLOT: Words = {"source_name": Source, "slot_name": None}
OF_ALERT: Words = {"alert_id": Alert}
OF_RULE: Words = {"rule_id": AlertRule}

Action = AccessRecord.Action
#: Of a page that shows rows.
ROWS = (Action.VIEWED_ROWS,)
View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Nav:
    """An entry of the navigation; the order within a group is that of ``urls.py``."""

    group: str
    label: str
    icon: str
    #: Which count stands beside it; empty: none.
    count: str = ""
    #: It is always of one slot, which stays from one of these pages to the next.
    one_slot: bool = False
    #: A phone shows it at the bottom; the others are behind *More*.
    tab: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    #: Anything else is answered with 405; empty: the view sees to that itself.
    methods: tuple[str, ...] = field(default=(), kw_only=False)
    role: Role | str
    #: Of methods that change something; None: the same.
    change: Role | None = None
    #: Its entry of the navigation, or the name of the entry's address that it is a part of.
    nav: Nav | str = ""
    of: Words = field(default_factory=dict)
    #: What the access record may note of a GET.
    record: tuple[Action, ...] = ()
    #: A token of scope ``export`` may use it though it changes something.
    exports: bool = False
    #: Open pages ask for it by themselves: it keeps no session alive.
    polled: bool = False

    def __call__(self, view: View) -> View:
        """Mark a view: ``@page(GET, role=…)``."""
        if self.methods:
            view = require_http_methods(self.methods)(view)
        view.replview_page = self  # type: ignore[attr-defined]
        return view

    def role_for(self, method: str) -> Role | str:
        """What it asks of whoever comes with this method."""
        return self.role if self.change is None or method in SAFE_METHODS else self.change

    def check_words(self, words: Mapping[str, object]) -> None:
        """Raise ``Http404`` for what is not visible, and for a word that the page does not name."""
        for word, value in words.items():
            if word not in self.of:
                raise Http404("there is no such thing")
            model = self.of[word]
            key = "name" if word.endswith("_name") else "pk"
            # Each of these models leaves out what is not visible to whoever asks.
            if model is not None and not model.objects.filter(**{key: value}).exists():
                raise Http404("there is no such thing")


#: Say what holds of the address that leads to the view below.
page = Page


def page_of(view: object, method: str = "GET") -> Page | None:
    """What ``@page`` says of a view; None: it has none, so that nobody may open it."""
    facts = getattr(view, "replview_page", None)
    # The API answers several methods at one address, each by a function of its own.
    if isinstance(facts, dict):
        facts = facts.get(method) or next(iter(facts.values()))
    return facts if isinstance(facts, Page) else None


def page_named(name: str, method: str = "GET") -> Page | None:
    """The same by the address's full name."""
    return page_of(_views().get(name), method)


def navigation() -> Iterator[tuple[str, Nav]]:
    """The entries of the navigation, each with the name of its address, in the order of urls."""
    for name, view in _views().items():
        facts = page_of(view)
        if facts is not None and isinstance(facts.nav, Nav):
            yield name, facts.nav


@lru_cache(1)
def _views() -> dict[str, object]:
    return dict(_walk(get_resolver().url_patterns, ""))


def _walk(patterns: list[URLPattern | URLResolver], space: str) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
            yield from _walk(pattern.url_patterns, inner)
        else:
            yield f"{space}{pattern.name}", pattern.callback
