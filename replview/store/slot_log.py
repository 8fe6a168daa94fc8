"""Add lines to a slot's log, and read it a page at a time, newest first."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from replview.store.models import Slot, SlotEvent

#: Numbers to look back: a line of a long transaction becomes visible after lines with higher
#: numbers.
_LOOK_BACK = 200


def add_line(slot: Slot, kind: str, message: str, **columns: Any) -> None:
    """Add a line for the slot's current incarnation; ``columns`` has further ones."""
    SlotEvent.objects.create(
        slot=slot, incarnation_id=slot.incarnation_id, kind=kind, message=message, **columns
    )


def after_seq(slot: Slot) -> int:
    """Return the place in history of a new line: the current incarnation's last commit_seq."""
    return slot.incarnation.commit_seq if slot.incarnation else 0


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of a slot's log."""

    lines: list[SlotEvent]
    #: First line of the next older page; None at the log's beginning.
    older: SlotEvent | None


def read_log(
    slot: Slot, *, kinds: Collection[str] = (), start: SlotEvent | None = None, limit: int = 50
) -> LogPage:
    """Return a page of lines from ``start`` (included; None: the newest) back, of these kinds."""
    events = SlotEvent.objects.filter(slot=slot)
    if kinds:
        events = events.filter(kind__in=list(kinds))
    if start is not None:
        # The index on (slot, at) needs the condition on ``at`` alone.
        older = Q(at__lt=start.at) | Q(at=start.at, pk__lte=start.pk)
        events = events.filter(older, at__lte=start.at)
    lines = list(events.order_by("-at", "-pk")[: limit + 1])
    return LogPage(lines[:limit], lines[limit] if len(lines) > limit else None)


def line_of(slot: Slot, line_id: int) -> SlotEvent | None:
    """Return one line by its number; None where the slot's log has no such line."""
    return SlotEvent.objects.filter(slot=slot, pk=line_id).first()


class LogReader:
    """A follower of a log: each call of ``fresh`` returns the lines since the call before.

    Create it before the first page is read: a line may then be returned twice, but none is missed.
    """

    def __init__(self, slot: Slot, kinds: Collection[str] = ()) -> None:
        self._slot = slot
        self._kinds = kinds
        newest = SlotEvent.objects.filter(slot=slot).order_by("-pk").first()
        self._newest = newest.pk if newest else 0
        self._seen = set(self._recent().values_list("pk", flat=True))

    def _recent(self) -> QuerySet[SlotEvent]:
        return SlotEvent.objects.filter(slot=self._slot, pk__gt=self._newest - _LOOK_BACK)

    def fresh(self) -> Iterator[SlotEvent]:
        """Return the lines in the order in which they were written."""
        lines = list(self._recent().exclude(pk__in=self._seen).order_by("at", "pk"))
        self._newest = max([self._newest, *(line.pk for line in lines)])
        self._seen.update(line.pk for line in lines)
        self._seen = {pk for pk in self._seen if pk > self._newest - _LOOK_BACK}
        yield from (line for line in lines if not self._kinds or line.kind in self._kinds)
