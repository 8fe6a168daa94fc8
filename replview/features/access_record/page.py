"""All that the page of the access record shows, and what its address asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from replview.access.reading import AccessFilter, Place, names_of, read
from replview.store.models import AccessRecord
from replview.store.write.access_record import Action, Via
from replview.text.formats import count_words, plural
from replview.ui.params import RANGES, Params

_DEFAULT_RANGE = "7d"
#: Of a query: what narrows it besides the time.
_NARROWING = ("action", "user", "source", "table", "via")
_TEXT_LIMIT = 300
PAGE_RECORDS = 100
_TABLES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RecordQuery:
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
        return any(getattr(self, name) for name in _NARROWING)

    @property
    def filter(self) -> AccessFilter:
        """The same as the store reads it."""
        length = RANGES[self.range][1]
        since = None if length is None else timezone.now() - length
        return AccessFilter(**{name: getattr(self, name) for name in _NARROWING}, since=since)

    def words(self) -> dict[str, str]:
        """The filter as parameters, its place apart."""
        words = {name: getattr(self, name) for name in _NARROWING}
        words["range"] = self.range if self.range != _DEFAULT_RANGE else ""
        return {name: word for name, word in words.items() if word}

    def url(self, name: str = "access-record", **changed: Any) -> str:
        """The page with some of it changed; from its beginning, unless told where."""
        asked = replace(self, **{"before": None, **changed})
        words = asked.words() | ({"before": str(asked.before)} if asked.before else {})
        query = urlencode(words, safe="/:")
        return f"{reverse(name)}{'?' if query else ''}{query}"

    def file_url(self, form: str) -> str:
        query = urlencode({**self.words(), "format": form}, safe="/:")
        return f"{reverse('access-record-file')}?{query}"


def wanted_of(query: Mapping[str, str]) -> RecordQuery:
    asked = Params(query)
    return RecordQuery(
        action=asked.choice("action", Action.values),
        user=asked.text("user", _TEXT_LIMIT),
        source=asked.text("source", _TEXT_LIMIT),
        table=asked.text("table", _TEXT_LIMIT),
        via=asked.choice("via", Via.values),
        range=asked.choice("range", RANGES, _DEFAULT_RANGE),
        before=Place.parse(query.get("before", "")),
    )


@dataclass(frozen=True, slots=True)
class Menu:
    """A menu of the toolbar: its word, what is chosen, and (word, address, chosen)."""

    word: str
    chosen: str
    entries: list[tuple[str, str, bool]]


def choices(wanted: RecordQuery) -> list[Menu]:
    actions = [(str(action.label), str(action.value)) for action in Action]
    vias = [(str(via.label), str(via.value)) for via in Via]
    return [
        _choice(wanted, "Who", "user", [(name, name) for name in names_of("user_name")]),
        _choice(wanted, "What", "action", actions),
        _choice(wanted, "Source", "source", [(name, name) for name in names_of("source_name")]),
        _choice(wanted, "By", "via", vias),
    ]


def _choice(wanted: RecordQuery, word: str, name: str, values: list[tuple[str, str]]) -> Menu:
    now = getattr(wanted, name)
    entries = [("Any", wanted.url(**{name: ""}), not now)]
    entries += [(label, wanted.url(**{name: value}), value == now) for label, value in values]
    chosen = next((label for label, value in values if value == now), now)
    return Menu(word, chosen, entries)


@dataclass(frozen=True, slots=True)
class Line:
    record: AccessRecord

    @property
    def what(self) -> str:
        """``viewed rows``."""
        return str(self.record.get_action_display())

    @property
    def who(self) -> str:
        return self.record.user_name or "nobody signed in"

    @property
    def tables(self) -> str:
        """The first of its tables and how many more there are; empty: none."""
        names = self.record.tables
        more = int(self.record.details.get("relations", len(names))) - _TABLES_SHOWN
        shown = ", ".join(names[:_TABLES_SHOWN])
        return f"{shown} and {count_words(more)} more" if more > 0 else shown

    @property
    def facts(self) -> str:
        """``120 rows · transaction 41``: what it did, never a value."""
        # Tables are told beside.
        details = {k: v for k, v in self.record.details.items() if k != "relations"}
        return " · ".join(fact for item in details.items() if (fact := _fact(*item)))

    @property
    def via(self) -> str:
        """``page``, ``API``, ``live``, ``command``."""
        return str(self.record.get_via_display())


@dataclass(frozen=True, slots=True)
class AccessPage:
    wanted: RecordQuery
    lines: list[Line]
    following_url: str
    choices: list[Menu]
    cause = (
        "Who looked at rows, took some out or changed something. No line of it can be changed or "
        "deleted."
    )

    @property
    def title(self) -> str:
        length = RANGES[self.wanted.range][1]
        when = "" if length is None else f" in the last {RANGES[self.wanted.range][0]}"
        if not self.lines:
            return f"Nothing {'of that ' if self.wanted.filtered else ''}was recorded{when}."
        people = len({line.record.user_name for line in self.lines} - {""})
        earlier = " on this page; there is more" if self.following_url else when
        return f"{plural(len(self.lines), 'act')} of {plural(people, 'person', 'people')}{earlier}."

    @property
    def ranges(self) -> list[tuple[str, str, bool]]:
        """(word, address, chosen)."""
        return [
            (word, self.wanted.url(range=name), name == self.wanted.range)
            for name, (word, _) in RANGES.items()
        ]

    @property
    def clear_url(self) -> str:
        return RecordQuery(range=self.wanted.range).url()

    @property
    def all_url(self) -> str:
        return self.wanted.url(range="all")

    @property
    def files(self) -> list[tuple[str, str]]:
        """(word, address)."""
        return [("CSV", self.wanted.file_url("csv")), ("JSON lines", self.wanted.file_url("jsonl"))]


def read_access_page(wanted: RecordQuery) -> AccessPage:
    """Read one page of the record, the newest first."""
    rows, older = read(wanted.filter, before=wanted.before, limit=PAGE_RECORDS)
    following = wanted.url(before=older) if older else ""
    return AccessPage(wanted, [Line(record) for record in rows], following, choices(wanted))


def _fact(name: str, value: object) -> str:
    word = name.replace("_", " ")
    if value is None or value == [] or value == "" or value is False:
        return ""
    if value is True:
        return word
    if isinstance(value, int) and name in ("rows", "characters", "columns", "transactions"):
        return plural(value, word.removesuffix("s"), word)
    if isinstance(value, list):
        return f"{word} {', '.join(str(one) for one in value[:10])}"
    if isinstance(value, dict):
        return f"{word} {', '.join(f'{key} {one}' for key, one in list(value.items())[:10])}"
    return f"{word} {value}"
