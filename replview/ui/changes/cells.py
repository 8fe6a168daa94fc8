"""A change as shown: its values, its columns with their before and after, the block of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replview.store.read.changes.values import erased_words
from replview.text.formats import bytes_words, count_words
from replview.ui.changes.value_diff import JSONDiff, TextDiff, indented

#: Longer values are cut, with "show all".
CUT_CHARACTERS = 300
#: Characters of a before and an after that fit beside each other in the drawer.
_BESIDE = (10, 15)


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    #: ``value``, ``null``, ``empty`` (a text of no characters), ``quoted`` (a text that could be
    #: taken for something else), ``marked`` (not the value but a word about it), ``unknown``.
    kind: str = "value"
    #: The whole value's length where it was cut.
    length: int | None = None
    #: Where the whole value is: ``old``, ``new``, or ``before`` for a derived one.
    side: str = ""
    derived: bool = False


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """One column of a change; a side that is None has no cell."""

    name: str
    type: str
    before: Cell | None
    after: Cell | None
    #: Of two JSON documents: what differs, by line.
    json: JSONDiff | None = None
    #: Of two long texts: what differs, by word.
    text: TextDiff | None = None
    #: A part of what the row is known by.
    key: bool = False
    #: It has only one side because it stayed as it was.
    same: bool = False

    @property
    def stacked(self) -> bool:
        """Before and after do not fit beside each other where there is little room."""
        sizes = [len(side.text) if side else 0 for side in (self.before, self.after)]
        return sizes[0] > _BESIDE[0] or sizes[1] > _BESIDE[1]


def cell(value: object, side: str, *, derived: bool = False, json: bool = False) -> Cell:
    """A value of ``old`` or ``new``: the server's text, NULL, or a marked form in words.

    ``json`` asks for a JSON document by line.
    """
    side = "before" if derived else side
    if value is None:
        return Cell("null", "null", side=side, derived=derived)
    if isinstance(value, Mapping):
        if "$cut" in value:
            head = str(value["$head"])[:CUT_CHARACTERS]
            return Cell(head, length=int(value["$cut"]), side=side, derived=derived)
        words, length = _marked(value)
        return Cell(words, "marked", length=length, side=side, derived=derived)
    text = str(value)
    if not text:
        return Cell("empty text", "empty", side=side, derived=derived)
    shown = (indented(text) if json else None) or text
    if len(shown) > CUT_CHARACTERS:
        return Cell(shown[:CUT_CHARACTERS], length=len(text), side=side, derived=derived)
    kind = "quoted" if text.lower() == "null" or text != text.strip() else "value"
    return Cell(shown, kind, side=side, derived=derived)


def _marked(value: Mapping[str, Any]) -> tuple[str, int | None]:
    """A marked form in words, and its length if it can be asked for."""
    if "$erased" in value:
        return erased_words(value), None
    if "$masked" in value:
        return "masked", None
    if "$aside" in value:
        return f"{count_words(int(value['$aside']))} characters, kept aside", int(value["$aside"])
    if "$too_large" in value:
        return f"too large: {int(value['$too_large']):,} bytes, sha256 {value['$sha256']}", None
    for mark, words in (("$binary", "binary, not decoded"), ("$bytes", "bytes, not text")):
        if mark in value:
            size = len(str(value[mark])) * 3 // 4
            return f"{words}, {bytes_words(size)}", None
    return "a form this version does not know", None


@dataclass(slots=True)
class Block:
    seq: int
    op: str
    operation: str
    table: str
    schema: str
    version: int | None
    #: The row's key as shown; ``key_values`` is the same in full, empty where it is not known.
    key: list[tuple[str, str]]
    key_values: dict[str, str | None] = field(default_factory=dict)
    #: 0: it is not in the store (a look into a slot).
    transaction_id: int = 0
    relation_id: int | None = None
    #: ``sent``, ``derived``, ``key`` or ``unknown``; empty where there is no before.
    before: str = ""
    before_from: str = ""
    #: Where a derived before was taken from: transaction, its name, its commit time.
    before_id: int | None = None
    before_name: str = ""
    before_time: datetime | None = None
    lines: list[ColumnLine] = field(default_factory=list)
    #: Columns folded away: of an update those that stayed, else those beyond the first few.
    folded: list[ColumnLine] = field(default_factory=list)
    fold_word: str = ""
    #: Names of columns that were left out of a very wide row's block.
    left_out: list[str] = field(default_factory=list)
    not_sent: list[str] = field(default_factory=list)
    #: An update that left every value as it was, as far as all of them are known.
    changed_nothing: bool = False
    words: str = ""
    content: Cell | None = None
    subxid: int | None = None
    #: Its subtransaction was rolled back: kept, and marked.
    aborted: bool = False
    #: Whoever looks has no right to see its values.
    hidden: bool = False
    #: Why it cannot be undone; empty where it can.
    undo_problem: str = ""

    @property
    def two_sided(self) -> bool:
        return self.op == "U" and any(line.before for line in self.lines)

    @property
    def fold_names(self) -> list[str]:
        """The folded columns by name, as many as a line may hold."""
        return [line.name for line in self.folded[:24]] + self.left_out[: 24 - len(self.folded)]

    @property
    def fold_count(self) -> int:
        return len(self.folded) + len(self.left_out)
