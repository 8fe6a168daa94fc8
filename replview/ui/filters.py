"""Format a transaction filter as a sentence."""

from replview.store.read.transactions.transaction_filter import (
    NO_ORIGIN,
    OPERATIONS,
    UNKNOWN_ACTOR,
    TransactionFilter,
)
from replview.text.formats import age_words, bytes_words, count_words

_VERBS = {
    "I": "inserted",
    "U": "updated",
    "D": "deleted",
    "T": "truncated",
    "M": "sent a message",
    "S": "read a baseline",
}
_NAMES_SHOWN = 3


def filter_text(filter_: TransactionFilter) -> str:
    """Return ``by alice, that updated or deleted in orders``; empty without a condition."""
    parts = []
    if filter_.id:
        parts.append(f"with xid or gid {filter_.id}")
    if filter_.states:
        parts.append(f"that are {_any_of(list(filter_.states))}")
    if filter_.actor:
        by_nobody = filter_.actor == UNKNOWN_ACTOR
        parts.append("of an unknown actor" if by_nobody else f"by {filter_.actor}")
    if filter_.origin:
        is_local = filter_.origin == NO_ORIGIN
        parts.append("written on the source" if is_local else f"from {filter_.origin}")
    parts += _operations(filter_)
    parts += _sizes(filter_)
    parts += _time_and_lsn(filter_)
    if filter_.text:
        parts.append(f"that hold “{filter_.text}”")
    return ", ".join(parts)


def _operations(filter_: TransactionFilter) -> list[str]:
    verbs = [_VERBS[op] for op in filter_.ops] if filter_.ops != OPERATIONS else []
    tables = [name.removeprefix("public.") for name in filter_.tables]
    if verbs:
        where = f" in {_any_of(tables)}" if tables else ""
        return [f"that {_any_of(verbs)}{where}"]
    return [f"that touched {_any_of(tables)}"] if tables else []


def _sizes(filter_: TransactionFilter) -> list[str]:
    sizes = (
        (filter_.min_changes, "of at least {} changes", count_words),
        (filter_.min_bytes, "of at least {}", bytes_words),
        (filter_.prepared_min, "prepared for at least {}", age_words),
    )
    return [frame.format(format_(least)) for least, frame, format_ in sizes if least]


def _time_and_lsn(filter_: TransactionFilter) -> list[str]:
    parts = []
    for word, text in (("since", filter_.since), ("until", filter_.until)):
        if text:
            ago = "" if ":" in text or "-" in text else " ago"
            parts.append(f"{word} {text.replace('T', ' ') if not ago else text}{ago}")
    if filter_.from_lsn:
        parts.append(f"from {filter_.from_lsn}")
    if filter_.to_lsn:
        parts.append(f"to {filter_.to_lsn}")
    return parts


def _any_of(names: list[str]) -> str:
    shown = names[:_NAMES_SHOWN]
    if len(names) > _NAMES_SHOWN:
        shown.append(f"{len(names) - _NAMES_SHOWN} more")
    return " or ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
