"""The line numbers of the keys in a TOML file, which ``tomllib`` does not report."""

import tomllib
from collections.abc import Mapping
from typing import Any

#: The keys that lead to a value, each array with the index of its element.
KeyPath = tuple[str | int, ...]

#: A value of several lines ends in a line with one of these.
_CLOSINGS = ("]", "}", '"""', "'''")


class KeyLines:
    """The lines of the headings and keys in a valid TOML file.

    Each statement is parsed by itself: a heading, or a key with its value, which may take several
    lines. A key inside an array has the line of the array.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {}
        #: Number of tables that each array of tables has so far.
        self._counts: dict[KeyPath, int] = {}
        heading: KeyPath = ()
        statement, first_line = "", 1
        for number, line in enumerate(text.split("\n"), 1):
            goes_on, statement = bool(statement), f"{statement}{line}\n"
            if goes_on and not any(closing in line for closing in _CLOSINGS):
                continue
            try:
                parsed = tomllib.loads(statement)
            except tomllib.TOMLDecodeError:
                continue
            if statement.lstrip().startswith("["):
                heading = self._add((), parsed, first_line, is_heading=True)
            else:
                self._add(heading, parsed, first_line, is_heading=False)
            statement, first_line = "", number + 1

    def line_of(self, path: KeyPath) -> int:
        """Return the line of the key, or of the nearest table or key that contains it."""
        parts = (path[:length] for length in range(len(path), 0, -1))
        return next((self._lines[part] for part in parts if part in self._lines), 1)

    def _add(self, path: KeyPath, inner: Any, line: int, *, is_heading: bool) -> KeyPath:
        """Add the keys of a parsed statement, and return the path of the innermost."""
        while isinstance(inner, Mapping) and len(inner) == 1:
            [(key, inner)] = inner.items()
            path += (key,)
            if is_heading and isinstance(inner, list):
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:  # the newest table of an array
                path += (self._counts[path] - 1,)
            self._lines.setdefault(path, line)
        return path
