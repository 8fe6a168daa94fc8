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
class Kind:
    """What sort of line it is. ``symbol`` is an icon's name, ``tone`` a health's or empty."""

    word: str
    symbol: str
    tone: str = ""
    #: Something is missing from the record here: the row is hatched.
    hole: bool = False


#: Kinds the receiver and the commands write. Any other is shown by its own name, quietly.
KINDS: Mapping[str, Kind] = {
    "connected": Kind("connected", "health-ok", "ok"),
    "disconnected": Kind("disconnected", "health-look", "look"),
    "problem": Kind("problem", "health-now", "now"),
    "stopped": Kind("stopped", "health-idle", "idle"),
    "taken_over": Kind("taken over", "health-look", "look"),
    "lost_end": Kind("end unknown", "health-look", "look"),
    "discarded": Kind("discarded", "undo", "idle"),
    "resent": Kind("re-sent", "up", "idle"),
    "gap": Kind("gap", "health-look", "look", hole=True),
    "retention": Kind("deleted", "health-look", "look", hole=True),
    "archive": Kind("archive", "table", "look"),
    "quarantined": Kind("quarantined", "health-now", "now"),
    "retried": Kind("tried again", "play", "idle"),
    "skipped": Kind("skipped", "health-look", "look", hole=True),
    "failover": Kind("failed over", "health-look", "look"),
    "moved": Kind("moved", "health-look", "look"),
    "wraparound": Kind("xid wraparound", "gap", "idle"),
    "schema": Kind("schema", "table", "idle"),
    "publication": Kind("published", "table", "look", hole=True),
    "baseline": Kind("baseline", "state-snapshot", "idle"),
    "alert": Kind("alert", "alerts", "look"),
    "alert_cleared": Kind("alert over", "alerts", "idle"),
    "budget": Kind("WAL budget", "gauge", "look"),
    "heartbeat": Kind("heartbeat", "live", "idle"),
    "created": Kind("created", "slot", "idle"),
    "adopted": Kind("adopted", "slot", "idle"),
    "managed": Kind("by hand", "slot", "idle"),
    "tables": Kind("tables", "table", "idle"),
}


def kind_of(name: str) -> Kind:
    """Of a kind that we do not know: its name, and a quiet symbol."""
    return KINDS.get(name) or Kind(name.replace("_", " ") or "unknown kind", "health-idle", "idle")


@dataclass(frozen=True, slots=True)
class LogLine:
    event: SlotEvent
    kind: Kind
    #: Names and values; a value of several lines keeps them.
    detail: list[tuple[str, str]]
    #: The query of the address that shows this line on top.
    query: str

    @property
    def compare_url(self) -> str:
        """Of a schema change: the two versions side by side; empty: it is none."""
        detail = self.event.detail if self.event.kind == "schema" else None
        version = detail.get("version_id") if isinstance(detail, Mapping) else None
        return reverse("relation-version", args=[version]) if isinstance(version, int) else ""

    @property
    def fresh(self) -> bool:
        """Written since the page was last polled, or nearly so: shown with a tint that fades."""
        return timezone.now() - self.event.at < FRESH


def lines_of(events: Iterable[SlotEvent], kinds: list[str]) -> list[LogLine]:
    """The lines of a page of the log that is narrowed to ``kinds``."""
    seen = partial(seen_statements, visibility=reading_session().visibility)
    return [
        LogLine(
            event, kind_of(event.kind), detail_of(seen(event.detail)), query_of(kinds, event.pk)
        )
        for event in events
    ]


def query_of(kinds: Iterable[str], start: int | None = None) -> str:
    """``kind=gap&kind=problem&from=12``, without a question mark; empty for all, newest first."""
    pairs = [("kind", kind) for kind in kinds]
    if start is not None:
        pairs.append(("from", str(start)))
    return urlencode(pairs)


def choices_of(chosen: list[str]) -> list[dict[str, object]]:
    """Every kind there is, and those that were asked for by name: ``name``, ``kind``, whether it
    is ``chosen``, and the ``query`` that turns it.
    """
    names = [*KINDS, *(name for name in chosen if name not in KINDS)]
    found = []
    for name in names:
        rest = [other for other in chosen if other != name]
        turned = rest if name in chosen else [*chosen, name]
        found.append({"name": name, "kind": kind_of(name), "chosen": name in chosen,
                      "query": query_of(turned)})  # fmt: skip
    return found


def detail_of(detail: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What the line has beyond its sentence, as text; what is empty is left out."""
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
