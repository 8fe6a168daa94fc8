"""The faults of a fleet file: the line, the key, and what to write instead."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]
_HEADING = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+))*)\s*=(.*)$"
)
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_STRINGS = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\])*\"|'[^']*'|#.*$")


class Places:
    """The line numbers of the keys in a TOML file, which ``tomllib`` does not report.

    Only headings and keys at the beginning of a line are found. A key inside an array or an inline
    table gets the line of the outer key.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        #: Number of tables that each array of tables has so far.
        self._counts: dict[Path, int] = {}
        self._scan(text.splitlines())

    def line_of(self, path: Sequence[str | int]) -> int:
        """Return the line of the key, or of the nearest table or key that contains it."""
        parts = (tuple(path[:length]) for length in range(len(path), 0, -1))
        return next((self._lines[part] for part in parts if part in self._lines), 1)

    def _scan(self, lines: list[str]) -> None:
        heading_path: Path = ()
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
                heading_path = self._open(heading[2], array=heading[1] == "[[")
                self._lines.setdefault(heading_path, number)
            elif key := _KEY.match(line):
                self._lines.setdefault(heading_path + tuple(_parts(key[1])), number)
                # The quotes of a string that continues on the next line.
                without_strings = _STRINGS.sub("", key[2])
                multiline = next(
                    (quotes for quotes in ('"""', "'''") if quotes in without_strings), ""
                )
                depth = 0 if multiline else max(0, _depth(key[2]))

    def _open(self, heading: str, *, array: bool) -> Path:
        """Return the path of a heading; an array of tables means its newest table."""
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
    without_strings = _STRINGS.sub("", text)
    return (
        without_strings.count("[")
        + without_strings.count("{")
        - without_strings.count("]")
        - without_strings.count("}")
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a fleet file."""

    line: int
    #: For example ``source[1].slot[1].wal_budget``; empty for a fault of the whole file.
    key: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.key}: {self.text}" if self.key else self.text


class FleetFaults(Exception):
    """The file cannot be used, and nothing was done; the error holds all its faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


class Faults:
    """A collector of faults while a file is read."""

    def __init__(self, places: Places) -> None:
        self.line_of = places.line_of
        self.found: list[Fault] = []

    def add(self, path: Sequence[str | int], text: str) -> None:
        """Add a fault of the key at this path."""
        self.found.append(Fault(self.line_of(path), _dotted(path), text))

    def unknown(self, path: Sequence[str | int], known: Iterable[str]) -> None:
        """Add a fault for an unknown key, and name the most similar known key."""
        names = sorted(known)
        similar = difflib.get_close_matches(str(path[-1]), names, n=1, cutoff=0.5)
        hint = f"did you mean {similar[0]}?" if similar else f"known are {', '.join(names)}"
        self.add(path, f"there is no such key; {hint}")

    def check(self) -> None:
        """Raise ``FleetFaults`` if there are any faults, sorted by line."""
        if self.found:
            raise FleetFaults(sorted(self.found, key=lambda fault: fault.line))


def _dotted(path: Sequence[str | int]) -> str:
    """Return the path as text, such as ``source[2].slot[1].name``, counted from one."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text
