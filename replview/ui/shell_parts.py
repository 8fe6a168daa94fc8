"""The data of the parts around every page, for their templates."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from decoder.scalars import LSN
from replview.health.states import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A page in the navigation."""

    word: str
    #: The name of its address.
    name: str
    url: str
    icon: str
    #: True when the shown page is this one or belongs to it.
    current: bool
    #: The number beside the link; None where nothing is counted.
    count: int | None
    #: The name of the counted things.
    count_of: str
    #: True when the count is of something bad.
    danger: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NavGroup:
    """A group of pages in the navigation; the group without a title stands apart."""

    title: str
    pages: list[PageLink]

    @property
    def apart(self) -> bool:
        """Return whether the group stands apart."""
        return not self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeHealth:
    """The health of the chosen slot, or of all sources."""

    level: Level
    word: str
    #: Words beside the health: a rate, or the retained WAL.
    rest: str = ""
    #: The confirmed position of the chosen slot.
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
    #: The pages that are not tabs.
    more: list[PageLink]
    #: The choices of the scope, read when a template uses them.
    scope: Any
    #: The health of the scope; None without sources.
    health: ScopeHealth | None
    checked_at: datetime | None
