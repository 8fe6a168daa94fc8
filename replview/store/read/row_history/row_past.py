"""One row followed back from a change: what each earlier change of it tells of the row before.

Pure: whatever reads the earlier changes (``before_images``) hands them over as steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from decoder.scalars import LSN
from replview.store.read.row_history.breaks import Breaks
from replview.store.read.row_history.shapes import Shapes, key_values
from replview.store.read.rows import ChangeRow, Place, Step

#: So many are looked at in all, however they were read: what is told depends on nothing else.
_MOST_STEPS = 20


@dataclass(slots=True)
class RowPast:
    """One change, and how far its row was followed back."""

    change: Step
    #: What the row is known by there, and its hash.
    key: tuple[Any, ...]
    key_hash: int
    #: Look at what is before this LSN and seq.
    until: tuple[int, int]
    #: The place that follows whatever is looked at.
    upper: Place
    missing: set[str]
    #: None: all columns; else only these need be known.
    wanted: frozenset[str] | None = None
    steps: list[Step] = field(default_factory=list)
    looked_at: int = 0
    ended: bool = False
    #: It ended because enough is known: more could have been learnt.
    partial: bool = False
    #: The change that left the row so.
    last: Step | None = None
    #: What the server sent of the old row (its key), and what earlier changes tell.
    image: dict[str, Any] = field(default_factory=dict)
    #: Where a value that earlier changes tell is: transaction, seq, side.
    origins: dict[str, tuple[int, int, str]] = field(default_factory=dict)

    def end_if_enough(self) -> bool:
        """Whether there is nothing more to be learnt, or nothing more need be."""
        enough = self.wanted is not None and not self.missing & self.wanted
        self.partial = enough and bool(self.missing)
        self.ended = self.ended or enough or not self.missing
        return self.ended


def past_of(change: ChangeRow, mine: dict[int, Any], shapes: Shapes) -> RowPast | None:
    """Where to begin; None where the change does not tell its row's key."""
    found = mine.get(change.transaction_id)
    version = shapes.numbered(change.relation_id, change.version)
    if found is None or version is None:
        return None
    assert change.relation_id is not None
    step = Step(
        change.transaction_id, change.seq, int(LSN.parse(change.lsn)), change.subxid, change.op,
        change.old_kind, change.old, change.new, change.relation_id, version.id, change.key_hash,
        change.old_key_hash, found[0], None, None, None, "", found[1], None, None, None,
    )  # fmt: skip
    return past_of_step(step, change.key_columns, change.columns)


def past_of_step(
    step: Step, key_columns: Iterable[str], columns: Iterable[Mapping[str, Any]]
) -> RowPast | None:
    key = key_values(key_columns, step.old, step.new)
    key_hash = step.key_hash if step.old_key_hash is None else step.old_key_hash
    if key is None or key_hash is None:
        return None
    sent = dict(step.old or {})
    missing = {str(column["name"]) for column in columns} - sent.keys()
    return RowPast(step, key, key_hash, (step.lsn, step.seq), step.place, missing, image=sent)


def follow(past: RowPast, shapes: Shapes, breaks: Breaks, *, is_all: bool) -> None:
    """Take what the steps read so far tell; afterwards it has ended, or more must be read."""
    steps = sorted(
        {(s.transaction_id, s.seq): s for s in past.steps}.values(), key=lambda s: s.place
    )
    past.steps = []
    while steps and not past.ended:
        step = steps.pop()
        if step.op == "S" and not is_all and all(other.op == "S" for other in steps):
            # A change written before the snapshot and committed after it may be among the next.
            past.steps = [*steps, step]
            break
        past.looked_at += 1
        # The same hash can be another key's.
        if shapes.key_after(step) == past.key:
            past.ended = _take(past, step, shapes, breaks)
            if not past.ended and step.old_key_hash is not None:
                _move(past, step, shapes)
                past.ended = past.ended or past.looked_at >= _MOST_STEPS
                return
        past.ended = past.ended or past.looked_at >= _MOST_STEPS
    past.ended = past.ended or is_all


def _take(past: RowPast, step: Step, shapes: Shapes, breaks: Breaks) -> bool:
    """Take what one earlier change tells; whether there is nothing more to be learnt."""
    table, life = step.relation_id, step.incarnation_id
    if (
        step.op == "D"
        or table in breaks.unpublished
        or breaks.truncated(table, life, step.place, past.upper)
        or breaks.left_out_between(life, step.place, past.upper)
    ):
        return True
    past.last = past.last or step
    past.upper = step.place
    lasting = shapes.outliving(step.told, step, past.change)
    taken = past.missing & lasting.keys()
    past.image |= {name: lasting[name] for name in taken}
    past.origins |= {name: (step.transaction_id, step.seq, step.side(name)) for name in taken}
    past.missing -= taken
    # Beyond these nothing is told of the row that this one left.
    if step.op in ("I", "S") or step.old_kind == "O":
        return True
    return past.end_if_enough()


def _move(past: RowPast, step: Step, shapes: Shapes) -> None:
    """The row was known by another key before this step: follow that one."""
    key = shapes.key_before(step)
    if key is None or step.old_key_hash is None:
        past.ended = True
        return
    past.key, past.key_hash = key, step.old_key_hash
    past.until = (step.lsn, step.seq)
