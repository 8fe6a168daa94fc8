"""What is wrong and what mends it: one form for pages, the API, commands and logs.

A library raises a ``Problem`` or keeps one (a slot's state, a plan that is refused); each front
shows its parts in its own way, and says itself where a field of a request is given: an option of a
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
    """The sentence with the place where the field that it is about is given, if there is one."""
    return f"{text} ({places[field]})" if field in places else text


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence that is good to know, and the field of the request that it is about."""

    text: str
    #: As in ``Problem``.
    field: str = ""

    def __str__(self) -> str:
        return self.text


class Problem(Exception):
    """A code for programs, a cause and a remedy for people. Holds no secret and no stored value."""

    #: The HTTP status with which the API answers.
    status = 409

    def __init__(self, code: str, cause: str, remedy: str = "", field: str = "") -> None:
        super().__init__(code, cause, remedy)
        #: ``unreachable``, ``wrong_password``, ``no_such_database`` …
        self.code = code
        #: One sentence without a full stop.
        self.cause = cause
        #: SQL, a setting, or a sentence; empty where nothing is known to help.
        self.remedy = remedy
        #: What of the request the remedy is about (``tables``, ``wal_budget``), by the name that a
        #: ``SlotRequest`` and its like have for it; empty: nothing in particular.
        self.field = field

    def with_places(self, places: Mapping[str, str]) -> Self:
        """The same, with the place in this front (``--tables``) where its field is given."""
        here = self.anew()
        if self.remedy:
            here.remedy = with_place(self.remedy, self.field, places)
        return here

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}" if self.remedy else self.cause

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def anew(self) -> Self:
        """The same, to be raised: one that is kept must not collect the traces of each raise."""
        return copy(self)


class CodedProblem(Problem):
    """One whose class is its code: it is raised with a cause, and a remedy where there is one."""

    code_of_all: ClassVar[str]

    def __init__(self, cause: str, remedy: str = "", field: str = "") -> None:
        super().__init__(self.code_of_all, cause, remedy, field)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        return type(self), (self.cause, self.remedy, self.field)


@dataclass(frozen=True, slots=True)
class Remedy:
    """``before`` and ``after`` are sentences, ``run`` is SQL or a command; each may be empty."""

    before: str
    run: str
    after: str


def split_remedy(text: str) -> Remedy:
    """Take the first statement or command out of a remedy."""
    text = text.strip()
    found = _RUNNABLE.search(text)
    if found is None:
        return Remedy(text, "", "")
    before, after = text[: found.start()].strip(), text[found.end() :].strip(" ,;")
    run = found["run"].rstrip(" .")
    if not run.startswith("replview") and not run.endswith(";"):
        run += ";"
    return Remedy(before, run, after)
