"""The access record's page: who did what, when, from where; and its files."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from replview.access.reading import record_json
from replview.features.access_record.filters import RANGES, Choice, Wanted
from replview.store.models import AccessRecord
from replview.text.formats import count_words, plural

PAGE_RECORDS = 100
_TABLES_SHOWN = 3
_PIECE_BYTES = 64 * 1024
#: What a spreadsheet would take for a formula begins with an apostrophe.
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
_COLUMNS = ("id", "at", "action", "user", "via", "address", "request_id", "page", "subject",
            "source", "tables", "details")  # fmt: skip
#: Told by the line itself, or of no use on it.
_TOLD = {"relations"}


@dataclass(frozen=True, slots=True)
class Line:
    """One record as the page tells it."""

    record: AccessRecord

    @property
    def what(self) -> str:
        """``viewed rows``."""
        return str(self.record.get_action_display())

    @property
    def who(self) -> str:
        """The name, or that there was none."""
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
        details = self.record.details
        told = [_fact(name, value) for name, value in details.items() if name not in _TOLD]
        return " · ".join(fact for fact in told if fact)

    @property
    def via(self) -> str:
        """``page``, ``API``, ``live``, ``command``."""
        return str(self.record.get_via_display())


@dataclass(frozen=True, slots=True)
class AccessPage:
    """What the page shows."""

    wanted: Wanted
    lines: list[Line]
    following_url: str
    choices: list[Choice]

    @property
    def title(self) -> str:
        """The page's sentence."""
        length = RANGES[self.wanted.range][1]
        when = "" if length is None else f" in the last {RANGES[self.wanted.range][0]}"
        if not self.lines:
            return f"Nothing {'of that ' if self.wanted.filtered else ''}was recorded{when}."
        people = len({line.record.user_name for line in self.lines} - {""})
        earlier = " on this page; there is more" if self.following_url else when
        return f"{plural(len(self.lines), 'act')} of {plural(people, 'person', 'people')}{earlier}."

    @property
    def cause(self) -> str:
        """What the record is."""
        return (
            "Who looked at rows, took some out or changed something. No line of it can be changed "
            "or deleted."
        )

    @property
    def ranges(self) -> list[tuple[str, str, bool]]:
        """(word, address, chosen)."""
        return [
            (word, self.wanted.url(range=name), name == self.wanted.range)
            for name, (word, _) in RANGES.items()
        ]

    @property
    def clear_url(self) -> str:
        """Without filters."""
        return Wanted(range=self.wanted.range).url()

    @property
    def all_url(self) -> str:
        """Over all of the time."""
        return self.wanted.url(range="all")

    @property
    def first_url(self) -> str:
        """From the newest on."""
        return self.wanted.url()

    @property
    def files(self) -> list[tuple[str, str]]:
        """(word, address)."""
        return [("CSV", self.wanted.file_url("csv")), ("JSON lines", self.wanted.file_url("jsonl"))]


def _fact(name: str, value: Any) -> str:
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


def json_pieces(records: Iterable[AccessRecord]) -> Iterator[bytes]:
    """A record a line."""
    piece = bytearray()
    for record in records:
        piece += orjson.dumps(record_json(record)) + b"\n"
        if len(piece) > _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def csv_pieces(records: Iterable[AccessRecord]) -> Iterator[bytes]:
    """A heading, then a record a line; tables with blanks between, details as JSON."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(_COLUMNS)
    for record in records:
        facts = record_json(record)
        facts["tables"] = " ".join(facts["tables"])
        facts["details"] = orjson.dumps(facts["details"]).decode()
        writer.writerow([_safe(facts[name]) for name in _COLUMNS])
        if buffer.tell() > _PIECE_BYTES:
            yield _taken(buffer)
    yield _taken(buffer)


def _safe(value: Any) -> Any:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_RISKY) else value


def _taken(buffer: io.StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode()
