"""Format a transaction filter as a sentence."""

from replview.store.read.transactions.transaction_filter import (
    NO_ORIGIN,
    OPERATIONS,
    UNKNOWN_ACTOR,
    TransactionFilter,
)
from replview.text.formats import age_words, bytes_words, count_words

_DID = {
    "I": "inserted",
    "U": "updated",
    "D": "deleted",
    "T": "truncated",
    "M": "sent a message",
    "S": "read a baseline",
}
_NAMES_SHOWN = 3


def filter_text(wanted: TransactionFilter) -> str:
    """Return ``by alice, that updated or deleted in orders``; empty without a condition."""
    parts = []
    if wanted.id:
        parts.append(f"with xid or gid {wanted.id}")
    if wanted.states:
        parts.append(f"that are {_any_of(list(wanted.states))}")
    if wanted.actor:
        by_nobody = wanted.actor == UNKNOWN_ACTOR
        parts.append("of an unknown actor" if by_nobody else f"by {wanted.actor}")
    if wanted.origin:
        here = wanted.origin == NO_ORIGIN
        parts.append("written on the source" if here else f"from {wanted.origin}")
    parts += _did(wanted)
    parts += _sizes(wanted)
    parts += _stretch(wanted)
    if wanted.text:
        parts.append(f"that hold “{wanted.text}”")
    return ", ".join(parts)


def _did(wanted: TransactionFilter) -> list[str]:
    did = [_DID[one] for one in wanted.ops] if wanted.ops != OPERATIONS else []
    tables = [name.removeprefix("public.") for name in wanted.tables]
    if did:
        where = f" in {_any_of(tables)}" if tables else ""
        return [f"that {_any_of(did)}{where}"]
    return [f"that touched {_any_of(tables)}"] if tables else []


def _sizes(wanted: TransactionFilter) -> list[str]:
    sizes = (
        (wanted.min_changes, "of at least {} changes", count_words),
        (wanted.min_bytes, "of at least {}", bytes_words),
        (wanted.prepared_min, "prepared for at least {}", age_words),
    )
    return [frame.format(words(least)) for least, frame, words in sizes if least]


def _stretch(wanted: TransactionFilter) -> list[str]:
    parts = []
    for word, text in (("since", wanted.since), ("until", wanted.until)):
        if text:
            ago = "" if ":" in text or "-" in text else " ago"
            parts.append(f"{word} {text.replace('T', ' ') if not ago else text}{ago}")
    if wanted.from_lsn:
        parts.append(f"from {wanted.from_lsn}")
    if wanted.to_lsn:
        parts.append(f"to {wanted.to_lsn}")
    return parts


def _any_of(words: list[str]) -> str:
    shown = words[:_NAMES_SHOWN]
    if len(words) > _NAMES_SHOWN:
        shown.append(f"{len(words) - _NAMES_SHOWN} more")
    return " or ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
