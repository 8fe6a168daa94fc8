"""What doctor says: one finding a line, graded, with the SQL or setting that mends it."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Grade(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    #: Good to know; nothing to do.
    NOTE = "note"
    #: Replication works, and something may hurt.
    WARNING = "warning"
    #: Replication does not work until it is mended.
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing doctor looked at."""

    grade: Grade
    #: ``wal_level``, ``replication_connection``, ``unusable_tables`` …
    code: str
    message: str
    #: The exact SQL or setting, or what to do; empty when nothing is.
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """``{"grade", "code", "message", "remedy"}``."""
        return asdict(self)


def ok(code: str, message: str) -> Finding:
    """Nothing to mend."""
    return Finding(Grade.OK, code, message)


def note(code: str, message: str, remedy: str = "") -> Finding:
    """Good to know."""
    return Finding(Grade.NOTE, code, message, remedy)


def warning(code: str, message: str, remedy: str) -> Finding:
    """May hurt."""
    return Finding(Grade.WARNING, code, message, remedy)


def problem(code: str, message: str, remedy: str) -> Finding:
    """Blocks replication."""
    return Finding(Grade.PROBLEM, code, message, remedy)


def blocks(findings: list[Finding]) -> bool:
    """Whether something stands against replication."""
    return any(finding.grade is Grade.PROBLEM for finding in findings)


def some_of(names: list[str], limit: int = 10) -> str:
    """Names for a sentence: the first ten, then how many more."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
