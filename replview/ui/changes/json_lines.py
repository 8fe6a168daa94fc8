"""JSON by line: indented without touching a value, and compared line by line."""

import json
import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from replview.ui.changes.text_diff import Piece, text_diff

#: Longer documents stay as they are: cut, with "show all".
LONGEST = 20_000
#: Unchanged lines shown around a changed one.
_AROUND = 1
_MOST_LINES = 400
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True)
class JSONLine:
    """One line of a comparison; a fold stands for ``folded`` unchanged ones."""

    #: ``-``, ``+`` or empty: on both sides.
    sign: str
    text: str
    folded: int = 0
    #: Its number before and after, from 1; None where it is not.
    old: int | None = None
    new: int | None = None
    #: The line in pieces, where only a part of it differs.
    pieces: list[Piece] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JSONDiff:
    """Two documents as one list of lines."""

    lines: list[JSONLine]
    changed: int
    added: int
    removed: int

    @property
    def words(self) -> str:
        """``2 lines changed, 1 added``."""
        counts = [
            (self.changed, "changed"),
            (self.added, "added"),
            (self.removed, "removed"),
        ]
        parts = [f"{number:,} {word}" for number, word in counts if number]
        if not parts:
            return "only the form differs"
        number, _, word = parts[0].partition(" ")
        lines = "line" if number == "1" else "lines"
        return ", ".join([f"{number} {lines} {word}", *parts[1:]])


def indented(text: str) -> str | None:
    """An object or array with a line a member, two spaces a level; None where it is neither.

    Numbers, strings, the order of members and repeated ones stay as the server sent them.
    """
    if len(text) > LONGEST or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    tokens = _TOKEN.findall(text)
    written: list[str] = []
    depth = 0
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token in "{[":
            depth += 1
            written.append(token)
            if following not in ("}", "]"):
                written.append(_new_line(depth))
        elif token in "}]":
            depth -= 1
            if written[-1] not in ("{", "["):
                written.append(_new_line(depth))
            written.append(token)
        elif token == ",":
            written.append(token + _new_line(depth))
        else:
            written.append(": " if token == ":" else token)
    return "".join(written)


def _new_line(depth: int) -> str:
    return "\n" + "  " * depth


def compared(before: str, after: str) -> JSONDiff | None:
    """What differs, by line, unchanged lines folded; None where either is no JSON document."""
    old, new = indented(before), indented(after)
    if old is None or new is None:
        return None
    a, b = old.split("\n"), new.split("\n")
    if max(len(a), len(b)) > _MOST_LINES:
        return None
    found: list[JSONLine] = []
    changed = added = removed = 0
    codes = SequenceMatcher(None, _bare(a), _bare(b), autojunk=False).get_opcodes()
    for number, (tag, a_from, a_to, b_from, b_to) in enumerate(codes):
        if tag == "equal":
            first, last = number == 0, number == len(codes) - 1
            found += _folded(b[b_from:b_to], a_from, b_from, first=first, last=last)
            continue
        pairs = min(a_to - a_from, b_to - b_from)
        changed += pairs
        removed += a_to - a_from - pairs
        added += b_to - b_from - pairs
        found += _replaced(a, b, range(a_from, a_to), range(b_from, b_to))
    return JSONDiff(found, changed, added, removed)


def _replaced(a: list[str], b: list[str], old: range, new: range) -> list[JSONLine]:
    """Changed lines in pairs, before over after; what is left over of one side after them."""
    found = []
    for number in range(max(len(old), len(new))):
        before = a[old[number]] if number < len(old) else None
        after = b[new[number]] if number < len(new) else None
        pieces = _pieces(before, after)
        if before is not None:
            kept = _of_side(pieces, before, "-")
            found.append(JSONLine("-", before, old=old[number] + 1, pieces=kept))
        if after is not None:
            kept = _of_side(pieces, after, "+")
            found.append(JSONLine("+", after, new=new[number] + 1, pieces=kept))
    return found


def _pieces(before: str | None, after: str | None) -> list[Piece]:
    """What differs between two lines; a line that only one side has is new or gone as a whole."""
    if before is not None and after is not None:
        parts = text_diff(before.rstrip(","), after.rstrip(","))
        return parts.pieces if parts else []
    line, sign = (before, "-") if after is None else (after, "+")
    bare = (line or "").rstrip(",")
    start = len(bare) - len(bare.lstrip())
    return [Piece("", bare[:start]), Piece(sign, bare[start:])]


def _of_side(pieces: list[Piece], line: str, sign: str) -> list[Piece]:
    """The pieces of one side's line, its comma at the end."""
    comma = [Piece("", ",")] if line.endswith(",") else []
    return [*(piece for piece in pieces if piece.sign in ("", sign)), *comma] if pieces else []


def _bare(lines: list[str]) -> list[str]:
    """A comma that came because another member follows is no change."""
    return [line.rstrip(",") for line in lines]


def _folded(lines: list[str], old: int, new: int, *, first: bool, last: bool) -> list[JSONLine]:
    """A stretch of unchanged lines, its middle folded where that saves any."""
    head = 0 if first else _AROUND
    tail = 0 if last else _AROUND
    folded = len(lines) - head - tail
    shown = [
        JSONLine("", line, old=old + number, new=new + number)
        for number, line in enumerate(lines, start=1)
    ]
    if folded < 2:
        return shown
    middle = JSONLine("", f"{folded} unchanged lines", folded)
    return [*shown[:head], middle, *shown[len(lines) - tail :]]
