"""What is wrong and what mends it: one form for pages, the API, commands and logs.

A library raises a ``Problem`` or keeps one (a slot's state, a plan that is refused); each front
shows its parts in its own way.
"""

from copy import copy
from typing import ClassVar, Self


class Problem(Exception):
    """A code for programs, a cause and a remedy for people. Holds no secret and no stored value."""

    #: The HTTP status with which the API answers.
    status = 409

    def __init__(self, code: str, cause: str, remedy: str = "") -> None:
        super().__init__(code, cause, remedy)
        #: ``unreachable``, ``wrong_password``, ``no_such_database`` …
        self.code = code
        #: One sentence without a full stop.
        self.cause = cause
        #: SQL, a setting, or a sentence; empty where nothing is known to help.
        self.remedy = remedy

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

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(self.code_of_all, cause, remedy)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.cause, self.remedy)
