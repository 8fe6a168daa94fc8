"""A problem has a cause and a remedy, in one form for pages, the API, commands and logs.

A library raises a ``Problem`` or keeps one (a slot's state, a refused plan). Each front end
shows its parts in its own way, and adds where the user gives a field of a request: an option of a
command, a step of a page, a key of a file.
"""

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Self

_RUNNABLE = re.compile(
    r"(?:^|(?<=: ))(?P<run>(?:ALTER|CREATE|DROP|GRANT|SELECT|VACUUM|COMMIT|ROLLBACK|replview)\s.+?)"
    r"(?= \(|, then |, or | and restart|$)",
    re.DOTALL,
)


def with_place(text: str, field: str, places: Mapping[str, str]) -> str:
    """Return the sentence and, if ``places`` has the field, the place where the user gives it."""
    return f"{text} ({places[field]})" if field in places else text


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence of advice, and the field of the request that it is about."""

    text: str
    #: The field's name, as in ``Problem``; may be empty.
    field: str = ""

    def __str__(self) -> str:
        return self.text


class Problem(Exception):
    """A code for programs, a cause and a remedy for people. Holds no secret and no stored value."""

    #: The HTTP status with which the API answers.
    status = 409

    def __init__(self, code: str, cause: str, remedy: str = "", field: str = "") -> None:
        super().__init__(code, cause, remedy)
        #: For example ``unreachable``, ``wrong_password`` or ``no_such_database``.
        self.code = code
        #: A sentence without a full stop.
        self.cause = cause
        #: SQL, a setting, or a sentence; empty where no remedy is known.
        self.remedy = remedy
        #: The request's field that the remedy is about (``tables``, ``wal_budget``), named as in
        #: ``SlotRequest`` and similar classes; empty for no field.
        self.field = field

    def with_places(self, places: Mapping[str, str]) -> Self:
        """Return a copy whose remedy names the field's place in this front end (``--tables``)."""
        problem = self.anew()
        if self.remedy:
            problem.remedy = with_place(self.remedy, self.field, places)
        return problem

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}" if self.remedy else self.cause

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def anew(self) -> Self:
        """Return a copy to raise, because a kept one would collect the traceback of each raise."""
        return copy(self)


class CodedProblem(Problem):
    """A problem whose class defines its code, so that it is raised with cause and remedy only."""

    code_of_all: ClassVar[str]

    def __init__(self, cause: str, remedy: str = "", field: str = "") -> None:
        super().__init__(self.code_of_all, cause, remedy, field)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.cause, self.remedy, self.field)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy in parts: ``before`` and ``after`` are sentences, ``run`` is SQL or a command."""

    before: str
    run: str
    after: str


def split_remedy(text: str) -> Remedy:
    """Split a remedy at its first statement or command."""
    text = text.strip()
    match = _RUNNABLE.search(text)
    if match is None:
        return Remedy(text, "", "")
    before, after = text[: match.start()].strip(), text[match.end() :].strip(" ,;")
    run = match["run"].rstrip(" .")
    if not run.startswith("replview") and not run.endswith(";"):
        run += ";"
    return Remedy(before, run, after)
