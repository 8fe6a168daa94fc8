"""Compare two long values: texts by word, JSON documents by line; what is equal is folded."""

import json
import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

#: Most characters of a text that is compared.
LONGEST_TEXT = 50_000
#: Most words in the part that differs, because the time grows with their product.
MOST_WORDS = 1_500
#: Least share of equal characters; less similar texts are easier to read apart.
_LEAST_SIMILAR = 0.35
#: Characters shown at each end of a long equal part.
_CHARACTERS_AROUND = 60
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
#: Most characters of a document that is compared; a longer one is cut, with "show all".
LONGEST_JSON = 20_000
#: Equal lines shown around a changed one.
_LINES_AROUND = 1
_MOST_LINES = 400
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A part of a text: ``-`` removed, ``+`` added, empty equal, ``…`` equal and left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class TextDiff:
    """The difference of two texts, as one text."""

    pieces: list[DiffPiece]
    #: The number of places that differ.
    places: int
    #: Characters of both texts that were compared, for a page's own limit.
    compared: int


def text_diff(before: str, after: str) -> TextDiff | None:
    """Return the difference by word; None where the texts are too long or too different."""
    if before == after or max(len(before), len(after)) > LONGEST_TEXT:
        return None
    head, old, new, tail = _common_ends(before, after)
    # Split at words, so that part of a word is never marked.
    words_before, words_after = _WORD.findall(old), _WORD.findall(new)
    if max(len(words_before), len(words_after)) > MOST_WORDS:
        return None
    matcher = SequenceMatcher(None, words_before, words_after, autojunk=False)
    equal_characters = len(head) + len(tail)
    pieces = _word_pieces(matcher, words_before, words_after)
    equal_characters += sum(len(piece.text) for piece in pieces if not piece.sign)
    if 2 * equal_characters < _LEAST_SIMILAR * (len(before) + len(after)):
        return None
    merged = _joined([DiffPiece("", head), *pieces, DiffPiece("", tail)])
    with_start = [DiffPiece("", ""), *merged]
    places = sum(
        bool(current.sign and not previous.sign) for previous, current in pairwise(with_start)
    )
    return TextDiff(_left_out(merged), places, len(old) + len(new))


def _common_ends(before: str, after: str) -> tuple[str, str, str, str]:
    """Return the common start, the rest of each, and the common end, cut between words."""
    head = _shared(before, after)
    while head and (_is_inside_word(before, head) or _is_inside_word(after, head)):
        head -= 1
    room = min(len(before), len(after)) - head
    tail = _shared(before[::-1][:room], after[::-1][:room])
    while tail and (
        _is_inside_word(before, len(before) - tail) or _is_inside_word(after, len(after) - tail)
    ):
        tail -= 1
    return (
        before[:head],
        before[head : len(before) - tail],
        after[head : len(after) - tail],
        before[len(before) - tail :] if tail else "",
    )


