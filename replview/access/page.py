"""The table of pages: ``@page`` on a view declares everything about its address.

It declares the methods, the role, the place in the navigation, which arguments of the path name
something that must be visible, and what the access record notes. The middlewares,
the navigation and the links of other pages read it. A view without ``@page`` is refused.
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
#: No login is needed: for the login page, and for views that check the caller themselves.
EVERYONE: Final = "everyone"
#: Every account, even without a role.
SIGNED_IN: Final = "signed in"
#: Methods that change nothing.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Combinations of HTTP methods that an address accepts.
GET, POST, GET_POST = ("GET",), ("POST",), ("GET", "POST")
SAFE, READ_POST = ("GET", "HEAD"), ("GET", "HEAD", "POST")

#: Arguments of a path → the model whose visible objects they name. None: the argument names
#: nothing of a source, or something that belongs to the object of another argument.
PathModels = Mapping[str, type[Any] | None]
OF_SOURCE: PathModels = {"source_name": Source}
OF_SLOT: PathModels = {"source_name": Source, "slot_name": None}
OF_ALERT: PathModels = {"alert_id": Alert}
OF_RULE: PathModels = {"rule_id": AlertRule}

Action = AccessRecord.Action
#: The record of a page that shows rows.
ROWS = (Action.VIEWED_ROWS,)
View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Nav:
    """An entry of the navigation. ``urls.py`` gives the order of entries within a group."""

    group: str
    label: str
    icon: str
    #: The name of the count shown beside the entry; empty for none.
    count: str = ""
    #: True when the page shows one slot, which stays chosen on the next page of this kind.
    one_slot: bool = False
    #: True when a phone shows it at the bottom; the other entries are behind *More*.
    tab: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The declaration of an address: its methods, roles, navigation entry and record."""

    #: Other methods get 405. Empty: the view checks the method itself.
    methods: tuple[str, ...] = field(default=(), kw_only=False)
    role: Role | str
    #: The role for methods that change something; None for the same role.
    change: Role | None = None
    #: Its entry of the navigation, or the name of the entry's address to which it belongs.
    nav: Nav | str = ""
    of: PathModels = field(default_factory=dict)
    #: Actions that the access record may note for a GET.
    record: tuple[Action, ...] = ()
    #: True when a token of scope ``export`` may use the address although it changes something.
    exports: bool = False
    #: True when open pages poll the address; such requests keep no session alive.
    polled: bool = False

    def __call__(self, view: View) -> View:
        """Mark a view with this declaration: ``@page(GET, role=…)``."""
        if self.methods:
            view = require_http_methods(self.methods)(view)
        view.replview_page = self  # type: ignore[attr-defined]
        return view

    def role_for(self, method: str) -> Role | str:
        """Return the role that this method needs."""
        return self.role if self.change is None or method in SAFE_METHODS else self.change

    def check_words(self, arguments: Mapping[str, object]) -> None:
        """Raise ``Http404`` for an object that is not visible, or an argument not declared."""
        for name, value in arguments.items():
            if name not in self.of:
                raise Http404("there is no such thing")
            model = self.of[name]
            key = "name" if name.endswith("_name") else "pk"
            # Each of these models filters by what the current visitor may see.
            if model is not None and not model.objects.filter(**{key: value}).exists():
                raise Http404("there is no such thing")


#: The decorator that declares the address of the view below.
page = Page


def page_of(view: object, method: str = "GET") -> Page | None:
    """Return the ``@page`` of a view; None where it has none, so that nobody may open it."""
    declaration = getattr(view, "replview_page", None)
    # The API answers several methods at one address, each by its own function.
    if isinstance(declaration, dict):
        declaration = declaration.get(method) or next(iter(declaration.values()))
    return declaration if isinstance(declaration, Page) else None


def page_named(name: str, method: str = "GET") -> Page | None:
    """Return the ``@page`` of the address with this full name; None where there is none."""
    return page_of(_views().get(name), method)


def navigation() -> Iterator[tuple[str, Nav]]:
    """Yield the navigation entries with the names of their addresses, in the order of urls."""
    for name, view in _views().items():
        declaration = page_of(view)
        if declaration is not None and isinstance(declaration.nav, Nav):
            yield name, declaration.nav


@lru_cache(1)
def _views() -> dict[str, object]:
    return dict(_named_views(get_resolver().url_patterns, ""))


def _named_views(
    patterns: list[URLPattern | URLResolver], namespace: str
) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner_namespace = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _named_views(pattern.url_patterns, inner_namespace)
        else:
            yield f"{namespace}{pattern.name}", pattern.callback
