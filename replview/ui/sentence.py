"""The sentence on top of a page: how things stand, why, and what to do next."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Level, what is the matter, why, what next."""

    level: str
    title: str
    cause: str = ""
    next: str = ""
    #: Whether what the page offers can be done now.
    ready: bool = False


def as_next(text: str) -> str:
    """A remedy as the end of a sentence that begins with *Next:*."""
    return f"{text[0].lower()}{text[1:].rstrip('.')}." if text else ""


class Refusal(Protocol):
    """An error that says what is wrong and what mends it."""

    cause: str
    remedy: str


def refusal(level: str, title: str, refused: Refusal) -> Sentence:
    """What is refused, why, and what to do instead."""
    return Sentence(
        level=level, title=title, cause=f"{refused.cause}.", next=as_next(refused.remedy)
    )
