"""The parts of a shown change: its cells, its columns with before and after, and its block."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replview.store.read.changes.values import erased_words
from replview.text.formats import bytes_words, count_words
from replview.ui.changes.value_diff import JSONDiff, TextDiff, indented

#: Most characters of a value; longer ones are cut, with "show all".
CUT_CHARACTERS = 300
#: Most characters of a before and an after side by side in the drawer.
_SIDE_BY_SIDE = (10, 15)


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as shown, or words that stand for it."""

    text: str
    #: ``value``, ``null``, ``empty`` (an empty text), ``quoted`` (a text that looks like
    #: something else), ``marked`` (words instead of the value), ``unknown``.
    kind: str = "value"
    #: Characters of the whole value where it was cut.
    length: int | None = None
    #: The image with the whole value: ``old``, ``new``, or ``before`` for a derived one.
    side: str = ""
    derived: bool = False


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A column of a change; a side that is None has no cell."""

    name: str
    type: str
    before: Cell | None
    after: Cell | None
    #: The difference of two JSON documents, by line.
    json: JSONDiff | None = None
    #: The difference of two long texts, by word.
    text: TextDiff | None = None
    #: True when the column is part of the row's key.
    key: bool = False
    #: True when there is one side only because the value did not change.
    same: bool = False

    @property
    def stacked(self) -> bool:
        """Return whether before and after are too long to fit side by side in a narrow place."""
        sizes = [len(side.text) if side else 0 for side in (self.before, self.after)]
        return sizes[0] > _SIDE_BY_SIDE[0] or sizes[1] > _SIDE_BY_SIDE[1]


def cell(value: object, side: str, *, derived: bool = False, json: bool = False) -> Cell:
    """Return the cell of a value: the server's text, NULL, or words for a marked form.

    ``json`` formats a JSON document with one line a member.
    """
    side = "before" if derived else side
    if value is None:
        return Cell("null", "null", side=side, derived=derived)
    if isinstance(value, Mapping):
        if "$cut" in value:
            head = str(value["$head"])[:CUT_CHARACTERS]
            return Cell(head, length=int(value["$cut"]), side=side, derived=derived)
        mark_text, length = _describe_mark(value)
        return Cell(mark_text, "marked", length=length, side=side, derived=derived)
    text = str(value)
    if not text:
        return Cell("empty text", "empty", side=side, derived=derived)
    display = (indented(text) if json else None) or text
    if len(display) > CUT_CHARACTERS:
        return Cell(display[:CUT_CHARACTERS], length=len(text), side=side, derived=derived)
    kind = "quoted" if text.lower() == "null" or text != text.strip() else "value"
    return Cell(display, kind, side=side, derived=derived)


def _describe_mark(value: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return words for a marked form, and its length if the whole value can be requested."""
    if "$erased" in value:
        return erased_words(value), None
    if "$masked" in value:
        return "masked", None
    if "$aside" in value:
        return f"{count_words(int(value['$aside']))} characters, kept aside", int(value["$aside"])
    if "$too_large" in value:
        return f"too large: {int(value['$too_large']):,} bytes, sha256 {value['$sha256']}", None
    for mark, description in (("$binary", "binary, not decoded"), ("$bytes", "bytes, not text")):
        if mark in value:
            size = len(str(value[mark])) * 3 // 4
            return f"{description}, {bytes_words(size)}", None
    return "a form this version does not know", None


@dataclass(slots=True)
class Block:
    """A change as shown: its heading, key and columns."""

    seq: int
    op: str
    operation: str
    table: str
    schema: str
    version: int | None
    #: The row's key as shown. ``key_values`` has the full key, empty where it is unknown.
    key: list[tuple[str, str]]
    key_values: dict[str, str | None] = field(default_factory=dict)
    #: 0 when the change is not in the store, but from a peek into a slot.
    transaction_id: int = 0
    relation_id: int | None = None
    #: ``sent``, ``derived``, ``key`` or ``unknown``; empty where the change has no before.
    before: str = ""
    before_from: str = ""
    #: The transaction that gave a derived before: its id, name and commit time.
    before_id: int | None = None
    before_name: str = ""
    before_time: datetime | None = None
    lines: list[ColumnLine] = field(default_factory=list)
    #: Folded columns: the unchanged ones of an update, else those beyond the first few.
    folded: list[ColumnLine] = field(default_factory=list)
    fold_word: str = ""
    #: Names of columns that are left out because the row is very wide.
    left_out: list[str] = field(default_factory=list)
    not_sent: list[str] = field(default_factory=list)
    #: True for an update that changed no value, as far as all are known.
    changed_nothing: bool = False
    words: str = ""
    content: Cell | None = None
    subxid: int | None = None
    #: True when its subtransaction was rolled back: it is kept, and marked.
    aborted: bool = False
    #: True when the current account has no right to see its values.
    hidden: bool = False
    #: Why it cannot be undone; empty where it can.
    undo_problem: str = ""

    @property
    def two_sided(self) -> bool:
        """Return whether the change is an update with a before."""
        return self.op == "U" and any(line.before for line in self.lines)

    @property
    def fold_names(self) -> list[str]:
        """Return the names of the first folded columns, at most 24."""
        return [line.name for line in self.folded[:24]] + self.left_out[: 24 - len(self.folded)]

    @property
    def fold_count(self) -> int:
        """Return the number of folded and left-out columns."""
        return len(self.folded) + len(self.left_out)
