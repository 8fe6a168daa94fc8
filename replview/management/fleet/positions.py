"""On which line of a TOML file a key stands: ``tomllib`` does not tell.

Only headings and the keys at the beginning of a line are looked for; of what stands inside an array
or an inline table the line of its key is told.
"""

import re
from collections.abc import Sequence

Path = tuple[str | int, ...]
_HEADING = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+))*)\s*=(.*)$"
)
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_STRINGS = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\])*\"|'[^']*'|#.*$")


class Places:
    """The lines of one file."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        #: How many tables an array of tables has by now.
        self._counts: dict[Path, int] = {}
        self._scan(text.splitlines())

    def line_of(self, path: Sequence[str | int]) -> int:
        """Of the key, or of the nearest thing that it stands in."""
        wanted = tuple(path)
        while wanted:
            if wanted in self._lines:
                return self._lines[wanted]
            wanted = wanted[:-1]
        return 1

    def _scan(self, lines: list[str]) -> None:
        inside: Path = ()
        depth, multiline = 0, ""
        for number, line in enumerate(lines, 1):
            if multiline:
                if multiline in line:
                    multiline = ""
                continue
            if depth:
                depth += _depth(line)
                continue
            if heading := _HEADING.match(line):
                inside = self._open(heading[2], array=heading[1] == "[[")
                self._lines.setdefault(inside, number)
            elif key := _KEY.match(line):
                self._lines.setdefault(inside + tuple(_parts(key[1])), number)
                multiline = _left_open(key[2])
                depth = 0 if multiline else max(0, _depth(key[2]))

    def _open(self, heading: str, *, array: bool) -> Path:
        """The path a heading stands for: of an array of tables always the newest."""
        path: Path = ()
        parts = _parts(heading)
        for position, part in enumerate(parts):
            path += (part,)
            if array and position == len(parts) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path += (self._counts[path] - 1,)
        return path


def _parts(text: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(text)]


def _depth(text: str) -> int:
    bare = _STRINGS.sub("", text)
    return bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}")


def _left_open(text: str) -> str:
    """The quotes of a string that goes on in the next line."""
    bare = _STRINGS.sub("", text)
    return next((quotes for quotes in ('"""', "'''") if quotes in bare), "")
