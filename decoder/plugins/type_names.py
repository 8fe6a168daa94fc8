"""Type names as the server spells them: ``format_type()`` with and without a modifier.

Source: PostgreSQL, format_type.c.
"""

from __future__ import annotations

from typing import Final

#: Types whose name says more than a modifier in parentheses, or another thing
#: without one: bpchar, bit and interval, and their arrays.
_WITHOUT: Final[dict[int, str]] = {
    1042: "character",
    1014: "character[]",
    1560: "bit",
    1561: "bit[]",
    1186: "interval",
    1187: "interval[]",
}


def without_modifier(name: str, type_oid: int = 0) -> str:
    """``numeric(12,2)[]`` → ``numeric[]``: as ``format_type_be()`` spells the type.

    What is in quotes stays as it is. ``type_oid``: ``pg_type.oid``, where known.
    """
    if type_oid in _WITHOUT:
        return _WITHOUT[type_oid]
    kept: list[str] = []
    # Odd pieces are inside quotes; a doubled quote makes an empty piece outside.
    for index, piece in enumerate(name.split('"')):
        if index % 2 == 0:
            before, opened, rest = piece.partition("(")
            _, closed, after = rest.partition(")")
            piece = before + after if opened and closed else piece
        kept.append(piece)
    return '"'.join(kept)
