"""The lines of a slot's log as pages show them: kinds with a word and a symbol, and details."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from replview.access.visibility import reading_session
from replview.store.models import SlotEvent
from replview.store.read.seen import seen_statements

FRESH = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class LogLineKind:
    """The kind of a line: ``symbol`` is an icon's name, ``tone`` a health's name or empty."""

    word: str
    symbol: str
    tone: str = ""
    #: True when the record lacks something here, so that the row is hatched.
    hole: bool = False


#: Kinds that the receiver and the commands write. Pages show any other by its own name.
KINDS: Mapping[str, LogLineKind] = {
    "connected": LogLineKind("connected", "health-ok", "ok"),
    "disconnected": LogLineKind("disconnected", "health-look", "look"),
    "problem": LogLineKind("problem", "health-now", "now"),
    "stopped": LogLineKind("stopped", "health-idle", "idle"),
    "taken_over": LogLineKind("taken over", "health-look", "look"),
    "lost_end": LogLineKind("end unknown", "health-look", "look"),
    "discarded": LogLineKind("discarded", "undo", "idle"),
    "resent": LogLineKind("re-sent", "up", "idle"),
    "gap": LogLineKind("gap", "health-look", "look", hole=True),
    "retention": LogLineKind("deleted", "health-look", "look", hole=True),
    "archive": LogLineKind("archive", "table", "look"),
    "quarantined": LogLineKind("quarantined", "health-now", "now"),
    "retried": LogLineKind("tried again", "play", "idle"),
    "skipped": LogLineKind("skipped", "health-look", "look", hole=True),
    "failover": LogLineKind("failed over", "health-look", "look"),
    "moved": LogLineKind("moved", "health-look", "look"),
    "wraparound": LogLineKind("xid wraparound", "gap", "idle"),
    "schema": LogLineKind("schema", "table", "idle"),
    "publication": LogLineKind("published", "table", "look", hole=True),
    "baseline": LogLineKind("baseline", "state-snapshot", "idle"),
    "alert": LogLineKind("alert", "alerts", "look"),
    "alert_cleared": LogLineKind("alert over", "alerts", "idle"),
    "budget": LogLineKind("WAL budget", "gauge", "look"),
    "heartbeat": LogLineKind("heartbeat", "live", "idle"),
    "created": LogLineKind("created", "slot", "idle"),
    "adopted": LogLineKind("adopted", "slot", "idle"),
    "managed": LogLineKind("by hand", "slot", "idle"),
    "tables": LogLineKind("tables", "table", "idle"),
}


def kind_of(name: str) -> LogLineKind:
    """Return the kind of this name; an unknown one has its name and a plain symbol."""
    return KINDS.get(name) or LogLineKind(
        name.replace("_", " ") or "unknown kind", "health-idle", "idle"
    )


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log, ready to show."""

    event: SlotEvent
    kind: LogLineKind
    #: Names and values; a value may have several lines.
    detail: list[tuple[str, str]]
    #: The query of the address that shows this line first.
    query: str

    @property
    def compare_url(self) -> str:
        """Return the address that compares a schema change's versions; empty for other kinds."""
        detail = self.event.detail if self.event.kind == "schema" else None
        version = detail.get("version_id") if isinstance(detail, Mapping) else None
        return reverse("relation-version", args=[version]) if isinstance(version, int) else ""

    @property
    def fresh(self) -> bool:
        """Return whether the line is new since about the last poll, and gets a tint that fades."""
        return timezone.now() - self.event.at < FRESH


def lines_of(events: Iterable[SlotEvent], kinds: list[str]) -> list[LogLine]:
    """Return the lines of a page of the log that is filtered by ``kinds``."""
    as_seen = partial(seen_statements, visibility=reading_session().visibility)
    return [
        LogLine(
            event, kind_of(event.kind), detail_of(as_seen(event.detail)), query_of(kinds, event.pk)
        )
        for event in events
    ]


def query_of(kinds: Iterable[str], start: int | None = None) -> str:
    """Return ``kind=gap&kind=problem&from=12``; empty for all kinds from the newest."""
    pairs = [("kind", kind) for kind in kinds]
    if start is not None:
        pairs.append(("from", str(start)))
    return urlencode(pairs)


def choices_of(chosen: list[str]) -> list[dict[str, object]]:
    """Return every known kind and the chosen unknown ones, as choices.

    Each has ``name``, ``kind``, ``chosen``, and the ``query`` that toggles it.
    """
    names = [*KINDS, *(name for name in chosen if name not in KINDS)]
    choices = []
    for name in names:
        other_kinds = [other for other in chosen if other != name]
        toggled = other_kinds if name in chosen else [*chosen, name]
        choices.append({"name": name, "kind": kind_of(name), "chosen": name in chosen,
                        "query": query_of(toggled)})  # fmt: skip
    return choices


def detail_of(detail: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the line's details as text; empty ones are left out."""
    if not isinstance(detail, Mapping):
        return []
    return [
        (str(name).replace("_", " "), _text(value))
        for name, value in detail.items()
        if value not in (None, "", [], {})
    ]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return "\n".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
