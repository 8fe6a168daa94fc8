"""The words in which each field of a transaction filter is part of a sentence."""

from collections.abc import Callable, Sequence
from typing import Any

from replview.store.read.transactions.filter_values import (
    NO_ORIGIN,
    OPERATIONS,
    UNKNOWN_ACTOR,
    Touched,
)
from replview.text.formats import plural

_VERBS = {
    "I": "inserted",
    "U": "updated",
    "D": "deleted",
    "T": "truncated",
    "M": "sent a message",
    "S": "read a baseline",
}
_NAMES_SHOWN = 3


def in_frame(frame: str) -> Callable[[Any, Touched], str]:
    """Return the function that puts a value into a frame like ``with xid or gid {}``."""
    return lambda value, _: frame.format(value)


def changes_number(number: int) -> str:
    """Return ``3 changes``."""
    return plural(number, "change")


def origin_name(origin: str) -> str:
    """Return the name of an origin."""
    return "the source itself" if origin == NO_ORIGIN else origin


def states_words(states: tuple[str, ...], _: Touched) -> str:
    """Return ``that are prepared or aborted``."""
    return f"that are {_any_of(states)}"


def actor_words(actor: str, _: Touched) -> str:
    """Return ``by alice``."""
    return "of an unknown actor" if actor == UNKNOWN_ACTOR else f"by {actor}"


def origin_words(origin: str, _: Touched) -> str:
    """Return ``from berlin``."""
    return "written on the source" if origin == NO_ORIGIN else f"from {origin}"


def tables_words(tables: tuple[str, ...], filter_: Touched) -> str:
    """Return ``that touched orders``; empty where the words of the operations name the tables."""
    return f"that touched {_any_of(_short(tables))}" if filter_.ops == OPERATIONS else ""


def operations_words(ops: str, filter_: Touched) -> str:
    """Return ``that updated or deleted in orders``."""
    where = f" in {_any_of(_short(filter_.tables))}" if filter_.tables else ""
    return f"that {_any_of([_VERBS[op] for op in ops])}{where}"


def moment_words(word: str) -> Callable[[str, Touched], str]:
    """Return the function that returns ``since 2 h ago``, with the word before a time or an age."""

    def words(text: str, _: Touched) -> str:
        is_time = ":" in text or "-" in text
        return f"{word} {text.replace('T', ' ') if is_time else f'{text} ago'}"

    return words


def _short(tables: Sequence[str]) -> list[str]:
    return [name.removeprefix("public.") for name in tables]


def _any_of(names: Sequence[str]) -> str:
    shown = list(names[:_NAMES_SHOWN])
    if len(names) > _NAMES_SHOWN:
        shown.append(f"{len(names) - _NAMES_SHOWN} more")
    return " or ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
