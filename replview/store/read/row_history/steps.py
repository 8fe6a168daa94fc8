"""The changes of single rows as steps, in the order in which they took effect.

Within one life of a slot a row's lock serialises its changes, so they took effect in the order of
their commits, and those of one transaction in the order of their LSNs. A baseline's row (op S) is
no such change: it is the row as of a position, which holds exactly what committed before it. So a
change that was written before that position and committed after it comes after the snapshot.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.prepared import prepared_rows
from replview.store.read.seen import seen_step

#: After every commit: where a transaction stands that is not committed yet.
OPEN_END = (1 << 63) - 1

#: Place in a life: the commit (for a snapshot its position), whether it is a change of the stream
#: (a snapshot comes before the commit that begins where it stands), LSN, seq.
Place = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a row with what must be known of its transaction; LSNs as numbers."""

    transaction_id: int
    seq: int
    lsn: int
    subxid: int | None
    op: str
    old_kind: str | None
    old: dict[str, Any] | None
    new: dict[str, Any] | None
    relation_id: int
    version_id: int
    key_hash: int | None
    old_key_hash: int | None
    incarnation_id: int
    commit_seq: int | None
    xid: int | None
    gid: str | None
    state: str
    commit_lsn: int | None
    commit_time: dt.datetime | None
    actor: str | None
    actor_grade: str | None

    @property
    def place(self) -> Place:
        """Where in its life it took effect."""
        commit = OPEN_END if self.commit_lsn is None else self.commit_lsn
        return commit, int(self.op != "S"), self.lsn, self.seq

    @property
    def told(self) -> dict[str, Any]:
        """The row after it as far as it told: also what a whole old row holds of columns that
        were not sent because they did not change.
        """
        if self.op == "D":
            return {}
        return {**self.old, **(self.new or {})} if self.old else self.new or {}


#: What a query of steps selects from ``change c`` and ``transaction t``.
STEP_COLUMNS = """
    c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.subxid, c.op::text, c.old_kind::text,
    c.old, c.new, c.relation_id, c.version_id, c.key_hash, c.old_key_hash,
    t.incarnation_id, t.commit_seq, t.xid, t.gid, t.state, (t.commit_lsn - '0/0')::bigint,
    t.commit_time, t.actor, t.actor_grade
"""
#: Values longer than this many characters are cut where a walk reads many changes.
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


#: What a query gives. These name every partition of ``change``, a few times a page.
rows = prepared_rows


def step_of(row: Sequence[Any]) -> Step:
    """A row of ``STEP_COLUMNS`` as a step."""
    values = list(row)
    for index in (6, 7):
        if values[index] is not None:
            values[index] = orjson.loads(values[index])
    return seen_step(Step(*values))
