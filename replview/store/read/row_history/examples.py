"""Rows of a table that were changed lately, for somebody who has no key at hand."""

import orjson

from replview.store.read.row_history.keys import TableRows
from replview.store.read.row_history.shapes import key_values
from replview.store.read.session import ReadSession

#: So many of the slot's last transactions are looked at, and changes of each.
_TRANSACTIONS = 400
_CHANGES = 20

_LATELY = """
    WITH lately AS MATERIALIZED (
        SELECT t.id, t.commit_seq, t.relations FROM transaction t
        WHERE t.incarnation_id = (SELECT s.incarnation_id FROM slot s WHERE s.id = %(slot)s)
          AND t.commit_seq IS NOT NULL
        ORDER BY t.commit_seq DESC LIMIT %(transactions)s
    ), touched AS MATERIALIZED (
        SELECT id, commit_seq FROM lately WHERE relations ? %(relation)s
        ORDER BY commit_seq DESC LIMIT %(wanted)s
    )
    SELECT c.old, c.new, c.version_id
    FROM touched t CROSS JOIN LATERAL (
        SELECT c.seq, c.old, c.new, c.version_id FROM change c
        WHERE c.transaction_id = t.id AND c.relation_id = %(relation)s::bigint
          AND c.key_hash IS NOT NULL AND c.seq <= 1000
        ORDER BY c.seq LIMIT %(changes)s
    ) c
    ORDER BY t.commit_seq DESC, c.seq LIMIT %(rows)s
"""


def changed_lately(
    session: ReadSession, table: TableRows, wanted: int
) -> list[dict[str, str | None]]:
    """The keys of a few rows, the one changed last first; empty where the last few hundred
    transactions left the table alone.
    """
    if table.withheld(session):
        return []
    parameters = {
        "slot": table.relation.slot_id,
        "relation": str(table.relation.pk),
        "transactions": _TRANSACTIONS,
        "wanted": wanted,
        "changes": _CHANGES,
        "rows": wanted * 5,
    }
    found: dict[tuple[str, ...], dict[str, str | None]] = {}
    for old, new, version_id in session.prepared_rows(_LATELY, parameters):
        version = table.shapes.versions.get(version_id)
        names = version.key_columns if version else []
        images = [None if image is None else orjson.loads(image) for image in (new, old)]
        key = key_values(names, *images)
        if key is not None and all(isinstance(value, str) for value in key):
            found.setdefault(key, dict(zip(names, key, strict=True)))
    return list(found.values())[:wanted]
