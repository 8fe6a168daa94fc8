"""Values too long for JSONB, kept in pieces in ``large_value``."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

#: Characters a piece; a piece of 4-byte characters is 16 MB.
PIECE_CHARACTERS = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LargeText:
    """One value and where it belongs."""

    transaction_id: int
    seq: int
    #: ``old`` or ``new``.
    side: str
    column: str
    text: str


def store_large_values(connection: psycopg.Connection[Any], values: Iterable[LargeText]) -> None:
    """Store the values, a piece a row; runs inside the store transaction."""
    for value in values:
        for piece, start in enumerate(range(0, len(value.text), PIECE_CHARACTERS)):
            connection.execute(
                'INSERT INTO large_value (transaction_id, seq, side, "column", piece, content)'
                " VALUES (%s, %s, %s, %s, %s, %s)",
                [
                    value.transaction_id,
                    value.seq,
                    value.side,
                    value.column,
                    piece,
                    value.text[start : start + PIECE_CHARACTERS],
                ],
            )
