"""Rows of text plugins → the changes they make, for tests that look at a few."""

from __future__ import annotations

from decoder.events import ChangeEvent, ChangeRun, Event, RelationSeen
from decoder.messages import RelationMessage
from decoder.plugins.shapes import ColumnsOf
from decoder.plugins.test_decoding import TestDecodingAssembler


def changes_in(events: list[Event]) -> list[ChangeEvent]:
    """All changes, in order."""
    return [change for event in events if isinstance(event, ChangeRun) for change in event.changes]


def events_of(*texts: str, columns_of: ColumnsOf | None = None) -> list[Event]:
    """Return the events that test_decoding's rows make in one transaction."""
    rows = [(2, 7, text) for text in texts]
    assembler = TestDecodingAssembler(columns_of=columns_of)
    return assembler.feed([(1, 7, "BEGIN 7"), *rows, (3, 7, "COMMIT 7")])


def changes_of(*texts: str, columns_of: ColumnsOf | None = None) -> list[ChangeEvent]:
    """The changes that test_decoding's rows make in one transaction."""
    return changes_in(events_of(*texts, columns_of=columns_of))


def relations_of(*texts: str, columns_of: ColumnsOf | None = None) -> list[RelationMessage]:
    """The shapes that test_decoding's rows put in force."""
    events = events_of(*texts, columns_of=columns_of)
    return [event.relation for event in events if isinstance(event, RelationSeen)]


def one_change(text: str) -> ChangeEvent:
    """The one change that a row of test_decoding makes."""
    (change,) = changes_of(text)
    return change
