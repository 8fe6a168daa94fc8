"""What the address of the access record asks for, and the choices its toolbar offers."""

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from replview.access.reading import AccessFilter, Place, names_of
from replview.store.write.access_record import Action, Via
from replview.ui.params import Params

#: Word in the address → what the page calls it, and how far back; None: all there is.
RANGES: dict[str, tuple[str, dt.timedelta | None]] = {
    "1h": ("1 h", dt.timedelta(hours=1)),
    "24h": ("24 h", dt.timedelta(hours=24)),
    "7d": ("7 d", dt.timedelta(days=7)),
    "30d": ("30 d", dt.timedelta(days=30)),
    "all": ("all", None),
}
_DEFAULT_RANGE = "7d"
_TEXT_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for; anything else is as if not asked."""

    action: str = ""
    user: str = ""
    source: str = ""
    table: str = ""
    via: str = ""
    range: str = _DEFAULT_RANGE
    #: Where the page before ended.
    before: Place | None = None

    @property
    def filtered(self) -> bool:
        """Whether anything narrows the list besides the time."""
        return bool(self.action or self.user or self.source or self.table or self.via)

    @property
    def filter(self) -> AccessFilter:
        """The same as the store reads it."""
        length = RANGES[self.range][1]
        return AccessFilter(
            action=self.action,
            user=self.user,
            source=self.source,
            table=self.table,
            via=self.via,
            since=None if length is None else timezone.now() - length,
        )

    def words(self) -> dict[str, str]:
        """The filter as parameters, its place apart."""
        words = {
            "action": self.action,
            "user": self.user,
            "source": self.source,
            "table": self.table,
            "via": self.via,
            "range": self.range if self.range != _DEFAULT_RANGE else "",
        }
        return {name: word for name, word in words.items() if word}

    def url(self, name: str = "access-record", **changed: Any) -> str:
        """The page with some of it changed; from its beginning, unless told where."""
        asked = replace(self, **{"before": None, **changed})
        words = asked.words() | ({"before": str(asked.before)} if asked.before else {})
        query = urlencode(words, safe="/:")
        return f"{reverse(name)}{'?' if query else ''}{query}"

    def file_url(self, form: str) -> str:
        """All that is asked for, as a file."""
        query = urlencode({**self.words(), "format": form}, safe="/:")
        return f"{reverse('access-record-file')}?{query}"


def wanted_of(request: HttpRequest) -> Wanted:
    """Read the address; whatever cannot be meant is left out."""
    asked = Params(request.GET)
    return Wanted(
        action=asked.choice("action", Action.values),
        user=asked.text("user", _TEXT_LIMIT),
        source=asked.text("source", _TEXT_LIMIT),
        table=asked.text("table", _TEXT_LIMIT),
        via=asked.choice("via", Via.values),
        range=asked.choice("range", RANGES, _DEFAULT_RANGE),
        before=Place.parse(request.GET.get("before", "")),
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """A menu of the toolbar: its word, what is chosen, and (word, address, chosen)."""

    word: str
    chosen: str
    entries: list[tuple[str, str, bool]]


def choices(wanted: Wanted) -> list[Choice]:
    """The toolbar's menus."""
    actions = [(str(action.label), str(action.value)) for action in Action]
    vias = [(str(via.label), str(via.value)) for via in Via]
    return [
        _choice(wanted, "Who", "user", [(name, name) for name in names_of("user_name")]),
        _choice(wanted, "What", "action", actions),
        _choice(wanted, "Source", "source", [(name, name) for name in names_of("source_name")]),
        _choice(wanted, "By", "via", vias),
    ]


def _choice(wanted: Wanted, word: str, name: str, values: list[tuple[str, str]]) -> Choice:
    now = getattr(wanted, name)
    entries = [("Any", wanted.url(**{name: ""}), not now)]
    entries += [(label, wanted.url(**{name: value}), value == now) for label, value in values]
    chosen = next((label for label, value in values if value == now), now)
    return Choice(word, chosen, entries)
