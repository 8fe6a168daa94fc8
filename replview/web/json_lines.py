"""JSON by line: indented without touching a value, and compared line by line."""

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

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


def compared(before: str, after: str) -> list[JSONLine] | None:
    """What differs, by line, unchanged lines folded; None where either is no JSON document."""
    old, new = indented(before), indented(after)
    if old is None or new is None:
        return None
    a, b = old.split("\n"), new.split("\n")
    if max(len(a), len(b)) > _MOST_LINES:
        return None
    found: list[JSONLine] = []
    codes = SequenceMatcher(None, _bare(a), _bare(b), autojunk=False).get_opcodes()
    for number, (tag, a_from, a_to, b_from, b_to) in enumerate(codes):
        if tag == "equal":
            first, last = number == 0, number == len(codes) - 1
            found += _folded(b[b_from:b_to], first=first, last=last)
        else:
            found += [JSONLine("-", line) for line in a[a_from:a_to]]
            found += [JSONLine("+", line) for line in b[b_from:b_to]]
    return found


def _bare(lines: list[str]) -> list[str]:
    """A comma that came because another member follows is no change."""
    return [line.rstrip(",") for line in lines]


def _folded(lines: list[str], *, first: bool, last: bool) -> list[JSONLine]:
    """A stretch of unchanged lines, its middle folded where that saves any."""
    head = 0 if first else _AROUND
    tail = 0 if last else _AROUND
    folded = len(lines) - head - tail
    if folded < 2:
        return [JSONLine("", line) for line in lines]
    shown = [JSONLine("", line) for line in lines]
    middle = JSONLine("", f"{folded} unchanged lines", folded)
    return [*shown[:head], middle, *shown[len(lines) - tail :]]