def _shared(before: str, after: str) -> int:
    """Return the number of characters at the start that are equal."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_inside_word(text: str, position: int) -> bool:
    """Return whether a word spans this position."""
    return 0 < position < len(text) and (text[position - 1].isalnum() and text[position].isalnum())


def _word_pieces(
    matcher: SequenceMatcher[str], before: list[str], after: list[str]
) -> list[DiffPiece]:
    pieces: list[DiffPiece] = []
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        old, new = "".join(before[a_from:a_to]), "".join(after[b_from:b_to])
        if tag == "equal":
            pieces.append(DiffPiece("", old))
        else:
            pieces += [DiffPiece("-", old)] if old else []
            pieces += [DiffPiece("+", new)] if new else []
    return pieces


def _joined(pieces: list[DiffPiece]) -> list[DiffPiece]:
    """Merge a single space between two changes into them, which gives fewer places."""
    merged: list[DiffPiece] = []
    for number, piece in enumerate(pieces):
        if not piece.text:
            continue
        lonely = (
            not piece.sign
            and piece.text.isspace()
            and len(piece.text) < 3
            and merged
            and merged[-1].sign
            and number + 1 < len(pieces)
            and pieces[number + 1].sign
        )
        if lonely:
            merged += [DiffPiece("-", piece.text), DiffPiece("+", piece.text)]
        else:
            merged.append(piece)
    return _in_order(merged)


def _in_order(pieces: list[DiffPiece]) -> list[DiffPiece]:
    """Put all removed parts of neighbouring changes before all added ones."""
    ordered: list[DiffPiece] = []
    old = new = ""
    for piece in [*pieces, DiffPiece("", "")]:
        if piece.sign == "-":
            old += piece.text
        elif piece.sign == "+":
            new += piece.text
        else:
            ordered += [DiffPiece("-", old)] if old else []
            ordered += [DiffPiece("+", new)] if new else []
            ordered += [piece] if piece.text else []
            old = new = ""
    return ordered


def _left_out(pieces: list[DiffPiece]) -> list[DiffPiece]:
    """Leave out the middle of long equal parts."""
    shown: list[DiffPiece] = []
    for number, piece in enumerate(pieces):
        head = 0 if number == 0 else _CHARACTERS_AROUND
        tail = 0 if number == len(pieces) - 1 else _CHARACTERS_AROUND
        middle = len(piece.text) - head - tail
        if piece.sign or middle < 2 * _CHARACTERS_AROUND:
            shown.append(piece)
            continue
        shown_tail = piece.text[len(piece.text) - tail :] if tail else ""
        text = f"{middle:,} characters unchanged"
        shown += [
            DiffPiece("", piece.text[:head]),
            DiffPiece("…", text),
            DiffPiece("", shown_tail),
        ]
    return [piece for piece in shown if piece.text]


@dataclass(frozen=True, slots=True)
class JSONLine:
    """A line of a comparison; a fold stands for ``folded`` equal lines."""

    #: ``-``, ``+`` or empty for a line on both sides.
    sign: str
    text: str
    folded: int = 0
    #: The line number before and after, from 1; None where the line is not on that side.
    old: int | None = None
    new: int | None = None
    #: The parts of the line, where only some of it differs.
    pieces: list[DiffPiece] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JSONDiff:
    """The difference of two documents, as one list of lines."""

    lines: list[JSONLine]
    changed: int
    added: int
    removed: int

    @property
    def words(self) -> str:
        """Return ``2 lines changed, 1 added``."""
        counts = {"changed": self.changed, "added": self.added, "removed": self.removed}
        parts = [f"{number:,} {word}" for word, number in counts.items() if number]
        if not parts:
            return "only the form differs"
        number, _, word = parts[0].partition(" ")
        lines = "line" if number == "1" else "lines"
        return ", ".join([f"{number} {lines} {word}", *parts[1:]])


def indented(text: str) -> str | None:
    """Return an object or array with a line for each member, indented; None for other text.

    Numbers, strings, the order of members and repeated ones stay as the server sent them.
    """
    if len(text) > LONGEST_JSON or text.lstrip()[:1] not in ("{", "["):
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
    """Return the difference by line, equal lines folded; None where either is no JSON document."""
    old, new = indented(before), indented(after)
    if old is None or new is None:
        return None
    old_lines, new_lines = old.split("\n"), new.split("\n")
    if max(len(old_lines), len(new_lines)) > _MOST_LINES:
        return None
    lines: list[JSONLine] = []
    changed = added = removed = 0
    codes = SequenceMatcher(
        None, _without_commas(old_lines), _without_commas(new_lines), autojunk=False
    ).get_opcodes()
    for number, (tag, a_from, a_to, b_from, b_to) in enumerate(codes):
        if tag == "equal":
            first, last = number == 0, number == len(codes) - 1
            lines += _folded(new_lines[b_from:b_to], a_from, b_from, first=first, last=last)
            continue
        pairs = min(a_to - a_from, b_to - b_from)
        changed += pairs
        removed += a_to - a_from - pairs
        added += b_to - b_from - pairs
        lines += _replaced(old_lines, new_lines, range(a_from, a_to), range(b_from, b_to))
    return JSONDiff(lines, changed, added, removed)


def _replaced(old_lines: list[str], new_lines: list[str], old: range, new: range) -> list[JSONLine]:
    """Return changed lines in pairs, before above after; surplus lines of one side follow."""
    lines = []
    for number in range(max(len(old), len(new))):
        before = old_lines[old[number]] if number < len(old) else None
        after = new_lines[new[number]] if number < len(new) else None
        pieces = _line_pieces(before, after)
        if before is not None:
            own_pieces = _side_pieces(pieces, before, "-")
            lines.append(JSONLine("-", before, old=old[number] + 1, pieces=own_pieces))
        if after is not None:
            own_pieces = _side_pieces(pieces, after, "+")
            lines.append(JSONLine("+", after, new=new[number] + 1, pieces=own_pieces))
    return lines


def _line_pieces(before: str | None, after: str | None) -> list[DiffPiece]:
    """Return the difference of two lines; a line of one side only is added or removed whole."""
    if before is not None and after is not None:
        parts = text_diff(before.rstrip(","), after.rstrip(","))
        return parts.pieces if parts else []
    line, sign = (before, "-") if after is None else (after, "+")
    text = (line or "").rstrip(",")
    start = len(text) - len(text.lstrip())
    return [DiffPiece("", text[:start]), DiffPiece(sign, text[start:])]


def _side_pieces(pieces: list[DiffPiece], line: str, sign: str) -> list[DiffPiece]:
    """Return the parts of one side's line, its comma at the end."""
    comma = [DiffPiece("", ",")] if line.endswith(",") else []
    return [*(piece for piece in pieces if piece.sign in ("", sign)), *comma] if pieces else []


def _without_commas(lines: list[str]) -> list[str]:
    """Remove trailing commas, which differ only because another member follows."""
    return [line.rstrip(",") for line in lines]


def _folded(lines: list[str], old: int, new: int, *, first: bool, last: bool) -> list[JSONLine]:
    """Return equal lines, their middle folded where that saves lines."""
    head = 0 if first else _LINES_AROUND
    tail = 0 if last else _LINES_AROUND
    folded = len(lines) - head - tail
    numbered = enumerate(lines, start=1)
    shown = [JSONLine("", line, old=old + n, new=new + n) for n, line in numbered]
    if folded < 2:
        return shown
    middle = JSONLine("", f"{folded} unchanged lines", folded)
    return [*shown[:head], middle, *shown[len(lines) - tail :]]
