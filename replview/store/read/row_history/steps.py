"""Selecting the changes of single rows as steps."""

from collections.abc import Sequence
from typing import Any

import orjson

from replview.store.read.changes.values import cut_sql
from replview.store.read.rows import Step
from replview.store.read.seen import seen_step
from replview.store.read.visibility import Visibility

#: What a query of steps selects from ``change c`` and ``transaction t``.
STEP_COLUMNS = """
    c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.subxid, c.op::text, c.old_kind::text,
    c.old, c.new, c.relation_id, c.version_id, c.key_hash, c.old_key_hash,
    t.incarnation_id, t.commit_seq, t.xid, t.gid, t.state, (t.commit_lsn - '0/0')::bigint,
    t.commit_time, t.actor, t.actor_grade
"""
#: Values longer than this many characters are cut where a scan reads many changes.
CUT_CHARACTERS = 20_000
_CUT = {
    side: cut_sql(f"c.{side}", look_into=4096, characters=CUT_CHARACTERS, head=400)
    for side in ("old", "new")
}
#: The same, long values cut (see ``store.read.changes.values``): what a page shows of many changes.
CUT_COLUMNS = STEP_COLUMNS.replace("c.old, c.new", f"{_CUT['old']}, {_CUT['new']}")


def step_of(row: Sequence[Any], visibility: Visibility) -> Step:
    """A row of ``STEP_COLUMNS`` as a step."""
    values = list(row)
    for index in (6, 7):
        if values[index] is not None:
            values[index] = orjson.loads(values[index])
    return seen_step(Step(*values), visibility)
