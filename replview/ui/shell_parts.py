"""The parts of what surrounds every page, as its templates read them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from replview.health.states import Level
from replview.store.fields import LSN


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A page in the navigation."""

    word: str
    #: The name of its address.
    name: str
    url: str
    icon: str
    #: Whether it is the page that is shown, or that one is a part of it.
    current: bool
    #: None where there is nothing to count.
    count: int | None
    #: What is counted.
    count_of: str
    #: Whether the count is of something bad.
    danger: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NavGroup:
    """Pages of the navigation under one title; the group without a title stands apart."""

    title: str
    pages: list[PageLink]

    @property
    def apart(self) -> bool:
        return not self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeHealth:
    """The health of the slot that is chosen, or of all sources."""

    level: Level
    word: str
    #: What is told beside the word: a rate, or how much WAL is retained.
    rest: str = ""
    #: Up to where the chosen slot is confirmed.
    lsn: LSN | None = None
    title: str = ""
    cause: str = ""
    next: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Navigation, tabs, scope and health."""

    navigation: list[NavGroup]
    demo: bool
    pages: list[PageLink]
    tabs: list[PageLink]
    #: The pages that are no tabs.
    more: list[PageLink]
    #: What may be chosen, read when a template asks for it.
    scope: Any
    #: None where there is no source.
    health: ScopeHealth | None
    checked_at: datetime | None
