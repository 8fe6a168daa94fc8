"""The drawer of the in-flight page: one transaction, what it blocks, how it is ended, its life."""

from dataclasses import dataclass, field
from typing import Any

from replview.access.visibility import reading_session
from replview.features.in_flight import queries as store
from replview.features.in_flight.page import Scope, in_flight_rows
from replview.features.in_flight.rows import EndedRow, InFlightRow
from replview.features.in_flight.text import database_of
from replview.health.holding import Holding, holding_of, vacuum_holder
from replview.health.open_transactions import (
    Statement,
    Touched,
    end_of_session,
    ends_of_prepared,
    touched_by,
)
from replview.health.source_looks import Look
from replview.store.models import Slot, SlotIncarnation, Transaction
from replview.store.read.history import HIDDEN_STATES, relation_names, transitions_of
from replview.text.formats import bytes_words, count_words, plural
from replview.ui.changes.stages import Life, life_of


@dataclass(slots=True, kw_only=True)
class Blocked:
    """What waits for it: vacuum, sessions, changes of its tables' shape."""

    vacuum: str = ""
    #: Who holds vacuum further back still.
    older: str = ""
    #: None where this role may not see who waits.
    sessions: int | None = None


@dataclass(slots=True, kw_only=True)
class Chosen:
    """One transaction as the drawer tells it; ``open`` or ``ended`` is set."""

    transaction: Transaction
    slot: Slot
    life: Life | None
    open: InFlightRow | None = None
    ended: EndedRow | None = None
    tables: list[Touched] = field(default_factory=list)
    blocked: Blocked | None = None
    statements: tuple[Statement, ...] = ()
    database: str = ""
    holding: Holding | None = None
    #: Whether the changes of one that came to nothing are still in the store.
    kept: bool = True

    @property
    def name(self) -> str:
        """Its gid, else its xid."""
        return self.transaction.gid or str(self.transaction.xid or "unknown")

    @property
    def session(self) -> dict[str, Any]:
        """The session that runs it, as sampled; empty where none is known."""
        found = (self.open.on_source.found if self.open else None) or {}
        return found if "pid" in found else {}

    @property
    def owner(self) -> str:
        """The role that prepared it."""
        found = (self.open.on_source.found if self.open else None) or {}
        return str(found.get("owner") or found.get("role") or "")

    @property
    def received(self) -> int:
        """All its changes, those taken back among them."""
        row = self.transaction
        return row.inserts + row.updates + row.deletes + row.truncates + row.messages

    @property
    def counted(self) -> int:
        """Its changes that were not taken back."""
        return max(self.received - self.transaction.aborted_changes, 0)

    @property
    def limit_words(self) -> str:
        """What bounds the WAL that it holds."""
        limit = self.slot.source.max_slot_wal_keep_bytes
        if limit is None:
            return "limit unknown"
        return "no limit set" if limit < 0 else f"of {bytes_words(limit)} at most"


def read_chosen(identifier: int | None, scope: Scope) -> Chosen | None:
    """The transaction of that number, whatever became of it; None where there is none."""
    if identifier is None:
        return None
    row = Transaction.objects.filter(pk=identifier).exclude(state__in=HIDDEN_STATES).first()
    if row is None:
        return None
    life = SlotIncarnation.objects.select_related("slot__source").get(pk=row.incarnation_id)
    made = Chosen(transaction=row, slot=life.slot, life=None)
    transitions = transitions_of(reading_session(), [row.pk]).get(row.pk, ())
    made.life = life_of(row, transitions, scope.now)
    names = relation_names(reading_session(), {int(key) for key in row.relations})
    made.tables, _ = touched_by(row, names, shown=50)
    if row.state in store.OPEN_STATES and row.incarnation_id in scope.incarnations:
        _tell_open(made, scope)
    else:
        made.ended = EndedRow(transaction=row, slot=made.slot, life=made.life)
        made.kept = store.changes_are_kept(row, made.slot)
    return made


def _tell_open(made: Chosen, scope: Scope) -> None:
    row, look = made.transaction, scope.look(made.slot)
    [one] = in_flight_rows([row], scope)
    made.open = one
    made.database = database_of(one)
    first = store.first_open([row.incarnation_id]).get(row.incarnation_id)
    made.holding = holding_of(made.slot, look, scope.now, first)
    made.blocked = _blocked(made, look)
    prepared_there = "gid" in (one.on_source.found or {})
    if row.state == "prepared" and row.gid and one.on_source.word != "gone":
        made.statements = ends_of_prepared(row.gid, plural(one.row.changes, "change"))
    elif prepared_there:
        gid = str((one.on_source.found or {})["gid"])
        made.statements = ends_of_prepared(gid, "changes")
    elif made.session:
        made.statements = (end_of_session(row, made.session["pid"]),)


def _blocked(made: Chosen, look: Look) -> Blocked | None:
    """Only numbers the source told; nothing of one that is gone from it."""
    assert made.open is not None
    if made.open.on_source.word == "gone" or made.transaction.state == "receiving":
        return None
    xid = made.transaction.xid
    age = look.age_of(xid)
    told = Blocked(sessions=look.waiting_for(xid) if look.fresh else None)
    if age is not None and look.fresh:
        told.vacuum = f"rows deleted in the last {plural(age, 'transaction')} stay"
        holder = vacuum_holder(look)
        # Snapshots are a little older than the transaction that took them: that says nothing.
        if holder is not None and holder.oldest > age * 1.2 + 10:
            kind = {"running": "the session "}.get(holder.kind, f"the {holder.kind} ")
            kind = "" if holder.kind == "prepared" else kind
            told.older = f"{kind}{holder.name} keeps still more: {count_words(holder.oldest)}"
    return told
