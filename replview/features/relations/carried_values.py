"""Find evidence of a likely rename: values that moved from one column to another.

The first updates under the later version are compared with the last stored images of the same rows
under the earlier version. The number of transactions and rows is bounded.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from replview.access.visibility import current_visibility
from replview.features.relations.schema_history import VersionHistory
from replview.store.django_session import rows

_MOST_TRANSACTIONS = 20
_MOST_ROWS = 20
#: Number of first changes of each transaction that are searched.
_CHANGES_SEARCHED = 1000
_PAIRS = """
    WITH early AS (
        SELECT id FROM transaction
        WHERE incarnation_id = %(incarnation)s
          AND commit_seq >= %(seq)s AND commit_seq < %(seq)s + 5000
          AND state = 'committed' AND jsonb_exists(relations, %(key)s)
        ORDER BY commit_seq LIMIT %(transactions)s),
    later AS (
        SELECT c.key_hash, c.lsn, c.seq, c.new FROM early e CROSS JOIN LATERAL (
            SELECT key_hash, lsn, seq, new FROM change
            WHERE transaction_id = e.id AND seq <= %(looked)s AND relation_id = %(relation)s
              AND version_id = %(later)s AND op = 'U' AND key_hash IS NOT NULL
              AND old_key_hash IS NULL
            ORDER BY seq LIMIT %(rows)s) c
        LIMIT %(rows)s)
    SELECT b.new, l.new FROM later l CROSS JOIN LATERAL (
        SELECT new, version_id FROM change
        WHERE relation_id = %(relation)s AND key_hash = l.key_hash AND (lsn, seq) < (l.lsn, l.seq)
        ORDER BY lsn DESC, seq DESC LIMIT 1) b
    WHERE b.version_id = %(earlier)s AND b.new IS NOT NULL
"""


def values_carried(
    relation_id: int,
    earlier: VersionHistory,
    later: VersionHistory,
    pairs: Sequence[tuple[str, str]],
) -> dict[tuple[str, str], tuple[int, int]]:
    """Return, by old and new name, the number of rows compared and of rows with the same value.

    NULLs are not compared.
    """
    first_transaction = later.first.found if later.first else None
    if first_transaction is None or first_transaction.commit_seq is None:
        return {}
    params: dict[str, Any] = {
        "incarnation": first_transaction.incarnation_id,
        "seq": first_transaction.commit_seq,
        "key": str(relation_id),
        "relation": relation_id,
        "earlier": earlier.version.pk,
        "later": later.version.pk,
        "transactions": _MOST_TRANSACTIONS,
        "rows": _MOST_ROWS,
        "looked": _CHANGES_SEARCHED,
    }
    if current_visibility().hides(relation_id):
        return {}
    masked = current_visibility().masked(relation_id)
    pairs = [pair for pair in pairs if not masked.intersection(pair)]
    values = [(orjson.loads(old), orjson.loads(new)) for old, new in rows(_PAIRS, params)]
    carried = {}
    for before, after in pairs:
        value_pairs = [(old.get(before), new.get(after)) for old, new in values]
        compared = [(a, b) for a, b in value_pairs if isinstance(a, str) and isinstance(b, str)]
        if compared:
            carried[before, after] = len(compared), sum(a == b for a, b in compared)
    return carried
