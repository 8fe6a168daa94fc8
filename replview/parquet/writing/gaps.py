"""What a slice cannot have: transactions left out by decision, or deleted from the store."""

from typing import Any

from replview.parquet.reading.connecting import Connection
from replview.parquet.slices import Slice

_SKIPPED = """
    SELECT commit_seq, commit_lsn::text FROM transaction
    WHERE incarnation_id = %s AND commit_seq > %s AND commit_seq <= %s AND state = 'skipped'
    ORDER BY commit_seq LIMIT 1000
"""
_STORED = """
    SELECT count(*) FROM transaction
    WHERE incarnation_id = %s AND commit_seq > %s AND commit_seq <= %s
"""
# The place in history has no holes of its own: what is missing was deleted.
_HOLES = """
    SELECT before, commit_seq FROM (
        SELECT commit_seq, lag(commit_seq, 1, %(after)s) OVER (ORDER BY commit_seq) AS before
        FROM (SELECT commit_seq FROM transaction WHERE incarnation_id = %(life)s
                AND commit_seq > %(after)s AND commit_seq <= %(through)s
              UNION ALL SELECT %(through)s + 1) AS stored
    ) AS pairs WHERE commit_seq > before + 1 ORDER BY 1 LIMIT 1000
"""


def gaps_of(connection: Connection, part: Slice) -> list[dict[str, Any]]:
    """In the order of history, of each kind; the first thousand."""
    ends = (part.incarnation_id, part.after_seq, part.through_seq)
    found: list[dict[str, Any]] = [
        {"kind": "skipped", "commit_seq": seq, "commit_lsn": lsn}
        for seq, lsn in connection.execute(_SKIPPED, ends)
    ]
    [stored] = connection.execute(_STORED, ends).fetchone() or (0,)
    if stored == part.through_seq - part.after_seq:
        return found
    told = {"life": ends[0], "after": ends[1], "through": ends[2]}
    deleted = [
        {"kind": "deleted", "after_seq": before, "through_seq": seq - 1}
        for before, seq in connection.execute(_HOLES, told)
    ]
    return deleted + found
