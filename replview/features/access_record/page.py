"""The contents of the access record's page, and the filters in its address."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from replview.access.reading import AccessFilter, RecordPosition, names_of, read
from replview.store.models import AccessRecord
from replview.store.write.access_record import Action, Via
from replview.text.formats import count_words, plural
from replview.ui.params import RANGES, Params

_DEFAULT_RANGE = "7d"
#: Names of the filters besides the time range.
_FILTER_NAMES = ("action", "user", "source", "table", "via")
_TEXT_LIMIT = 300
PAGE_RECORDS = 100
_TABLES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """The filters in the page's address; unknown values are ignored."""

    action: str = ""
    user: str = ""
    source: str = ""
    table: str = ""
    via: str = ""
    range: str = _DEFAULT_RANGE
    #: The last entry of the page before; None on the first page.
    before: RecordPosition | None = None

    @property
    def filtered(self) -> bool:
        """Return whether any filter besides the time range is set."""
        return any(getattr(self, name) for name in _FILTER_NAMES)

    @property
    def filter(self) -> AccessFilter:
        """Return the filters in the form that reads the store."""
        length = RANGES[self.range][1]
        since = None if length is None else timezone.now() - length
        return AccessFilter(**{name: getattr(self, name) for name in _FILTER_NAMES}, since=since)

    def words(self) -> dict[str, str]:
        """Return the filters as address parameters, without the place in the list."""
        params = {name: getattr(self, name) for name in _FILTER_NAMES}
        params["range"] = self.range if self.range != _DEFAULT_RANGE else ""
        return {name: value for name, value in params.items() if value}

    def url(self, name: str = "access-record", **changed: Any) -> str:
        """Return the address with some parameters changed; it begins at the first page."""
        filters = replace(self, **{"before": None, **changed})
        params = filters.words() | ({"before": str(filters.before)} if filters.before else {})
        query = urlencode(params, safe="/:")
        return f"{reverse(name)}{'?' if query else ''}{query}"

    def file_url(self, form: str) -> str:
        """Return the address that downloads the filtered record in this format."""
        query = urlencode({**self.words(), "format": form}, safe="/:")
        return f"{reverse('access-record-file')}?{query}"


def wanted_of(query: Mapping[str, str]) -> RecordQuery:
    """Parse the address parameters."""
    params = Params(query)
    return RecordQuery(
        action=params.choice("action", Action.values),
        user=params.text("user", _TEXT_LIMIT),
        source=params.text("source", _TEXT_LIMIT),
        table=params.text("table", _TEXT_LIMIT),
        via=params.choice("via", Via.values),
        range=params.choice("range", RANGES, _DEFAULT_RANGE),
        before=RecordPosition.parse(query.get("before", "")),
    )


@dataclass(frozen=True, slots=True)
class Menu:
    """A menu of the toolbar: its label, the chosen value, and (label, address, chosen)."""

    word: str
    chosen: str
    entries: list[tuple[str, str, bool]]


def choices(query: RecordQuery) -> list[Menu]:
    """Build the filter menus of the toolbar."""
    actions = [(str(action.label), str(action.value)) for action in Action]
    vias = [(str(via.label), str(via.value)) for via in Via]
    return [
        _menu(query, "Who", "user", [(name, name) for name in names_of("user_name")]),
        _menu(query, "What", "action", actions),
        _menu(query, "Source", "source", [(name, name) for name in names_of("source_name")]),
        _menu(query, "By", "via", vias),
    ]


def _menu(query: RecordQuery, title: str, name: str, values: list[tuple[str, str]]) -> Menu:
    current = getattr(query, name)
    entries = [("Any", query.url(**{name: ""}), not current)]
    entries += [(label, query.url(**{name: value}), value == current) for label, value in values]
    chosen = next((label for label, value in values if value == current), current)
    return Menu(title, chosen, entries)


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One entry of the record as the page shows it."""

    record: AccessRecord

    @property
    def what(self) -> str:
        """Return the action in words, such as ``viewed rows``."""
        return str(self.record.get_action_display())

    @property
    def who(self) -> str:
        """Return the account's name, or a phrase for a request without an account."""
        return self.record.user_name or "not signed in"

    @property
    def tables(self) -> str:
        """Return the first tables and the number of further ones; empty if there are none."""
        names = self.record.tables
        more_count = int(self.record.details.get("relations", len(names))) - _TABLES_SHOWN
        shown = ", ".join(names[:_TABLES_SHOWN])
        return f"{shown} and {count_words(more_count)} more" if more_count > 0 else shown

    @property
    def facts(self) -> str:
        """Return details such as ``120 rows · transaction 41``; never a value of a row."""
        # The page shows tables in a column of their own.
        details = {k: v for k, v in self.record.details.items() if k != "relations"}
        return " · ".join(fact for item in details.items() if (fact := _detail_text(*item)))

    @property
    def via(self) -> str:
        """Return the way of access: ``page``, ``API``, ``live`` or ``command``."""
        return str(self.record.get_via_display())


@dataclass(frozen=True, slots=True)
class AccessPage:
    """The page of the access record."""

    wanted: RecordQuery
    lines: list[RecordLine]
    following_url: str
    choices: list[Menu]
    cause = (
        "Who viewed rows, exported them or changed something. Entries cannot be changed or deleted."
    )

    @property
    def title(self) -> str:
        """Return the sentence that counts the listed entries and their accounts."""
        length = RANGES[self.wanted.range][1]
        period = "" if length is None else f" in the last {RANGES[self.wanted.range][0]}"
        if not self.lines:
            return f"Nothing {'of that ' if self.wanted.filtered else ''}was recorded{period}."
        people = len({line.record.user_name for line in self.lines} - {""})
        earlier = " on this page; there is more" if self.following_url else period
        return f"{plural(len(self.lines), 'act')} of {plural(people, 'person', 'people')}{earlier}."

    @property
    def ranges(self) -> list[tuple[str, str, bool]]:
        """Return the time ranges as (label, address, chosen)."""
        return [
            (label, self.wanted.url(range=name), name == self.wanted.range)
            for name, (label, _) in RANGES.items()
        ]

    @property
    def clear_url(self) -> str:
        """Return the address without filters, with the same time range."""
        return RecordQuery(range=self.wanted.range).url()

    @property
    def all_url(self) -> str:
        """Return the address with the same filters over the whole record."""
        return self.wanted.url(range="all")

    @property
    def files(self) -> list[tuple[str, str]]:
        """Return the downloads as (label, address)."""
        return [("CSV", self.wanted.file_url("csv")), ("JSON lines", self.wanted.file_url("jsonl"))]


def read_access_page(query: RecordQuery) -> AccessPage:
    """Read one page of the record, the newest entry first."""
    rows, older = read(query.filter, before=query.before, limit=PAGE_RECORDS)
    following = query.url(before=older) if older else ""
    return AccessPage(query, [RecordLine(record) for record in rows], following, choices(query))


def _detail_text(name: str, value: object) -> str:
    label = name.replace("_", " ")
    if value is None or value == [] or value == "" or value is False:
        return ""
    if value is True:
        return label
    if isinstance(value, int) and name in ("rows", "characters", "columns", "transactions"):
        return plural(value, label.removesuffix("s"), label)
    if isinstance(value, list):
        return f"{label} {', '.join(str(item) for item in value[:10])}"
    if isinstance(value, dict):
        return f"{label} {', '.join(f'{key} {item}' for key, item in list(value.items())[:10])}"
    return f"{label} {value}"
