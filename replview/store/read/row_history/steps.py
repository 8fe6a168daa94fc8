"""Selecting the changes of single rows as steps."""

from collections.abc import Sequence
from typing import Any

import orjson

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
_CUT = """CASE WHEN coalesce(pg_column_size(IMAGE), 0) < 4096 THEN IMAGE ELSE (
        SELECT jsonb_object_agg(e.key, CASE
            WHEN jsonb_typeof(e.value) = 'string' AND length(e.value #>> '{}') > LIMIT
            THEN jsonb_build_object('$cut', length(e.value #>> '{}'),
                 '$head', left(e.value #>> '{}', 400), '$md5', md5(e.value #>> '{}'))
            ELSE e.value END)
        FROM jsonb_each(IMAGE) e) END""".replace("LIMIT", str(CUT_CHARACTERS))
#: The same, long values cut (see ``store.read.changes.values``): what a page shows of many changes.
CUT_COLUMNS = STEP_COLUMNS.replace(
    "c.old, c.new", f"{_CUT.replace('IMAGE', 'c.old')}, {_CUT.replace('IMAGE', 'c.new')}"
)
#: How many columns those are.
STEP_WIDTH = 21
#: A subtransaction's abort takes its changes away again.
NOT_ABORTED = """NOT EXISTS (
    SELECT FROM aborted_subtransaction a
    WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)"""


def step_of(row: Sequence[Any], visibility: Visibility) -> Step:
    """A row of ``STEP_COLUMNS`` as a step."""
    values = list(row)
    for index in (6, 7):
        if values[index] is not None:
            values[index] = orjson.loads(values[index])
    return seen_step(Step(*values), visibility)
