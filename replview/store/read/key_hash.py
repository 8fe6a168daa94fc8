"""The 64-bit hash under which a row's changes are found (``change.key_hash``)."""

from collections.abc import Sequence

import xxhash

#: Between the values of a key of several columns; cannot occur in one of PostgreSQL's texts often
#: enough to matter: a hash only narrows the search, the key itself is compared afterwards.
SEPARATOR = "\x1f"
#: In place of a value that is SQL NULL (only possible where the identity is FULL).
NULL_MARK = "\x00"


def key_hash(values: Sequence[str | None]) -> int:
    """The hash of a key: its values, in the order of the version's ``key_columns``.

    Returns an unsigned 64-bit number; ``signed_hash`` makes the column's value of it.
    """
    text = SEPARATOR.join(NULL_MARK if value is None else value for value in values)
    return xxhash.xxh3_64_intdigest(text.encode())


def signed_hash(values: Sequence[str | None]) -> int:
    """``key_hash`` as the signed ``bigint`` the column holds."""
    unsigned = key_hash(values)
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned
