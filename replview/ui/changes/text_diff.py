"""Two texts as one: which words went, which came, and long stretches between folded."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

#: Longer texts are not compared.
LONGEST = 50_000
#: Words in the part that differs; comparing costs their product.
MOST_WORDS = 1_500
#: Below this likeness two texts read better apart.
_ALIKE = 0.35
#: Of a long stretch without a change this much is shown at each end.
_AROUND = 60
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text: ``-`` went, ``+`` came, empty stayed, ``…`` stayed and is left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class TextDiff:
    """One text that shows both."""

    pieces: list[Piece]
    #: Where they differ.
    places: int
    #: Characters of both texts that had to be compared, for a page's own bound.
    compared: int


def text_diff(before: str, after: str) -> TextDiff | None:
    """What differs, by word; None where the two are too long or too little alike."""
    if before == after or max(len(before), len(after)) > LONGEST:
        return None
    head, old, new, tail = _apart(before, after)
    # Split where a word begins, so that half a word is never marked.
    words_before, words_after = _WORD.findall(old), _WORD.findall(new)
    if max(len(words_before), len(words_after)) > MOST_WORDS:
        return None
    matcher = SequenceMatcher(None, words_before, words_after, autojunk=False)
    same = len(head) + len(tail)
    pieces = _pieces(matcher, words_before, words_after)
    same += sum(len(piece.text) for piece in pieces if not piece.sign)
    if 2 * same < _ALIKE * (len(before) + len(after)):
        return None
    whole = _joined([Piece("", head), *pieces, Piece("", tail)])
    places = sum(
        1
        for number, piece in enumerate(whole)
        if piece.sign and (number == 0 or not whole[number - 1].sign)
    )
    return TextDiff(_left_out(whole), places, len(old) + len(new))


def _apart(before: str, after: str) -> tuple[str, str, str, str]:
    """What both begin with, what is left of each, what both end with; cut between words."""
    head = _shared(before, after)
    while head and _within_word(before, after, head):
        head -= 1
    room = min(len(before), len(after)) - head
    tail = _shared(before[::-1][:room], after[::-1][:room])
    while tail and (_joins(before, len(before) - tail) or _joins(after, len(after) - tail)):
        tail -= 1
    return (
        before[:head],
        before[head : len(before) - tail],
        after[head : len(after) - tail],
        before[len(before) - tail :] if tail else "",
    )


def _shared(before: str, after: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _within_word(before: str, after: str, at: int) -> bool:
    return _joins(before, at) or _joins(after, at)


def _joins(text: str, at: int) -> bool:
    """A word goes on over this place."""
    return 0 < at < len(text) and (text[at - 1].isalnum() and text[at].isalnum())


def _pieces(matcher: SequenceMatcher[str], before: list[str], after: list[str]) -> list[Piece]:
    found: list[Piece] = []
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        old, new = "".join(before[a_from:a_to]), "".join(after[b_from:b_to])
        if tag == "equal":
            found.append(Piece("", old))
        else:
            found += [Piece("-", old)] if old else []
            found += [Piece("+", new)] if new else []
    return found


def _joined(pieces: list[Piece]) -> list[Piece]:
    """A single space between two changes belongs to them: fewer places, easier to read."""
    found: list[Piece] = []
    for number, piece in enumerate(pieces):
        if not piece.text:
            continue
        lonely = (
            not piece.sign
            and piece.text.isspace()
            and len(piece.text) < 3
            and found
            and found[-1].sign
            and number + 1 < len(pieces)
            and pieces[number + 1].sign
        )
        if lonely:
            found += [Piece("-", piece.text), Piece("+", piece.text)]
        else:
            found.append(piece)
    return _in_order(found)


def _in_order(pieces: list[Piece]) -> list[Piece]:
    """Of neighbouring changes first all that went, then all that came."""
    found: list[Piece] = []
    old = new = ""
    for piece in [*pieces, Piece("", "")]:
        if piece.sign == "-":
            old += piece.text
        elif piece.sign == "+":
            new += piece.text
        else:
            found += [Piece("-", old)] if old else []
            found += [Piece("+", new)] if new else []
            found += [piece] if piece.text else []
            old = new = ""
    return found


def _left_out(pieces: list[Piece]) -> list[Piece]:
    """Long stretches without a change, their middle left out."""
    found: list[Piece] = []
    for number, piece in enumerate(pieces):
        head = 0 if number == 0 else _AROUND
        tail = 0 if number == len(pieces) - 1 else _AROUND
        middle = len(piece.text) - head - tail
        if piece.sign or middle < 2 * _AROUND:
            found.append(piece)
            continue
        shown_tail = piece.text[len(piece.text) - tail :] if tail else ""
        words = f"{middle:,} characters unchanged"
        found += [Piece("", piece.text[:head]), Piece("…", words), Piece("", shown_tail)]
    return [piece for piece in found if piece.text]
